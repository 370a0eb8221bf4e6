"""Encoding into a file: rows in the order of the texts, memory bounded, interrupted and gone on with at will."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sentence_transformers import SentenceTransformer

from gradate.engine.encoding import encode_distinct
from gradate.engine.fingerprint import NoFingerprintError, fingerprint
from gradate.engine.precision import Precision
from gradate.errors import GradateError, Interrupted

CHUNK = 16_384
"""Texts between two points from which an interrupted encoding goes on."""


@dataclass(frozen=True)
class VectorFile:
    """What was written.

    Args:
        path: An `.npy` file, float32 (rows, dim); `numpy.load(path, mmap_mode="r")` opens it without reading it.
        rows: Texts.
        dim: Numbers per text.
        distinct: Distinct texts among them; a repeated one is copied.
        resumed: Rows that an earlier, interrupted call had written.
    """

    path: Path
    rows: int
    dim: int
    distinct: int
    resumed: int


def encode_to_file(
    encoder: SentenceTransformer,
    texts: Sequence[str],
    path: Path,
    *,
    precision: Precision,
    prompt: str | None = None,
    show_progress: bool = False,
    note: Callable[[str], None] = lambda line: None,
) -> VectorFile:
    """Encode texts into an `.npy` file that appears when it is complete.

    Beside the texts themselves memory holds the embeddings of 16,384 of them. What is done stands in a hidden file
    beside `path`; a later call with the same texts and the same encoder goes on from there.

    Args:
        encoder: The model.
        texts: Texts (n,), repeats allowed.
        path: Where the file goes; replaced if it exists.
        precision: See `resolve_precision`.
        prompt: Text put before every text; None: the encoder's default prompt, if any.
        show_progress: Show a progress bar per chunk on stderr.
        note: Called with a line about what is gone on with, or begun anew and why.

    Raises:
        Interrupted: Ctrl-C; what is done so far is kept.
        GradateError: the disk is full; what is done so far is kept.
    """
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    try:
        model = fingerprint(encoder, precision, prompt)
    except NoFingerprintError:
        # Nothing tells such an encoder from another, so no draft of an earlier call is gone on with.
        model = secrets.token_hex(16)
    draft = _Draft(path, texts, model, encoder.get_embedding_dimension() or 0)
    done = resumed = draft.rows_done(note)
    try:
        with draft.open(done) as file:
            while done < len(texts):
                chunk = range(done, min(done + CHUNK, len(texts)))
                new = [texts[row] for row in chunk if first[texts[row]] == row]
                encoded = encode_distinct(
                    encoder, new, precision=precision, prompt=prompt, show_progress=show_progress
                )
                fresh = dict(zip(new, encoded.embeddings, strict=True))
                rows = np.empty((len(chunk), draft.dim), dtype=np.float32)
                for place, row in enumerate(chunk):
                    text = texts[row]
                    rows[place] = fresh[text] if text in fresh else draft.row(first[text])
                draft.append(file, rows, chunk.stop)
                done = chunk.stop
    except KeyboardInterrupt:
        raise Interrupted(
            f"{path}: stopped after {done:,} of {len(texts):,} texts; the same command goes on"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise GradateError(
            f"{path}: {reason} after {done:,} of {len(texts):,} texts (make room, then go on)"
        ) from error
    draft.finish()
    return VectorFile(path, len(texts), draft.dim, len(first), resumed)


class _Draft:
    """The unfinished file and the note beside it that says how far it is good."""

    def __init__(self, path: Path, texts: Sequence[str], model: str, dim: int) -> None:
        self.path, self.dim, self.rows = path, dim, len(texts)
        self.file = path.with_name(f".{path.name}.part")
        self.progress = path.with_name(f".{path.name}.progress.json")
        digest = hashlib.sha256()
        for text in texts:
            digest.update(len(text.encode(errors="surrogatepass")).to_bytes(8, "little"))
            digest.update(text.encode(errors="surrogatepass"))
        self.facts: dict[str, Any] = {"model": model, "texts": digest.hexdigest(), "rows": self.rows, "dim": dim}
        self.header = self._header()

    def _header(self) -> int:
        """Bytes before the first row."""
        from io import BytesIO

        buffer = BytesIO()
        self._write_header(buffer)
        return buffer.tell()

    def _write_header(self, file: Any) -> None:
        described = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.dim)}
        np.lib.format.write_array_header_1_0(file, described)

    def rows_done(self, note: Callable[[str], None]) -> int:
        """Rows that can be gone on from; 0 where the draft is another's, or shorter than it says."""
        if not (self.file.is_file() and self.progress.is_file()):
            return 0
        try:
            found = json.loads(self.progress.read_text(encoding="utf-8"))
            done = int(found.pop("done"))
        except (ValueError, KeyError, AttributeError):
            note(f"{self.progress.name} cannot be read: beginning anew")
            return 0
        if found != self.facts:
            note(f"{self.file.name} belongs to other texts or another model: beginning anew")
            return 0
        if self.file.stat().st_size < self.header + done * self.dim * 4:
            note(f"{self.file.name} is cut short: beginning anew")
            return 0
        note(f"going on after {done:,} of {self.rows:,} texts")
        return done

    def open(self, done: int) -> BinaryIO:
        """The draft, at the end of its good part."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if done == 0:
            file = self.file.open("w+b")
            self._write_header(file)
            return file
        file = self.file.open("r+b")
        file.truncate(self.header + done * self.dim * 4)
        file.seek(0, 2)
        return file

    def append(self, file: BinaryIO, rows: np.ndarray[Any, np.dtype[np.float32]], done: int) -> None:
        """Write rows, and only then that they are good."""
        file.write(rows.astype("<f4", copy=False).tobytes())
        file.flush()
        temporary = self.progress.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.facts | {"done": done}), encoding="utf-8")
        temporary.replace(self.progress)

    def row(self, number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A row written in an earlier chunk."""
        with self.file.open("rb") as file:
            file.seek(self.header + number * self.dim * 4)
            return np.frombuffer(file.read(self.dim * 4), dtype="<f4")

    def finish(self) -> None:
        """Let the file appear under its name."""
        self.file.replace(self.path)
        self.progress.unlink(missing_ok=True)
