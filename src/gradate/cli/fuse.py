"""`gradate fuse`: several runs averaged into one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gradate.cli.files import check_folder
from gradate.cli.options import (
    ColumnsOption,
    DataOption,
    JsonOption,
    OverwriteOption,
    PrecisionOption,
    ScaleOption,
    TrustOption,
    parse_scale,
)
from gradate.cli.output import facts, open_output, table

if TYPE_CHECKING:
    from rich.table import Table

    from gradate.runs.fuse import Fusion


def fuse(
    base: Annotated[str, typer.Argument(metavar="BASE", help="Where the runs began: a model.")],
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN …", help="Run folders, or models.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.")],
    rule: Annotated[
        Literal["proportional", "squared", "inverse", "softmax", "uniform", "greedy"],
        typer.Option(help="Weights by the deviation from BASE; equal; or equal over the runs that help (`greedy`)."),
    ] = "proportional",
    level: Annotated[
        Literal["model", "layer", "tensor", "element"], typer.Option(help="What one deviation is taken of.")
    ] = "tensor",
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Of the softmax rule. Default: the mean deviation.")
    ] = None,
    pull_back: Annotated[
        float, typer.Option(metavar="SHARE", help="Move the result back towards BASE, 0 to below 1.")
    ] = 0.0,
    select: Annotated[
        str,
        typer.Option(metavar="PAIRS", help="Measure on a file of pairs or a source such as `sts-dev-clean`."),
    ] = "none",
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    data: DataOption = None,
    precision: PrecisionOption = "auto",
    overwrite: OverwriteOption = False,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fuse runs that began from one model, each weighted by how far it moved; --select shows soups beside it."""
    check_folder(out, overwrite=overwrite)
    with open_output(as_json) as output:
        from gradate.runs.fuse import fuse as run_fuse

        found = run_fuse(
            base,
            runs,
            out,
            rule=rule,
            level=level,
            temperature=temperature,
            pull_back=pull_back,
            select=None if select == "none" else select,
            scale=parse_scale(scale),
            columns=columns,
            data=data,
            precision=precision,
            overwrite=overwrite,
            trust_remote_code=trust_remote_code,
        )
        output.note(*found.notes)
        output.result(found.to_json(), _shown(found), "", facts({"out": found.model}))


def _shown(found: Fusion) -> Table:
    selection = found.selection
    rows: list[tuple[object, ...]] = [
        (run, f"{weight:.4f}", f"{deviation:.2e}", selection.runs[i] if selection is not None else None)
        for i, (run, weight, deviation) in enumerate(zip(found.runs, found.weights, found.deviations, strict=True))
    ]
    if selection is None:
        return table((found.title, "weight", "moved by"), [row[:3] for row in rows])
    rows += [
        (f"uniform soup of {len(found.runs)}", None, None, selection.uniform),
        (f"greedy soup of {len(selection.chosen)}", None, None, selection.greedy),
        (f"written: {found.title}", None, None, found.value),
    ]
    title = f"Spearman on {' + '.join(selection.sets)}"
    return table(("", "weight", "moved by", title), [(found.base, None, None, selection.base), *rows])
