from __future__ import annotations

import pytest

from benchmarks.flops import Work, token_lengths
from benchmarks.texts import filled_pairs, filled_texts
from tests.tiny import tiny_encoder


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder()


def test_the_work_of_a_token_is_that_of_the_layers_matrices(encoder):
    work = Work.of(encoder)
    # Two layers of width 32: query, key, value, output, and the two of the feed-forward part with 64 inside.
    assert work == Work(weights=2 * (4 * 32 * 32 + 2 * 32 * 64), layers=2, width=32)
    assert work.forward([10]) == 2 * work.weights * 10 + 4 * 2 * 32 * 100
    assert work.training([3, 5]) == 3 * (work.forward([3]) + work.forward([5]))


def test_lengths_are_what_the_encoder_reads(encoder):
    assert token_lengths(encoder, ["a b c", "", "a " * 100]) == [5, 2, 64]


def test_made_up_texts_have_exactly_the_tokens_asked_for(encoder):
    texts = filled_texts(encoder.tokenizer, 50, 20, seed=1)
    assert set(token_lengths(encoder, texts)) == {20}
    assert len(set(texts)) == 50
    assert filled_texts(encoder.tokenizer, 50, 20, seed=1) == texts != filled_texts(encoder.tokenizer, 50, 20, seed=2)
    pairs = filled_pairs(encoder.tokenizer, 8, 12, seed=3)
    assert len(pairs.texts()) == 16
