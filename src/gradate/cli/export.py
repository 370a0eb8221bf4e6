"""`gradate export`: a model as an ONNX or OpenVINO graph, and what that costs and gains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradate.cli.files import check_folder
from gradate.cli.gains import gains_table
from gradate.cli.options import (
    ColumnsOption,
    JsonOption,
    ModelArgument,
    OverwriteOption,
    ScaleOption,
    TrustOption,
    parse_scale,
)
from gradate.cli.output import facts, open_output, table

if TYPE_CHECKING:
    from rich.table import Table


def export(
    model: ModelArgument,
    backend: Annotated[Literal["onnx", "openvino"], typer.Option(help="What is to run the model.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    int8: Annotated[bool, typer.Option("--int8", help="Quantize to 8-bit numbers.")] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="WHERE", help="Measure on the seven STS sets, which lie here; see `gradate evaluate`."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure on your own graded pairs. Default: the starter set's test pairs."),
    ] = None,
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pairs on whose texts OpenVINO's int8 is calibrated; needs no grades."),
    ] = None,
    overwrite: OverwriteOption = False,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model as a graph for ONNX Runtime or OpenVINO, and measure what that costs and gains."""
    check_folder(out, overwrite=overwrite)
    with open_output(as_json) as output:
        from gradate.runs.export import export as run_export

        found = run_export(
            model,
            out,
            backend,
            int8=int8,
            data=data or None,
            pairs=pairs,
            scale=parse_scale(scale),
            columns=columns,
            calibration=calibration,
            overwrite=overwrite,
            trust_remote_code=trust_remote_code,
            show_progress=output.progress,
        ).to_json()
        output.note(*filter(None, [found["reason"]]), *found["notes"])
        output.result(found, gains_table(found["quality"]), "", _costs(found), "", facts({"out": found["out"]}))


def _costs(found: dict[str, Any]) -> Table:
    cosine, speed = found["cosine"], found["texts_per_second"]
    ratio = f"{speed['ratio']:.2f} × ({speed['ratio_low']:.2f} to {speed['ratio_high']:.2f})"
    return table(
        ("cost", "original", "exported", "exported / original"),
        [
            ("texts per second", round(speed["original"]), round(speed["exported"]), ratio),
            (
                "megabytes",
                found["original_bytes"] / 1e6,
                found["bytes"] / 1e6,
                f"{found['bytes'] / found['original_bytes']:.2f} ×",
            ),
            ("cosine to the original, mean", None, f"{cosine['mean']:.4f}", None),
            (f"cosine, least of {cosine['texts']:,} texts", None, f"{cosine['min']:.4f}", None),
        ],
    )
