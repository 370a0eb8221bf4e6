"""`gradate score`: predictions for pairs nobody has graded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradate.cli.files import check_out, write_table
from gradate.cli.options import (
    BatchSizeOption,
    JsonOption,
    ModelArgument,
    OutFileOption,
    OverwriteOption,
    PrecisionOption,
    TrustOption,
)
from gradate.cli.output import facts, open_output
from gradate.errors import InputError

if TYPE_CHECKING:
    from gradate.models.graded import PairScores
    from gradate.scale import LabelScale


def score(
    model: ModelArgument,
    texts: Annotated[list[str] | None, typer.Argument(metavar="A B", help="Two texts to compare.")] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of pairs instead; it needs no grades.")
    ] = None,
    out: OutFileOption = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Which columns of FILE hold the texts.")] = None,
    precision: PrecisionOption = "auto",
    batch_size: BatchSizeOption = None,
    overwrite: OverwriteOption = False,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict grades: on the model's scale, clipped to its ends, with the nearest grade and the cosine."""
    _check_usage(texts, pairs, out, as_json)
    if out is not None:
        check_out(out, overwrite=overwrite)
    with open_output(as_json) as output:
        from gradate.data.readers import read_text_pairs
        from gradate.models.graded import GradedModel

        if pairs is not None:
            text1, text2, _ = read_text_pairs(pairs, columns)
        else:
            text1, text2 = ([text] for text in texts or ())
        graded = GradedModel.from_pretrained(model, precision=precision, trust_remote_code=trust_remote_code)
        graded.predict([])  # a model that cannot predict says so before anything is encoded
        scores = graded.score(
            list(zip(text1, text2, strict=True)), batch_size=batch_size, show_progress=output.progress
        )
        columns_out, clipped = _columns(scores, graded.scale)
        if clipped:
            output.note(f"clipped to the scale {graded.scale}: {clipped:,} of {len(text1):,} predictions")
        if scores.truncated:
            output.note(f"truncated: {scores.truncated:,} distinct texts are longer than the encoder reads")
        if scores.undefined:
            output.note(f"without direction: {scores.undefined:,} pairs hold a zero embedding, similarity 0")
        if out is not None:
            write_table(out, {"text1": text1, "text2": text2, **columns_out})
            counts = {"rows": len(text1), "clipped": clipped, "truncated": scores.truncated, "out": str(out)}
            output.result(counts, facts(counts))
        else:
            items = [dict(zip(columns_out, row, strict=True)) for row in zip(*columns_out.values(), strict=True)]
            output.result(items, *map(facts, items if pairs is None else ()))


def _check_usage(texts: list[str] | None, pairs: Path | None, out: Path | None, as_json: bool) -> None:
    if (texts is None) == (pairs is None):
        raise InputError("what to score?", remedy='give two texts, "A" "B", or a file with --pairs FILE')
    if texts is not None:
        if len(texts) != 2:
            raise InputError(f"two texts make a pair, got {len(texts)}", remedy="put each text in quotes")
        if not all(text.strip() for text in texts):
            raise InputError("an empty text cannot be scored", remedy="give two texts")
        if out is not None:
            raise InputError("--out belongs to --pairs", remedy="drop it, or put the texts into a file")
    elif out is None and not as_json:
        raise InputError("where to write?", remedy="pass --out FILE, or --json to print every pair")


def _columns(scores: PairScores, scale: LabelScale | None) -> tuple[dict[str, list[Any]], int]:
    """Columns prediction, grade and similarity, and how many predictions were clipped."""
    assert scores.prediction is not None and scale is not None  # `predict` has checked it
    prediction = scale.clamp(scores.prediction)
    grades: list[Any] = [None] * len(prediction) if scale.is_continuous else scale.classify(prediction)
    columns = {"prediction": prediction.tolist(), "grade": grades, "similarity": scores.similarity.tolist()}
    return columns, int((prediction != scores.prediction).sum())
