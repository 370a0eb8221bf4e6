"""Weights in four bits while adapters train: small inside, whole again outside, with the adapters merged into them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gradate.errors import InputError
from gradate.models.four_bit import held_in_four_bits
from gradate.models.graded import GradedModel
from gradate.models.loading import open_encoder
from gradate.models.pooling import with_pooling
from gradate.objectives.config import ObjectiveConfig
from gradate.runs.recipe import Recipe
from gradate.runs.run import train
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import run_stage
from gradate.training.stage import LoraConfig, Stage
from tests.graded import graded_pairs
from tests.tiny import tiny_decoder, tiny_encoder

TEXTS = ["a b c", "d e f g", "h"]
NEEDS_BITSANDBYTES = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="the extra 4bit is not installed"
)


@NEEDS_BITSANDBYTES
def test_weights_are_small_inside_and_the_same_afterwards() -> None:
    encoder = tiny_encoder()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    expected = encoder.encode(TEXTS)
    layers = [name for name, module in encoder.named_modules() if type(module) is nn.Linear]
    with held_in_four_bits(encoder):
        assert not [name for name, module in encoder.named_modules() if type(module) is nn.Linear]
        for name in layers:
            weight = encoder.get_submodule(name).weight
            assert weight.dtype == torch.uint8 and weight.numel() * 2 == before[f"{name}.weight"].numel()
        found = encoder.encode(TEXTS)
        assert 0 < np.abs(found - expected).max() < 0.5
    after = encoder.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    assert np.array_equal(encoder.encode(TEXTS), expected)


@NEEDS_BITSANDBYTES
def test_adapters_that_trained_beside_them_are_merged_into_the_whole_weights(tmp_path: Path) -> None:
    encoder = with_pooling(open_encoder(tiny_decoder(tmp_path / "llama")), "last-token")
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    model = GradedModel(encoder, precision="fp32")
    stage = Stage(
        trainable="lora",
        lora=LoraConfig(r=4, alpha=8, target_modules=("q_proj", "v_proj"), bits=4),
        objective=ObjectiveConfig(name="pearson"),
        epochs=1,
        batch_size=8,
        learning_rate=1e-2,
        evaluate_every=4,
        selection=None,
    )
    pairs = graded_pairs(32)
    run_stage(stage, model, pairs, folder=tmp_path / "s", log=RunLog(tmp_path / "log"), precision=model.precision)
    after = model.encoder.state_dict()
    assert after.keys() == before.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if "q_proj" in name or "v_proj" in name}
    for name in moved:
        assert torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-4) <= 4, "what was added is the adapter"
    folder = model.save(tmp_path / "model")
    assert np.allclose(GradedModel.from_pretrained(folder, precision="fp32").encode(TEXTS), model.encode(TEXTS))


def test_without_bitsandbytes_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.nn.modules", None)
    encoder = tiny_encoder()
    with pytest.raises(InputError, match=r"lora\.bits: bitsandbytes is not installed .*gradate\[4bit\]"):
        with held_in_four_bits(encoder):
            pytest.fail("nothing is held")
    assert [module for module in encoder.modules() if type(module) is nn.Linear]


def test_a_run_says_so_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.nn.modules", None)
    tiny_encoder(tmp_path / "encoder")
    stage = Stage(trainable="lora", lora=LoraConfig(bits=4), objective=ObjectiveConfig(name="pearson"))
    recipe = Recipe((stage,), encoder=str(tmp_path / "encoder"))
    with pytest.raises(InputError, match="bitsandbytes is not installed"):
        train(recipe, pairs=graded_pairs(60), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
