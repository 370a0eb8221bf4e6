"""Tasks beside a stage: batches of one task, every row once, ranks apart, the same order again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset

from gradate.data.contrast import Triplets
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.samplers import SeededBatchSampler
from gradate.training.stage import Stage
from gradate.training.task import TaskConfig
from gradate.training.task_sampler import TaskBatchSampler
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

SMOOTH = ObjectiveConfig(k=2.0, x0=0.25)


def sampler(
    sizes: list[tuple[int, int]], *, seed: int = 1, world: int = 1, mix: Any = "alternate"
) -> TaskBatchSampler:
    parts: list[Any] = [range(n) for n, _ in sizes]
    samplers = [
        SeededBatchSampler(part, batch_size=size, seed=1 + i, world_size=world)
        for i, (part, (_, size)) in enumerate(zip(parts, sizes, strict=True))
    ]
    return TaskBatchSampler(ConcatDataset(parts), samplers, seed=1, world_size=world, mix=mix)


def task_of(batch: list[int], sizes: list[tuple[int, int]]) -> int:
    ends = torch.tensor([n for n, _ in sizes]).cumsum(0)
    tasks = {int(torch.searchsorted(ends, row, right=True)) for row in torch.tensor(batch)}
    assert len(tasks) == 1, "a batch holds one task"
    return tasks.pop()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(4, 30), st.integers(1, 7)), min_size=2, max_size=3), st.integers(1, 2))
def test_an_epoch_passes_over_every_task_once(sizes: list[tuple[int, int]], world: int) -> None:
    found = sampler(sizes, world=world)
    batches = list(found)
    assert len(batches) == len(found) and len(batches) % world == 0
    rows = [row for batch in batches for row in batch]
    assert len(rows) == len(set(rows)) >= sum(n for n, _ in sizes) - (world - 1) * len(sizes)
    for i in range(0, len(batches), world):
        assert len({task_of(batch, sizes) for batch in batches[i : i + world]}) == 1, "ranks are at one task"
    assert list(found) == batches
    found.set_epoch(1)
    assert world > 1 or len(batches) < 4 or list(found) != batches


def test_smaller_batches_are_more_steps() -> None:
    sizes = [(100, 16), (50, 8)]
    tasks = [task_of(batch, sizes) for batch in sampler(sizes, world=2)]
    assert (tasks.count(0), tasks.count(1)) == (8, 8)
    assert tasks != sorted(tasks)


def test_together_every_update_has_a_batch_of_each() -> None:
    sizes = [(12, 4), (5, 2)]
    found = sampler(sizes, mix="together")
    seen: list[int] = []
    for epoch in range(5):
        found.set_epoch(epoch)
        batches = list(found)
        assert [task_of(batch, sizes) for batch in batches] == [0, 1] * 3
        assert sorted(row for batch in batches[::2] for row in batch) == list(range(12))
        seen += [row for batch in batches[1::2] for row in batch]
    assert sorted(seen) == sorted([12, 13, 14, 15, 16] * 5), "five passes in fifteen steps, none cut short by an epoch"
    assert list(found) == batches, "an epoch that is resumed has the same rows"


def run(folder: Path, **values: Any) -> dict[str, torch.Tensor]:
    folder.mkdir(exist_ok=True)
    model = GradedModel(tiny_encoder(), precision="fp32")
    pairs = graded_pairs(40)
    hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
    triplets = Triplets(["a b", "c d", "e f", "g"] * 4, ["b a", "d", "f", "g h"] * 4, ["x", "y", "z", "w"] * 4)
    settings: dict[str, Any] = {
        "objective": SMOOTH, "beside": (TaskConfig("triplets", batch_size=4),), "epochs": 1, "batch_size": 8,
        "learning_rate": 5e-3, "evaluate_every": 4, "selection": None,
    }  # fmt: skip
    stage = Stage(**settings | values)
    result = run_stage(
        stage, model, pairs, beside=[triplets], folder=folder / "stage", log=RunLog(folder / "log.jsonl"),
        precision=model.precision, seed=3,
    )  # fmt: skip
    run.steps = result.steps  # type: ignore[attr-defined]
    return {name: p.detach().clone() for name, p in model.encoder.named_parameters()}


@pytest.mark.parametrize(("mix", "steps"), [("alternate", 5 + 4), ("together", 5)])
def test_a_stage_with_a_task_beside_it(mix: str, steps: int, tmp_path: Path) -> None:
    both = run(tmp_path / "both", mix=mix)
    assert run.steps == steps  # type: ignore[attr-defined]
    again = run(tmp_path / "again", mix=mix)
    assert all(torch.equal(both[name], again[name]) for name in both)
    heavier = run(tmp_path / "heavier", mix=mix, beside=(TaskConfig("triplets", batch_size=4, weight=3.0),))
    assert any(not torch.equal(both[name], heavier[name]) for name in both)


def test_together_sums_the_tasks_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    from gradate.training.trainer import GradedTrainer

    original = GradedTrainer.compute_loss

    def spy(self: Any, model: Any, inputs: dict[str, Any], *rest: Any, **named: Any) -> Any:
        weight = self._weights[inputs["dataset_name"]]
        value = original(self, model, inputs, *rest, **named)
        seen.append((weight, float(value)))
        return value

    monkeypatch.setattr(GradedTrainer, "compute_loss", spy)
    run(tmp_path, mix="together", beside=(TaskConfig("triplets", batch_size=4, weight=0.5),))
    log = [line for line in RunLog(tmp_path / "log.jsonl").records() if "loss" in line]
    assert [weight for weight, _ in seen] == [1.0, 0.5] * 5
    # What is logged is the mean over updates of the sum of the weighted losses: transformers halves what was doubled.
    assert log[0]["loss"] == pytest.approx(sum(value for _, value in seen) / 2 / 5, rel=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaskConfig("pairs"), "the stage's own"),
        (lambda: TaskConfig("nli", SMOOTH), "reads the head"),
        (lambda: TaskConfig("nli-triplets", ObjectiveConfig(name="info-nce", projection=True)), "no projection"),
        (lambda: TaskConfig("nli-triplets", batch_size=0), "batch_size = 0"),
        (lambda: TaskConfig("nli-triplets", limit=0), "limit = 0"),
        (lambda: TaskConfig("nli-triplets", weight=0), "weight = 0"),
        (lambda: Stage(beside=(TaskConfig("nli-triplets"),), accumulate=2), "accumulate = 2 does not go with tasks"),
        (lambda: Stage(beside=(TaskConfig("nli-triplets"),), trainable="head"), "trainable = head does not go"),
        (lambda: Stage(beside=(TaskConfig("nli-triplets"),), compile="auto"), "compile = auto does not go"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
