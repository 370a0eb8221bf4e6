"""`gradate mine`: pairs worth annotating."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.files import check_out, write_table
from gradate.cli.options import (
    ColumnsOption,
    JsonOption,
    OverwriteOption,
    PrecisionOption,
    ScaleOption,
    TrustOption,
    parse_scale,
)
from gradate.cli.output import facts, open_output, table
from gradate.errors import InputError


def mine(
    model: Annotated[str, typer.Option(metavar="MODEL", help="`bundled`, a folder, or a Hub name.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .csv, .tsv, .jsonl or .parquet.")],
    texts: Annotated[
        Path | None, typer.Argument(metavar="TEXTS", help="A .txt with one text per line, or a table.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Graded pairs instead: list those the model disagrees with.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Pairs in all.")] = 100,
    bands: Annotated[
        str, typer.Option(metavar="A,B,…", help="Cosines at which one band ends and the next begins.")
    ] = "0.2,0.4,0.6,0.8",
    per_text: Annotated[int, typer.Option(min=1, help="Pairs that one text may stand in.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice and of the order.")] = 0,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which column of a table holds the texts.")
    ] = None,
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    precision: PrecisionOption = "auto",
    overwrite: OverwriteOption = False,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Propose pairs for annotation, evenly over bands of similarity; or find grades to look at again."""
    if (texts is None) == (pairs is None):
        raise InputError("what to mine?", remedy="give a file of texts, or graded pairs with --pairs FILE")
    check_out(out, overwrite=overwrite)
    edges = _edges(bands)
    with open_output(as_json) as output:
        from gradate.data.readers import read_pairs
        from gradate.data.texts import read_texts
        from gradate.models.graded import GradedModel
        from gradate.runs.disagreements import find_disagreements
        from gradate.runs.mine import propose_pairs

        lines = None if texts is None else read_texts(texts, column)
        graded = None if pairs is None else read_pairs(pairs, scale=parse_scale(scale), columns=columns)
        judge = GradedModel.from_pretrained(model, precision=precision, trust_remote_code=trust_remote_code)
        if graded is not None:
            listed = find_disagreements(graded, judge, count=count, show_progress=output.progress)
            write_table(out, listed.columns())
            output.note(f"precision: {judge.precision}", *listed.notes)
            found = {"out": str(out), **listed.to_json()}
            output.result(found, facts({name: found[name] for name in ("out", "pairs", "compared")}))
            return
        proposal = propose_pairs(
            lines or [], judge, count=count, bands=edges, per_text=per_text, seed=seed, show_progress=output.progress
        )
        write_table(out, proposal.columns())
        output.note(f"precision: {judge.precision}", *proposal.notes)
        found = {"out": str(out), **proposal.to_json()}
        rows = [(band["name"], band["asked"], band["found"], band["held"]) for band in found["bands"]]
        summary = facts({name: found[name] for name in ("out", "pairs", "texts")})
        output.result(found, table(("similarity", "asked", "proposed", "there are"), rows), "", summary)


def _edges(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"cannot read {text!r}", where="--bands", remedy="write rising cosines: 0.2,0.4") from None
