"""Mini-batches and recomputed activations: less memory, the same training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradate.engine.precision import Precision
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.runs.resolve import settle_stage
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.stage import Stage
from tests.graded import graded_pairs
from tests.tiny import set_dropout, tiny_encoder

OBJECTIVE = ObjectiveConfig(k=2.0, x0=0.25)


@dataclass(frozen=True)
class BatchWise(ObjectiveConfig):
    """Stands in for a loss over the batch as a whole, such as a Pearson correlation."""

    @property
    def per_example(self) -> bool:
        return False


def train(folder: Path, *, dropout: float = 0.0, precision: str = "fp32", **settings: Any) -> dict[str, torch.Tensor]:
    encoder = tiny_encoder()
    set_dropout(encoder, dropout)
    model, pairs = GradedModel(encoder, precision="fp32"), graded_pairs(45)
    if settings.pop("weighted", False):
        pairs = replace(pairs, weights=np.linspace(0.5, 1.5, 45))
    hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
    values = {"objective": OBJECTIVE, "epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "evaluate_every": 6}
    stage = Stage(**{**values, "selection": None, **settings})  # type: ignore[arg-type]
    chosen = Precision(precision, "asked for")  # type: ignore[arg-type]
    run_stage(stage, model, pairs, folder=folder, log=RunLog(None), precision=chosen)
    assert model.head is not None
    return {**model.encoder.state_dict(), **model.head.state_dict()}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], atol: float) -> None:
    start = tiny_encoder().state_dict()
    moved = max(float((expected[name] - start[name]).abs().max()) for name in start)
    assert moved > 20 * atol, "nothing was learned, so nothing was compared"
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=atol, rtol=0, msg=name)


@pytest.mark.parametrize("mini", [1, 3, 64])
@pytest.mark.parametrize("more", [{}, {"accumulate": 3}, {"weighted": True}], ids=["plain", "accumulate", "weights"])
def test_mini_batches_train_the_same_model(tmp_path: Path, mini: int, more: dict[str, Any]) -> None:
    expected = train(tmp_path / "whole", **more)
    assert_same(train(tmp_path / "parts", mini_batch_size=mini, **more), expected, atol=2e-5)


@pytest.mark.parametrize("mini", [None, 3])
def test_recomputed_activations_train_the_same_model(tmp_path: Path, mini: int | None) -> None:
    # With dropout: the recomputed pass has to draw the masks of the first one.
    expected = train(tmp_path / "kept", mini_batch_size=mini, dropout=0.1)
    found = train(tmp_path / "recomputed", mini_batch_size=mini, dropout=0.1, activation_checkpointing=True)
    assert_same(found, expected, atol=2e-5)


def test_recomputing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.bert.modeling_bert import BertIntermediate

    passes: list[int] = []
    original = BertIntermediate.forward

    def counted(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
        passes.append(1)
        return original(self, hidden_states)

    monkeypatch.setattr(BertIntermediate, "forward", counted)
    counts = []
    for recompute in (False, True):
        passes.clear()
        train(tmp_path / str(recompute), activation_checkpointing=recompute, epochs=1)
        counts.append(len(passes))
    steps, layers = 6, 2
    assert counts[1] - counts[0] == steps * layers


def test_mini_batches_in_bfloat16(tmp_path: Path) -> None:
    expected = train(tmp_path / "whole", precision="bf16")
    found = train(tmp_path / "parts", precision="bf16", mini_batch_size=3)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=5e-3, rtol=0, msg=name)


def test_a_resumed_stage_of_mini_batches_is_bitwise_the_same(tmp_path: Path) -> None:
    settings = {"mini_batch_size": 3, "dropout": 0.1}
    whole = train(tmp_path / "whole", **settings)
    train(tmp_path / "stage", epochs=1, scheduler="constant", **settings)
    expected = train(tmp_path / "twice", scheduler="constant", **settings)
    found = train(tmp_path / "stage", scheduler="constant", **settings)
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert not all(torch.equal(whole[name], value) for name, value in expected.items())


def test_a_loss_over_the_batch_is_not_accumulated_and_not_bucketed() -> None:
    batch_wise = BatchWise(k=2.0, x0=0.25)
    with pytest.raises(
        InputError, match=r"accumulate = 2 would sum .* \(use a larger batch_size with mini_batch_size"
    ):
        Stage(objective=batch_wise, accumulate=2)
    stage, pairs = Stage(objective=batch_wise, mini_batch_size=4), graded_pairs(20)
    assert not stage.is_bucketed and Stage(objective=batch_wise, batching="bucketed").is_bucketed
    settled, reasons = settle_stage(stage, pairs)
    assert settled.batching == "random"
    assert ("batching", "random", "smooth-k2 judges a batch as a whole") in reasons
    settled, reasons = settle_stage(Stage(objective=OBJECTIVE), pairs)
    assert settled.batching == "bucketed" and settled.is_bucketed
    assert ("batching", "bucketed", "smooth-k2 is a sum over pairs: like lengths may meet") in reasons
