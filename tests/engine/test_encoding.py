from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from gradate.engine.encoding import (
    count_truncated,
    encode_distinct,
    kept_mode,
    pair_cosines,
    trailing_normalize,
    without_normalize,
)
from gradate.engine.precision import Precision
from gradate.errors import InputError
from tests.tiny import DIMENSION, tiny_encoder

FP32 = Precision("fp32", "test")
BF16 = Precision("bf16", "test")
TEXTS = ["where is my order", "cancel it", "where is my order", "", "refund please", "cancel it"]


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformer:
    return tiny_encoder()


def test_each_distinct_text_is_encoded_once(encoder: SentenceTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_distinct(encoder, TEXTS, precision=FP32)  # whether it packs is tried once
    seen: list[str] = []
    original = encoder.preprocess

    def counting(texts: list[str], **options: object) -> object:
        seen.extend(texts)
        return original(texts, **options)

    monkeypatch.setattr(encoder, "preprocess", counting)
    encoded = encode_distinct(encoder, TEXTS, precision=FP32)
    assert sorted(seen) == sorted(set(TEXTS))
    assert encoded.index.tolist() == [0, 1, 0, 2, 3, 1]
    assert encoded.embeddings.shape == (4, DIMENSION)
    assert encoded.embeddings.dtype == np.float32


@pytest.mark.parametrize(("precision", "cosine"), [(FP32, 1 - 1e-6), (BF16, 0.9995)])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_embeddings_are_those_of_plain_encode(
    encoder: SentenceTransformer, precision: Precision, cosine: float, batch_size: int
) -> None:
    plain = encoder.encode(TEXTS)
    encoded = encode_distinct(encoder, TEXTS, precision=precision, batch_size=batch_size)
    assert np.sum(plain * encoded.embeddings[encoded.index], axis=1).min() >= cosine


def test_prompts_reach_the_encoder() -> None:
    encoder = tiny_encoder()
    encoder.prompts["query"] = "find: "
    expected = encoder.encode(["find: a", "find: b"])
    for named in ({"prompt_name": "query"}, {"prompt": "find: "}):
        encoded = encode_distinct(encoder, ["a", "b"], precision=FP32, **named)
        np.testing.assert_allclose(encoded.embeddings, expected, atol=1e-6)
    encoder.default_prompt_name = "query"
    raw = encode_distinct(encoder, ["a", "b"], precision=FP32, before_normalize=True).embeddings
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), expected, atol=1e-6)


def test_the_order_of_the_texts_does_not_reach_the_last_bit(encoder: SentenceTransformer) -> None:
    forward = encode_distinct(encoder, TEXTS, precision=FP32, batch_size=2)
    backward = encode_distinct(encoder, TEXTS[::-1], precision=FP32, batch_size=2)
    assert np.array_equal(forward.embeddings[forward.index], backward.embeddings[backward.index][::-1])


def test_before_normalize_gives_the_pooled_state_with_the_same_cosines(encoder: SentenceTransformer) -> None:
    unit = encode_distinct(encoder, TEXTS, precision=FP32)
    raw = encode_distinct(encoder, TEXTS, precision=FP32, before_normalize=True)
    pooled = tiny_encoder(normalize=False).encode(TEXTS)
    np.testing.assert_allclose(raw.embeddings[raw.index], pooled, atol=1e-6)
    assert np.linalg.norm(raw.embeddings, axis=1).min() > 1.5
    left, right = np.array([0, 0, 1]), np.array([1, 2, 3])
    np.testing.assert_allclose(
        pair_cosines(raw.embeddings, left, right), pair_cosines(unit.embeddings, left, right), atol=1e-6
    )


def test_the_view_shares_modules_and_leaves_the_encoder_whole(encoder: SentenceTransformer) -> None:
    view = without_normalize(encoder)
    assert trailing_normalize(encoder) is not None
    assert trailing_normalize(view) is None
    assert view[0] is encoder[0]
    assert len(encoder) == 3
    bare = tiny_encoder(normalize=False)
    assert without_normalize(bare) is bare


def test_training_mode_comes_back_module_by_module() -> None:
    encoder = tiny_encoder()
    encoder.train()
    encoder[1].eval()
    encode_distinct(encoder, ["a"], precision=FP32, before_normalize=True)
    assert encoder.training and encoder[0].training and not encoder[1].training
    with pytest.raises(RuntimeError), kept_mode(encoder):
        encoder.eval()
        raise RuntimeError
    assert encoder.training


def test_no_texts_and_one_bare_text(encoder: SentenceTransformer) -> None:
    encoded = encode_distinct(encoder, [], precision=FP32)
    assert encoded.embeddings.shape == (0, DIMENSION) and encoded.index.shape == (0,)
    with pytest.raises(InputError, match="got one text"):
        encode_distinct(encoder, "a text", precision=FP32)


def test_pair_cosines_in_chunks_and_with_zero_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradate.engine.encoding.PAIR_CHUNK", 3)
    rows = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    rows[5] = 0
    left, right = np.array([0, 1, 2, 3, 4, 0, 1]), np.array([1, 2, 3, 4, 5, 0, 0])
    expected = [
        np.dot(rows[a], rows[b]) / np.linalg.norm(rows[a]) / np.linalg.norm(rows[b]) if b != 5 else np.nan
        for a, b in zip(left, right, strict=True)
    ]
    np.testing.assert_allclose(pair_cosines(rows, left, right), expected, rtol=1e-6)
    assert pair_cosines(rows, left, right)[5] == pytest.approx(1.0, abs=1e-12)


def test_truncated_texts_are_counted_once_each() -> None:
    encoder = tiny_encoder()
    encoder.max_seq_length = 6
    short, edge, long = "ab", "a b c d", "a b c d e"
    assert count_truncated(encoder, [short, edge]) == 0
    assert count_truncated(encoder, [short, long, edge, long]) == 1
    assert count_truncated(encoder, []) == 0
