"""Encoding into a file: interrupted or not, the same bytes; never a half-written result."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from gradate.engine import vector_file
from gradate.engine.fingerprint import NoFingerprintError
from gradate.engine.precision import resolve_precision
from gradate.engine.vector_file import encode_to_file
from gradate.errors import GradateError, Interrupted
from tests.tiny import DIMENSION, tiny_encoder

FP32 = resolve_precision("fp32")
TEXTS = [f"text {i % 23} " + "more " * (i % 5) for i in range(50)] + [""]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "CHUNK", 10)


def break_after(monkeypatch: pytest.MonkeyPatch, calls: int, error: BaseException) -> None:
    original, made = vector_file.encode_distinct, []

    def failing(*args: object, **options: object) -> object:
        made.append(1)
        if len(made) > calls:
            raise error
        return original(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(vector_file, "encode_distinct", failing)


def test_rows_are_the_embeddings_in_the_order_of_the_texts(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    written = encode_to_file(encoder, TEXTS, tmp_path / "v.npy", precision=FP32)
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    assert vectors.shape == (51, DIMENSION) == (written.rows, written.dim) and vectors.dtype == np.float32
    assert (written.distinct, written.resumed) == (len(set(TEXTS)), 0)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["v.npy"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_interrupted_and_gone_on_with_is_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    encoder, whole, path = tiny_encoder(), tmp_path / "whole.npy", tmp_path / "v.npy"
    encode_to_file(encoder, TEXTS, whole, precision=FP32)
    with monkeypatch.context() as patch:
        break_after(patch, 2, error)
        with pytest.raises((Interrupted, GradateError), match=r"after 20 of 51 texts"):
            encode_to_file(encoder, TEXTS, path, precision=FP32)
    assert not path.exists()
    notes: list[str] = []
    written = encode_to_file(encoder, TEXTS, path, precision=FP32, note=notes.append)
    assert written.resumed == 20 and notes == ["going on after 20 of 51 texts"]
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("harm", ["other texts", "other model", "cut short", "garbled"])
def test_a_draft_that_does_not_belong_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    encoder, path, texts = tiny_encoder(), tmp_path / "v.npy", list(TEXTS)
    with monkeypatch.context() as patch:
        break_after(patch, 3, KeyboardInterrupt())
        with pytest.raises(Interrupted):
            encode_to_file(encoder, texts, path, precision=FP32)
    if harm == "other texts":
        texts[0] = "changed"
    elif harm == "other model":
        encoder = tiny_encoder(seed=1)
    elif harm == "cut short":
        draft = tmp_path / ".v.npy.part"
        draft.write_bytes(draft.read_bytes()[:-100])
    else:
        (tmp_path / ".v.npy.progress.json").write_text("{", encoding="utf-8")
    notes: list[str] = []
    written = encode_to_file(encoder, texts, path, precision=FP32, note=notes.append)
    assert written.resumed == 0 and notes[0].endswith("beginning anew")
    np.testing.assert_allclose(np.load(path), encoder.encode(texts), atol=1e-5)


def test_a_torn_write_after_the_last_good_chunk_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, path = tiny_encoder(), tmp_path / "v.npy"
    with monkeypatch.context() as patch:
        break_after(patch, 3, KeyboardInterrupt())
        with pytest.raises(Interrupted):
            encode_to_file(encoder, TEXTS, path, precision=FP32)
    with (tmp_path / ".v.npy.part").open("ab") as draft:
        draft.write(b"half a row")
    assert json.loads((tmp_path / ".v.npy.progress.json").read_text())["done"] == 30
    encode_to_file(encoder, TEXTS, path, precision=FP32)
    np.testing.assert_allclose(np.load(path), encoder.encode(TEXTS), atol=1e-5)


def test_no_texts(tmp_path: Path) -> None:
    assert encode_to_file(tiny_encoder(), [], tmp_path / "v.npy", precision=FP32).rows == 0
    assert np.load(tmp_path / "v.npy").shape == (0, DIMENSION)


def test_an_encoder_that_cannot_be_told_from_another_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> str:
        raise NoFingerprintError

    monkeypatch.setattr(vector_file, "fingerprint", unknown)
    encoder, path = tiny_encoder(), tmp_path / "v.npy"
    with monkeypatch.context() as patch:
        break_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(Interrupted):
            encode_to_file(encoder, TEXTS, path, precision=FP32)
    assert encode_to_file(encoder, TEXTS, path, precision=FP32).resumed == 0
