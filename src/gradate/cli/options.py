"""Options that several verbs share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from gradate.scale import LabelScale


ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="`bundled`, a folder, or a Hub name.")]
ScaleOption = Annotated[
    str | None,
    typer.Option(
        metavar="SCALE", help="`a,b,c` names low to high, `0,1,2` values, `0..5` continuous. Default: inferred."
    ),
]
ColumnsOption = Annotated[
    str | None, typer.Option(metavar="A,B,GRADE", help="Which columns hold the texts and the grade.")
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHERE",
        help="A folder in SentEval's layout, one of retrieval sets, or NAME=PATH; repeats. GRADATE_DATA holds more.",
    ),
]
PrecisionOption = Annotated[
    Literal["auto", "fp32", "tf32", "bf16"],
    typer.Option(help="Number format of the forward passes; `auto` says what it chose and why."),
]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Texts per forward pass at most; by default as many as a token budget holds.")
]
TrustOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let a model from the Hub run code of its own.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Only JSON on stdout; everything for people on stderr.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what stands at --out.")]
OutFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where to write: .csv, .tsv, .jsonl or .parquet.")
]


def parse_seeds(text: str) -> list[int]:
    """Seeds as written on the command line.

    Raises:
        InputError: anything but whole numbers between commas.
    """
    from gradate.errors import InputError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"cannot read {text!r}", where="--seeds", remedy="write whole numbers: 1,2,3") from None


def parse_scale(text: str | None) -> LabelScale | None:
    """The declared scale, if one was declared."""
    from gradate.scale import LabelScale

    return None if text is None else LabelScale.parse(text)
