"""The shallow encoder: random by its seed, and otherwise an encoder like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from gradate.errors import InputError
from gradate.models.pooling import with_pooling
from gradate.models.shallow import LENGTH, WIDTH, shallow_encoder
from tests.tiny import tiny_encoder


def test_weights_follow_the_seed_and_the_caller_keeps_its_own(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    encoder, again, other = (shallow_encoder(seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    texts = ["a text", "quite another one"]
    one, two, three = (e.encode(texts) for e in (encoder, again, other))
    assert one.shape == (2, WIDTH) and np.array_equal(one, two) and not np.allclose(one, three)
    assert encoder.max_seq_length == LENGTH
    encoder.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    opened = SentenceTransformer(str(tmp_path / "model"), local_files_only=True)
    np.testing.assert_allclose(opened.encode(texts), one, atol=1e-6)


def test_pooling_is_exchanged() -> None:
    encoder = tiny_encoder(normalize=False)
    mean, first = encoder.encode(["a b c"]), with_pooling(encoder, "cls").encode(["a b c"])
    assert first.shape == mean.shape and not np.allclose(mean, first)
    np.testing.assert_allclose(with_pooling(encoder, "mean").encode(["a b c"]), mean, atol=1e-6)
    with pytest.raises(InputError, match="no pooling to change"):
        with_pooling(SentenceTransformer(modules=[encoder[0]], local_files_only=True), "cls")
