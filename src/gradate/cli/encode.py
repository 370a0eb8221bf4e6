"""`gradate encode`: embeddings of any number of texts, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.options import JsonOption, ModelArgument, OverwriteOption, PrecisionOption, TrustOption
from gradate.cli.output import facts, open_output
from gradate.errors import InputError


def encode(
    model: ModelArgument,
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="A .txt with one text per line, or a table.")],
    out: Annotated[Path, typer.Option(metavar="FILE.npy", help="Where the embeddings go, one row per text.")],
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which column of a table holds the texts.")
    ] = None,
    prompt_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A prompt of the model to put first.")
    ] = None,
    precision: PrecisionOption = "auto",
    overwrite: OverwriteOption = False,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Encode texts; interrupted, the same command goes on where it stopped."""
    if out.suffix != ".npy":
        raise InputError("embeddings are written as .npy", where=out, remedy=f"name it {out.with_suffix('.npy').name}")
    if out.exists() and not overwrite:
        raise InputError("exists", where=out, remedy="name another file or pass --overwrite")
    with open_output(as_json) as output:
        from gradate.data.texts import read_texts
        from gradate.engine.encoding import count_truncated
        from gradate.engine.vector_file import encode_to_file
        from gradate.models.graded import GradedModel

        rows = read_texts(texts, column)
        graded = GradedModel.from_pretrained(model, precision=precision, trust_remote_code=trust_remote_code)
        prompts = graded.encoder.prompts
        if prompt_name is not None and prompt_name not in prompts:
            known = ", ".join(prompts) or "none"
            raise InputError(f"has no prompt {prompt_name!r}", where=model, remedy=f"its prompts: {known}")
        output.note(f"precision: {graded.precision}")
        written = encode_to_file(
            graded.encoder,
            rows,
            out,
            precision=graded.precision,
            prompt=prompts[prompt_name] if prompt_name is not None else None,
            show_progress=output.progress,
            note=output.note,
        )
        truncated = count_truncated(graded.encoder, rows)
        if truncated:
            output.note(f"truncated: {truncated:,} distinct texts are longer than the encoder reads")
        counts = {
            "out": str(out),
            "rows": written.rows,
            "dim": written.dim,
            "distinct": written.distinct,
            "resumed": written.resumed,
            "truncated": truncated,
        }
        output.result(counts, facts(counts))
