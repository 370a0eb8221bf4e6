"""The feature cache: right features whatever lies on the disk, and no text encoded twice where it need not be."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from gradate.engine import features, row_store
from gradate.engine.encoding import encode_distinct
from gradate.engine.features import FeatureCache, Features, cache_folder, folder_bytes
from gradate.engine.precision import Precision
from gradate.errors import InputError
from tests.tiny import DIMENSION, tiny_encoder

FP32, BF16 = Precision("fp32", "test"), Precision("bf16", "test")
TEXTS = [f"text {chr(97 + i)} {'more ' * (i % 7)}" for i in range(26)]


@pytest.fixture
def encoder() -> SentenceTransformer:
    return tiny_encoder()


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path / "cache")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that are really encoded, in order."""
    seen: list[str] = []
    original = features.encode_distinct

    def counting(encoder: SentenceTransformer, texts: list[str], **options: object) -> object:
        seen.extend(texts)
        return original(encoder, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(features, "encode_distinct", counting)
    yield seen


def rows(found: Features) -> np.ndarray:
    return np.asarray(found.embeddings[found.index])


def expected(encoder: SentenceTransformer, texts: list[str]) -> np.ndarray:
    plain = encode_distinct(encoder, texts, precision=FP32)
    return plain.embeddings[plain.index]


def check(found: Features, encoder: SentenceTransformer, texts: list[str] = TEXTS) -> None:
    np.testing.assert_allclose(rows(found), expected(encoder, texts), atol=1e-6)


def store_of(cache: FeatureCache) -> Path:
    assert cache.folder is not None
    (folder,) = (cache.folder / "features").iterdir()
    return folder


def test_a_hit_encodes_nothing_and_gives_the_same_bits(
    encoder: SentenceTransformer, cache: FeatureCache, encoded: list[str]
) -> None:
    first = cache.encode(encoder, [*TEXTS, *TEXTS[:5]], precision=FP32)
    assert sorted(encoded) == TEXTS and (first.found, first.encoded) == (0, 26)
    check(first, encoder, [*TEXTS, *TEXTS[:5]])
    encoded.clear()
    second = cache.encode(encoder, [*TEXTS, *TEXTS[:5]], precision=FP32)
    assert encoded == [] and (second.found, second.encoded) == (26, 0)
    assert np.array_equal(rows(first), rows(second))
    assert isinstance(second.embeddings, np.memmap)
    assert second.notes == (f"features: 26 texts from the cache, 0 encoded ({store_of(cache)})",)


def test_a_cold_cache_gives_the_bits_of_no_cache(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradate.engine.encoding.WINDOW", 8)
    monkeypatch.setattr(features, "WINDOW", 8)
    cached = cache.encode(encoder, TEXTS, precision=BF16)
    plain = FeatureCache(None).encode(encoder, TEXTS, precision=BF16)
    assert plain.notes == () and plain.encoded == 26
    assert np.array_equal(rows(cached), rows(plain))


def test_data_sets_share_what_they_have_in_common_in_any_order(
    encoder: SentenceTransformer, cache: FeatureCache, encoded: list[str]
) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    encoded.clear()
    mixed = [TEXTS[20], TEXTS[3], "", TEXTS[20], TEXTS[9], "größe 雪"]
    found = cache.encode(encoder, mixed, precision=FP32)
    assert encoded == sorted(["", TEXTS[20], "größe 雪"]) and (found.found, found.encoded) == (2, 3)
    check(found, encoder, mixed)
    check(cache.encode(encoder, TEXTS[::-1], precision=FP32), encoder, TEXTS[::-1])


def test_texts_without_end_and_one_text_over_and_over(encoder: SentenceTransformer, cache: FeatureCache) -> None:
    texts = ["x " * 50_000, "", *["again"] * 1000]
    for found in ((0, 3), (3, 0)):
        result = cache.encode(encoder, texts, precision=FP32)
        assert (result.found, result.encoded) == found
    check(result, encoder, texts)


def test_features_of_a_memory_map_go_to_torch_without_a_copy_and_leave_the_file_alone(
    encoder: SentenceTransformer, cache: FeatureCache
) -> None:
    found = cache.encode(encoder, TEXTS, precision=FP32)
    before = (store_of(cache) / "rows.f32").read_bytes()
    tensor = torch.from_numpy(found.embeddings)
    assert tensor.data_ptr() == found.embeddings.ctypes.data
    tensor.zero_()
    assert (store_of(cache) / "rows.f32").read_bytes() == before


def test_no_texts_and_one_bare_text(encoder: SentenceTransformer, cache: FeatureCache) -> None:
    found = cache.encode(encoder, [], precision=FP32)
    assert found.embeddings.shape == (0, DIMENSION) and found.index.shape == (0,)
    with pytest.raises(InputError, match="got one text"):
        cache.encode(encoder, "a text", precision=FP32)


def test_whatever_changes_the_features_has_a_folder_of_its_own(cache: FeatureCache, encoded: list[str]) -> None:
    encoder = tiny_encoder()
    cache.encode(encoder, TEXTS, precision=FP32)

    def is_new(**options: object) -> bool:
        encoded.clear()
        chosen = {"encoder": encoder, "precision": FP32} | options
        found = cache.encode(chosen.pop("encoder"), TEXTS, **chosen)  # type: ignore[arg-type]
        assert len(encoded) in (0, 26) and len(found.notes) == 1
        return len(encoded) == 26

    assert not is_new()
    assert is_new(precision=BF16)
    assert is_new(prompt="find: ")
    assert is_new(before_normalize=True)
    assert not is_new(encoder=tiny_encoder(normalize=False)), "what stands before Normalize is one thing"
    assert is_new(encoder=tiny_encoder(seed=1))
    assert not is_new(encoder=tiny_encoder()), "the same weights in another object"
    encoder.max_seq_length = 5
    assert is_new()
    encoder.max_seq_length = 64
    assert not is_new()
    encoder.prompts["query"], encoder.default_prompt_name = "find: ", "query"
    assert not is_new(), "a default prompt is a prompt"
    encoder.default_prompt_name = None
    with torch.no_grad():
        next(encoder.parameters()).add_(1e-3)
    assert is_new()
    # An update that no version counter shows.
    next(encoder.parameters()).data.add_(1e-3)
    assert is_new()
    encoder[1].pooling_mode = "cls"
    assert is_new()


def test_features_after_training_are_those_of_the_trained_weights(
    encoder: SentenceTransformer, cache: FeatureCache
) -> None:
    cache.encode(encoder, TEXTS, precision=FP32)
    encoder.train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-2)
    encoder(encoder.preprocess(TEXTS[:4]))["sentence_embedding"][:, 0].sum().backward()
    optimizer.step()
    encoder.eval()
    check(cache.encode(encoder, TEXTS, precision=FP32), encoder)


def test_an_unreadable_encoder_is_encoded_without_a_cache(encoder: SentenceTransformer, cache: FeatureCache) -> None:
    encoder[0].backend = "onnx"
    found = cache.encode(encoder, TEXTS[:2], precision=FP32)
    assert found.notes == ("features are not cached: the weights lie in a graph of the backend onnx",)
    assert cache.folder is not None and not cache.folder.exists()


@pytest.mark.parametrize("keep", [0, 1, 1000])
@pytest.mark.parametrize("name", ["rows.f32", "keys.bin", "journal.jsonl"])
def test_a_file_cut_short(encoder: SentenceTransformer, cache: FeatureCache, name: str, keep: int) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    first = folder_bytes(store_of(cache))
    cache.encode(encoder, TEXTS, precision=FP32)
    path = store_of(cache) / name
    path.write_bytes(path.read_bytes()[: min(keep, path.stat().st_size - 1)])
    found = cache.encode(encoder, TEXTS, precision=FP32)
    check(found, encoder)
    assert found.encoded >= 16 and len(found.notes) == 2
    assert "cut short or changed" in found.notes[0] or "begun again: its journal is" in found.notes[0]
    again = cache.encode(encoder, TEXTS, precision=FP32)
    check(again, encoder)
    assert (again.found, again.encoded, len(again.notes)) == (26, 0, 1), "mended"
    assert folder_bytes(store_of(cache)) < 5 * first


def test_a_cut_that_spares_the_first_part_costs_only_the_second(
    encoder: SentenceTransformer, cache: FeatureCache
) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    cache.encode(encoder, TEXTS, precision=FP32)
    path = store_of(cache) / "rows.f32"
    path.write_bytes(path.read_bytes()[: 12 * DIMENSION * 4 + 5])
    found = cache.encode(encoder, TEXTS, precision=FP32)
    assert (found.found, found.encoded) == (10, 16)
    check(found, encoder)


@pytest.mark.parametrize("name", ["rows.f32", "keys.bin", "journal.jsonl"])
@pytest.mark.parametrize("place", ["start", "middle", "end"])
def test_a_file_with_garbage(encoder: SentenceTransformer, cache: FeatureCache, name: str, place: str) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    cache.encode(encoder, TEXTS, precision=FP32)
    path = store_of(cache) / name
    contents = bytearray(path.read_bytes())
    at = {"start": 0, "middle": len(contents) // 2, "end": len(contents) - 7}[place]
    contents[at : at + 7] = b"\xff\x00garba"
    path.write_bytes(contents)
    found = cache.encode(encoder, TEXTS, precision=FP32)
    check(found, encoder)
    assert found.encoded >= 10 and len(found.notes) == 2
    assert cache.encode(encoder, TEXTS, precision=FP32).encoded == 0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("model", "it belongs to another model"),
        ("width", "its rows have width 7, the encoder's 32"),
        ("journal", "its journal is lost"),
        ("other", "its journal is damaged"),
    ],
)
def test_a_cache_that_is_another_s_is_begun_again(
    encoder: SentenceTransformer, cache: FeatureCache, damage: str, reason: str
) -> None:
    held = cache.encode(encoder, TEXTS, precision=FP32)
    folder = store_of(cache)
    journal = folder / "journal.jsonl"
    text = journal.read_text(encoding="utf-8")
    if damage == "model":
        journal.write_text(text.replace(folder.name, "0" * 32), encoding="utf-8")
    elif damage == "width":
        journal.write_text(text.replace('"dim": 32', '"dim": 7'), encoding="utf-8")
    elif damage == "other":
        journal.write_text("[1, 2]\n", encoding="utf-8")
    else:
        journal.unlink()
    found = cache.encode(encoder, TEXTS, precision=FP32)
    assert found.notes[0] == f"the feature cache {folder} was begun again: {reason}"
    check(found, encoder)
    check(held, encoder)  # whoever had mapped the old files still reads them
    again = cache.encode(encoder, TEXTS, precision=FP32)
    assert (again.found, len(again.notes)) == (26, 1)
    check(again, encoder)


def test_the_end_of_an_interrupted_append_is_not_trusted(encoder: SentenceTransformer, cache: FeatureCache) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    for name in ("rows.f32", "keys.bin"):
        with (store_of(cache) / name).open("ab") as file:
            file.write(b"half a row")
    found = cache.encode(encoder, TEXTS, precision=FP32)
    assert found.found == 10 and len(found.notes) == 1
    check(found, encoder)
    check(cache.encode(encoder, TEXTS, precision=FP32), encoder)


def test_an_interrupted_encoding_goes_on_where_it_stopped(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradate.engine.encoding.WINDOW", 4)
    monkeypatch.setattr(features, "WINDOW", 4)
    monkeypatch.setattr(features, "MOST_WINDOWS", 2)
    original, calls = features.encode_distinct, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return original(*arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(features, "encode_distinct", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.encode(encoder, TEXTS, precision=FP32)
    resumed = cache.encode(encoder, TEXTS, precision=FP32)
    assert (resumed.found, resumed.encoded) == (12, 14), "one window, then two"
    assert np.array_equal(rows(resumed), rows(FeatureCache(None).encode(encoder, TEXTS, precision=FP32)))


@pytest.mark.parametrize("limit", [1, 600, 10 * DIMENSION * 4 + 30, 14 * DIMENSION * 4])
def test_a_full_disk(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(features, "WINDOW", 4)
    monkeypatch.setattr(features, "MOST_WINDOWS", 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        found = cache.encode(encoder, TEXTS, precision=FP32)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    check(found, encoder)
    assert "cannot be written (File too large): going on without it" in found.notes[0] and len(found.notes) == 2
    assert all(path.stat().st_size <= limit for path in store_of(cache).iterdir())
    after = cache.encode(encoder, TEXTS, precision=FP32)
    assert after.found % 4 == 0 and after.found * DIMENSION * 4 <= limit, "whole parts only"
    check(after, encoder)
    assert cache.encode(encoder, TEXTS, precision=FP32).encoded == 0


@pytest.mark.parametrize("name", ["rows.f32", "keys.bin", "journal.jsonl"])
def test_a_disk_that_is_full_for_one_file_leaves_no_half_of_it(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    sizes = {path.name: path.stat().st_size for path in store_of(cache).iterdir()}
    opened = Path.open

    def full(path: Path, *arguments: object, **options: object) -> object:
        if path.name == name and arguments == ("r+b",):
            with opened(path, "ab") as file:
                file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, *arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        found = cache.encode(encoder, TEXTS, precision=FP32)
    assert "No space left on device" in found.notes[0] and (found.found, found.encoded) == (10, 16)
    check(found, encoder)
    assert {path.name: path.stat().st_size for path in store_of(cache).iterdir()} == sizes


def test_a_place_that_cannot_be_written_or_read(encoder: SentenceTransformer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    found = FeatureCache(tmp_path / "file").encode(encoder, TEXTS, precision=FP32)
    assert "going on without it" in found.notes[0]
    check(found, encoder)


def test_a_cache_that_vanishes_meanwhile(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    original = features.encode_distinct

    def deleting(*arguments: object, **options: object) -> object:
        for path in store_of(cache).iterdir():
            path.unlink()
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(features, "encode_distinct", deleting)
    check(cache.encode(encoder, TEXTS, precision=FP32), encoder)


def test_features_that_are_not_finite_are_not_kept(encoder: SentenceTransformer, cache: FeatureCache) -> None:
    with torch.no_grad():
        encoder[0].model.embeddings.word_embeddings.weight[encoder.tokenizer.convert_tokens_to_ids("q")] = torch.nan
    texts = ["a b", "c q", "d"]
    for expected_found in (0, 2):
        found = cache.encode(encoder, texts, precision=FP32)
        assert found.found == expected_found
        assert np.isfinite(rows(found)).all(axis=1).tolist() == [True, False, True]


def test_without_file_locks_nothing_is_written(
    encoder: SentenceTransformer, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.encode(encoder, TEXTS[:10], precision=FP32)
    monkeypatch.setattr(row_store, "fcntl", None)
    found = cache.encode(encoder, TEXTS, precision=FP32)
    assert found.found == 10 and "no file locks" in found.notes[0]
    check(found, encoder)


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADATE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("GRADATE_CACHE", "OFF")
    assert cache_folder() is None
    monkeypatch.delenv("GRADATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "gradate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "gradate"
    assert folder_bytes(tmp_path / "nowhere") == 0
