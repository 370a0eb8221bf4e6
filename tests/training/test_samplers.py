"""The order of a stage's pairs: every pair once, by seed and epoch, with like lengths together where asked."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from gradate.training.samplers import WINDOW, EpochCallback, SeededBatchSampler

LENGTHS = np.random.default_rng(0).integers(1, 200, 1000).tolist()


def epoch(
    number: int, *, n: int = 1000, seed: int = 1, size: int = 8, lengths: list[int] | None = None
) -> list[list[int]]:
    sampler = SeededBatchSampler(range(n), batch_size=size, seed=seed, lengths=lengths)
    sampler.set_epoch(number)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    return batches


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_every_pair_once_in_batches_of_one_size(lengths: list[int] | None) -> None:
    batches = epoch(0, size=7, lengths=lengths)
    assert sorted(i for batch in batches for i in batch) == list(range(1000))
    assert {len(batch) for batch in batches[:-1]} == {7} and len(batches[-1]) == 1000 % 7


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_order_is_that_of_seed_and_epoch_alone(lengths: list[int] | None) -> None:
    assert epoch(3, lengths=lengths) == epoch(3, lengths=lengths)
    assert epoch(3, lengths=lengths) != epoch(4, lengths=lengths)
    assert epoch(3, lengths=lengths) != epoch(3, seed=2, lengths=lengths)


def test_like_lengths_share_a_batch() -> None:
    def padding(batches: list[list[int]]) -> float:
        padded = sum(max(LENGTHS[i] for i in batch) * len(batch) for batch in batches)
        return 1 - sum(LENGTHS) / padded

    assert padding(epoch(0, lengths=LENGTHS)) < 0.1 < 0.3 < padding(epoch(0))


def test_batches_are_not_sorted_by_length() -> None:
    means = [np.mean([LENGTHS[i] for i in batch]) for batch in epoch(0, lengths=LENGTHS)[:WINDOW]]
    assert abs(np.corrcoef(means, range(WINDOW))[0, 1]) < 0.6


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_an_incomplete_batch_can_be_left_out(lengths: list[int] | None) -> None:
    sampler = SeededBatchSampler(range(1000), batch_size=7, seed=1, drop_last=True, lengths=lengths)
    batches = list(sampler)
    assert {len(batch) for batch in batches} == {7} and len(batches) == len(sampler) == 1000 // 7
    assert batches == epoch(0, size=7, lengths=lengths)[:-1]


@pytest.mark.parametrize(("reported", "number"), [(None, 0), (0.0, 0), (0.37, 0), (1.0, 1), (1.9999999, 2), (2.6, 2)])
def test_a_resumed_epoch_keeps_its_order(reported: float | None, number: int) -> None:
    callback = EpochCallback()
    state, control = TrainerState(epoch=reported), TrainerControl()  # type: ignore[arg-type]
    callback.on_epoch_begin(TrainingArguments(use_cpu=True), state, control)  # no sampler yet: nothing to tell
    callback.sampler = SeededBatchSampler(range(1000), batch_size=8, seed=1)
    callback.on_epoch_begin(TrainingArguments(use_cpu=True), state, control)
    assert list(callback.sampler) == epoch(number)
