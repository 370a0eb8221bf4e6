"""`gradate corpus`: training corpora written out as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.files import check_out, write_table
from gradate.cli.options import DataOption, JsonOption, OverwriteOption
from gradate.cli.output import facts, open_output

app = typer.Typer(help="Write a training corpus out as a file.")


@app.callback()
def _corpora() -> None:
    """Keep `sts` a name of its own while it is the only corpus."""


@app.command()
def sts(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .jsonl, .csv, .tsv or .parquet.")],
    positives: Annotated[float, typer.Option(metavar="T", help="Count pairs with a score of at least T.")] = 4.0,
    data: DataOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the STS-B and SICK-R training pairs that stand in none of the seven tests, on the scale 0..5."""
    check_out(out, overwrite=overwrite)
    with open_output(as_json) as output:
        from gradate.data.corpus import build_sts_corpus
        from gradate.data.locations import DataLocations

        corpus = build_sts_corpus(DataLocations.resolve(data))
        pairs = corpus.pairs
        output.note(*pairs.notes)
        columns = {"sentence1": pairs.text1, "sentence2": pairs.text2, "score": pairs.grades.tolist()}
        write_table(out, {**columns, "source": corpus.sources})
        counts = {
            "stsb": corpus.stsb,
            "sick": corpus.sick,
            "total": corpus.total,
            "removed": corpus.removed,
            "positives": int((pairs.grades >= positives).sum()),
        }
        output.result({**counts, "out": str(out)}, facts({**counts, "out": out}))
