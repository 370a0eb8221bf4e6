"""Token batches and windows: every text once, no batch over its budget, the same numbers as the encoder's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from gradate.engine import encoding
from gradate.engine.acceleration import accelerated
from gradate.engine.batching import Window, token_batches
from gradate.engine.encoding import encode_distinct
from gradate.engine.packing import embed_together
from gradate.engine.precision import resolve_precision
from tests.tiny import tiny_encoder

FP32 = resolve_precision("fp32")


@given(
    lengths=st.lists(st.integers(0, 600), max_size=80),
    budget=st.integers(1, 500),
    most=st.one_of(st.none(), st.integers(1, 9)),
)
def test_every_row_once_within_the_budget(lengths: list[int], budget: int, most: int | None) -> None:
    batches = token_batches(np.array(lengths, dtype=np.int64), budget, most)
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget
        assert most is None or len(batch) <= most


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padded_window_gives_batches_without_needless_padding(side: str) -> None:
    encoder = tiny_encoder()
    encoder.tokenizer.padding_side = side
    window = Window.of(encoder, ["a b c d", "a", "b"], None)
    assert window is not None and window.lengths.tolist() == [6, 3, 3]
    batch = window.batch(np.array([1, 2]))
    assert batch["input_ids"].shape == (2, 3) and batch["attention_mask"].all()
    assert batch["input_ids"].tolist() == encoder.preprocess(["a", "b"])["input_ids"].tolist()


def test_texts_of_every_size_and_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "WINDOW", 7)
    monkeypatch.setattr(encoding, "TOKENS_ON_CPU", 40)
    encoder = tiny_encoder()
    texts = ["", "x", "word " * 20_000, *(f"text {i} " + "more " * (i % 9) for i in range(40)), *["again"] * 5_000]
    encoded = encode_distinct(encoder, texts, precision=FP32)
    assert len(encoded.embeddings) == 44
    np.testing.assert_allclose(encoded.embeddings, encoder.encode(list(dict.fromkeys(texts))), atol=1e-5)


def test_one_core_and_many_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "TOKENS_ON_CPU", 40)
    encoder, before = tiny_encoder(), torch.get_num_threads()
    texts = [f"text {i} " + "more " * (i % 9) for i in range(60)]
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(encode_distinct(encoder, texts, precision=FP32).embeddings)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_texts_without_a_token_are_zero_and_train_nothing() -> None:
    encoder = tiny_encoder()
    encoder.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    encoded = encode_distinct(encoder, ["", "ab", "c"], precision=FP32)
    assert np.linalg.norm(encoded.embeddings, axis=1).round(5).tolist() == [0, 1, 1]
    encoder.train()
    with accelerated(encoder, FP32):
        for left, right in ((["", "ab"], ["", ""]), (["", ""], ["", ""])):
            u, v = embed_together(encoder, [encoder.preprocess(left), encoder.preprocess(right)])
            (u * v).sum().backward()
            assert u.shape == (2, 32) and not u[0].any()
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)
