"""The head-only stage over the feature cache: the same head with and without it, and the run says what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gradate.engine import features
from gradate.engine.precision import Precision
from gradate.errors import TrainingStopped
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.observer import SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.stage import Stage
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

FP32 = Precision("fp32", "test")


class Notes(SilentObserver):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def solve(tmp_path: Path, model: GradedModel | None = None, **settings: Any) -> tuple[torch.Tensor, list[str]]:
    pairs = graded_pairs(40)
    model = model or GradedModel(tiny_encoder(), precision="fp32")
    model.head = None
    hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
    stage = Stage(
        trainable="head", objective=ObjectiveConfig(k=2.0, x0=0.25), l2=0.1, batch_size=8, evaluate_every=1, **settings
    )
    notes = Notes()
    run_stage(stage, model, pairs, folder=tmp_path / "stage", log=RunLog(None), precision=FP32, observer=notes)
    assert model.head is not None
    return model.head.linear.weight.detach(), notes.lines


def test_cold_warm_and_without_a_cache_the_head_is_the_same(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold, first = solve(tmp_path)
    (folder,) = (cache / "features").iterdir()
    (line,) = first
    assert line.startswith("features: 0 texts from the cache, ") and line.endswith(f" encoded ({folder})")
    warm, (line,) = solve(tmp_path)
    assert " texts from the cache, 0 encoded " in line
    monkeypatch.setenv("GRADATE_CACHE", "off")
    without, notes = solve(tmp_path)
    assert notes == []
    assert torch.equal(cold, warm) and torch.equal(cold, without)


def test_prompt_and_length_limit_have_features_of_their_own(cache: Path, tmp_path: Path) -> None:
    weights = [solve(tmp_path)[0]]
    for settings in ({"prompts": "grade: "}, {"max_length": 4}):
        weight, notes = solve(tmp_path, **settings)
        assert "features: 0 texts from the cache" in notes[-1]
        assert not any(torch.equal(weight, other) for other in weights)
        weights.append(weight)


def test_a_damaged_cache_is_said_and_changes_nothing(cache: Path, tmp_path: Path) -> None:
    before, _ = solve(tmp_path)
    (rows,) = cache.rglob("rows.f32")
    rows.write_bytes(rows.read_bytes()[:-100])
    after, notes = solve(tmp_path)
    assert "was cut short or changed" in notes[0] and torch.equal(before, after)


def test_a_disk_full_of_features_stops_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(features.RowStore, "append", full)
    weight, notes = solve(tmp_path)
    assert "No space left on device" in notes[0] and "going on without it" in notes[0]
    monkeypatch.setenv("GRADATE_CACHE", "off")
    assert torch.equal(weight, solve(tmp_path)[0])


def test_features_that_are_not_finite_stop_the_stage_every_time(cache: Path, tmp_path: Path) -> None:
    model = GradedModel(tiny_encoder(), precision="fp32")
    with torch.no_grad():
        model.encoder[0].model.embeddings.LayerNorm.weight[0] = torch.nan
    for _ in range(2):
        with pytest.raises(TrainingStopped, match="not finite"):
            solve(tmp_path, model)
    assert not list(cache.rglob("rows.f32"))
