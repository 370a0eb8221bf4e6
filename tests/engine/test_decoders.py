"""Decoders through every path: packing keeps the direction of their attention, and a layer tap finds their layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from gradate.engine import packing
from gradate.engine.acceleration import accelerated
from gradate.engine.layer_tap import LayerTap
from gradate.engine.packing import packed
from gradate.engine.precision import resolve_precision
from gradate.models.graded import GradedModel
from gradate.models.loading import open_encoder
from gradate.models.pooling import with_pooling
from gradate.models.tokenizer import with_template
from gradate.objectives.build import build_objective
from gradate.objectives.config import ObjectiveConfig
from gradate.scale import LabelScale
from tests.tiny import tiny_decoder

FP32 = resolve_precision("fp32")
FIRST = ["a cat", "no", "The dog, which barks: why?", "x y z"]
SECOND = ["cats", "Not at all, never", "a", "z y x"]
GRADES = torch.tensor([3.0, 1, 0, 2], dtype=torch.float64)
PACKS = {"llama": True, "mistral": False, "opt": True}
"""Mistral attends in windows, and so keeps its padding."""


def decoder(folder: Path, kind: str, pooling: str = "last-token") -> SentenceTransformer:
    encoder = open_encoder(tiny_decoder(folder, kind))
    return with_template(with_pooling(encoder, pooling), "prompt-eol")


@pytest.mark.parametrize("pooling", ["last-token", "mean"])
@pytest.mark.parametrize("kind", PACKS)
def test_encode_is_that_of_sentence_transformers(kind: str, pooling: str, tmp_path: Path) -> None:
    encoder = decoder(tmp_path, kind, pooling)
    alone = np.concatenate([encoder.encode([text]) for text in FIRST])
    np.testing.assert_allclose(encoder.encode(FIRST), alone, atol=5e-6)
    with packed(encoder) as is_packed:
        assert is_packed == PACKS[kind]
    np.testing.assert_allclose(GradedModel(encoder, precision="fp32").encode(FIRST), alone, atol=5e-6)


@torch.no_grad()
def test_no_token_of_a_pack_sees_those_after_it(tmp_path: Path) -> None:
    encoder = decoder(tmp_path, "llama")
    with packed(encoder):
        one, other = (encoder(encoder.preprocess([f"ab{end}", "z"]))["token_embeddings"][0] for end in "xy")
    start = int((one - other).abs().amax(dim=1).argmax())
    torch.testing.assert_close(one[:start], other[:start], atol=0, rtol=0)
    assert start > 0 and not torch.allclose(one[start], other[start], atol=1e-3)


@torch.no_grad()
def test_packing_that_looked_ahead_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = decoder(tmp_path, "llama")
    for layer in encoder.modules():
        if hasattr(layer, "is_causal"):
            monkeypatch.setattr(layer, "is_causal", False)
    with packed(encoder) as is_packed:
        assert not is_packed
    assert not packing._verdicts[encoder[0].model]


def gradients(encoder: SentenceTransformer, config: ObjectiveConfig) -> dict[str, Tensor]:
    objective = build_objective(config, encoder, None, LabelScale.from_values([0, 1, 2, 3]))
    encoder.zero_grad(set_to_none=True)
    objective([encoder.preprocess(texts) for texts in (FIRST, SECOND)], GRADES).backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["pearson", "info-nce", "mid-info-nce"])
@pytest.mark.parametrize("kind", PACKS)
def test_gradients_of_a_step_are_the_padded_ones(kind: str, name: str, tmp_path: Path) -> None:
    encoder = decoder(tmp_path, kind).train()
    config = ObjectiveConfig(name=name)  # type: ignore[arg-type]
    expected = gradients(encoder, config)
    with accelerated(encoder, FP32) as acceleration:
        assert acceleration.packed == PACKS[kind]
        found = gradients(encoder, config)
    assert found.keys() == expected.keys()
    for parameter, value in expected.items():
        # Relative: the cosines of a random model hardly differ, and Pearson's gradient grows as they do less.
        assert (found[parameter] - value).norm() <= 1e-3 * value.norm() + 1e-7, parameter


@torch.no_grad()
def test_a_layer_of_a_decoder_is_pooled_by_its_last_token(tmp_path: Path) -> None:
    encoder = decoder(tmp_path, "llama")
    batch = encoder.preprocess(FIRST)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
    states = encoder[0].model(**inputs, output_hidden_states=True).hidden_states
    tap = LayerTap(encoder, "middle")
    assert tap.layer is encoder.get_submodule("0.model.layers.0")
    with tap.open():
        found = encoder(batch)["sentence_embedding"][:, 32:]
    torch.testing.assert_close(found, states[1][:, -1], atol=1e-6, rtol=1e-5)
