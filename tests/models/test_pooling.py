"""Pooling by the recipe's names: the first token, the last one, and their mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense

from gradate.errors import InputError
from gradate.models.loading import open_encoder
from gradate.models.pooling import with_pooling
from tests.tiny import tiny_decoder, tiny_encoder

TEXTS = ["a b c", "d", "e f g h i j k"]


def states(encoder: SentenceTransformer, text: str) -> torch.Tensor:
    """States of the tokens of one text, alone and so without padding."""
    found: torch.Tensor = encoder[0](encoder.preprocess([text]))["token_embeddings"][0]
    return found


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [("mean", lambda s: s.mean(0)), ("cls", lambda s: s[0]), ("last-token", lambda s: s[-1])],
)
@torch.no_grad()
def test_modes(mode: str, pooled: Any) -> None:
    encoder = with_pooling(tiny_encoder(normalize=False), mode)
    expected = torch.stack([pooled(states(encoder, text)) for text in TEXTS])
    torch.testing.assert_close(encoder.encode(TEXTS, convert_to_tensor=True), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "mistral", "opt"])
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_on_either_side_moves_no_last_token(kind: str, side: str, tmp_path: Path) -> None:
    encoder = with_pooling(open_encoder(tiny_decoder(tmp_path, kind)), "last-token")
    encoder.tokenizer.padding_side = side
    expected = torch.stack([states(encoder, text)[-1] for text in TEXTS])
    batch = encoder.preprocess(TEXTS)
    assert batch["attention_mask"].sum() < batch["attention_mask"].numel()
    torch.testing.assert_close(encoder(batch)["sentence_embedding"], expected, atol=2e-6, rtol=1e-5)


def test_an_encoder_without_pooling() -> None:
    with pytest.raises(InputError, match="no pooling to change"):
        with_pooling(SentenceTransformer(modules=[tiny_encoder()[0], Dense(32, 4)], device="cpu"), "cls")
