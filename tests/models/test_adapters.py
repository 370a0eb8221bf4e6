from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, TaskType, get_peft_model
from sentence_transformers import SentenceTransformer

from gradate.models.adapters import has_adapters, merge_adapters
from gradate.models.graded import GradedModel
from tests.tiny import tiny_encoder

TEXTS = ["where is my order", "cancel it"]


def _adapted(*, wrapped: bool) -> SentenceTransformer:
    encoder = tiny_encoder()
    config = LoraConfig(TaskType.FEATURE_EXTRACTION, r=4, target_modules=["query", "value"])
    if wrapped:
        encoder[0].model = get_peft_model(encoder[0].model, config)
    else:
        encoder.add_adapter(config)
    with torch.no_grad():
        for name, weights in encoder.named_parameters():
            if "lora_B" in name:
                weights.normal_(generator=torch.Generator().manual_seed(1))
    return encoder.eval()


@pytest.mark.parametrize("wrapped", [False, True])
def test_merging_keeps_the_embeddings(wrapped: bool) -> None:
    encoder = _adapted(wrapped=wrapped)
    before = encoder.encode(TEXTS)
    assert has_adapters(encoder)
    assert not np.allclose(before, tiny_encoder().encode(TEXTS), atol=1e-3)
    merge_adapters(encoder)
    assert not has_adapters(encoder)
    assert set(encoder.state_dict()) == set(tiny_encoder().state_dict())
    np.testing.assert_allclose(encoder.encode(TEXTS), before, atol=1e-5)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_saved_model_is_whole_and_the_one_in_memory_keeps_its_adapters(wrapped: bool, tmp_path: Path) -> None:
    encoder = _adapted(wrapped=wrapped)
    expected = encoder.encode(TEXTS)
    folder = GradedModel(encoder, precision="fp32").save(tmp_path / "model")
    assert not list(folder.rglob("adapter*"))
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    np.testing.assert_allclose(plain.encode(TEXTS), expected, atol=1e-5)
    assert has_adapters(encoder)
    assert np.array_equal(encoder.encode(TEXTS), expected)


def test_a_plain_encoder_is_left_alone() -> None:
    encoder = tiny_encoder()
    before = encoder.encode(TEXTS)
    assert not has_adapters(encoder)
    merge_adapters(encoder)
    assert np.array_equal(encoder.encode(TEXTS), before)
