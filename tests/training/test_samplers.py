"""The order of a stage's pairs: every pair once over all processes, by seed and epoch, like lengths together."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from accelerate.data_loader import BatchSamplerShard
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import TrainerControl, TrainerState, TrainingArguments

from gradate.errors import InputError
from gradate.training.samplers import WINDOW, EpochCallback, SeededBatchSampler

LENGTHS = np.random.default_rng(0).integers(1, 200, 1000).tolist()


def epoch(
    number: int, *, n: int = 1000, seed: int = 1, size: int = 8, lengths: list[int] | None = None, world: int = 1
) -> list[list[int]]:
    sampler = SeededBatchSampler(range(n), batch_size=size, seed=seed, lengths=lengths, world_size=world)
    sampler.set_epoch(number)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    return batches


@st.composite
def settings_of_an_epoch(draw: st.DrawFn) -> dict[str, object]:
    n, world = draw(st.integers(1, 300)), draw(st.integers(1, 4))
    assume(n >= world)
    lengths = draw(st.none() | st.lists(st.integers(0, 30), min_size=n, max_size=n))
    return {
        "n": n,
        "world": world,
        "size": draw(st.integers(1, 40)),
        "seed": draw(st.integers(0, 9)),
        "lengths": lengths,
    }


@given(settings_of_an_epoch(), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_every_pair_once_over_all_processes_with_as_many_steps_each(chosen, number) -> None:
    n, world, size = chosen["n"], chosen["world"], chosen["size"]
    batches = epoch(number, **chosen)
    sampler = SeededBatchSampler(
        range(n), batch_size=size, seed=chosen["seed"], lengths=chosen["lengths"], world_size=world
    )
    sampler.set_epoch(number)
    # What sentence-transformers asks of accelerate: whole batches in turn, nothing repeated to fill up.
    shards = [
        list(BatchSamplerShard(sampler, num_processes=world, process_index=rank, even_batches=False))
        for rank in range(world)
    ]
    assert len({len(shard) for shard in shards}) == 1, "a process with more steps would wait for the others for ever"
    assert [batch for step in zip(*shards, strict=True) for batch in step] == batches
    dealt = sorted(i for batch in batches for i in batch)
    left_out = n % world if size == 1 else 0
    assert len(dealt) == n - left_out and len(set(dealt)) == len(dealt)
    assert all(1 <= len(batch) <= size for batch in batches)
    full = [batch for batch in batches if len(batch) == size]
    assert len(full) >= world * (n // (world * size)) - world
    assert all(len(batch) == size for batch in batches[: max(0, len(batches) - 2 * world)])


@given(settings_of_an_epoch(), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_order_is_that_of_seed_and_epoch_alone(chosen, number) -> None:
    assert epoch(number, **chosen) == epoch(number, **chosen)
    if chosen["n"] >= 30 and chosen["n"] > chosen["size"] and chosen["lengths"] is None:
        assert epoch(number, **chosen) != epoch(number + 1, **chosen)
        assert epoch(number, **chosen) != epoch(number, **{**chosen, "seed": chosen["seed"] + 1})


@given(settings_of_an_epoch())
@settings(max_examples=150, deadline=None)
def test_a_global_batch_is_a_run_of_the_sorted_window(chosen) -> None:
    assume(chosen["lengths"] is not None)
    lengths, world = chosen["lengths"], chosen["world"]
    batches = epoch(0, **chosen)
    rounds = [list(chain(*batches[i : i + world])) for i in range(0, len(batches), world)]
    for first in range(0, len(rounds), WINDOW):
        window = rounds[first : first + WINDOW]
        # In the order of their shortest pairs, no two global batches of a window overlap in length.
        ordered = sorted(sorted(lengths[i] for i in rows) for rows in window)
        assert list(chain(*ordered)) == sorted(lengths[i] for rows in window for i in rows)
    for i in range(0, len(batches), world):
        sides = batches[i : i + world]
        assert max(map(len, sides)) - min(map(len, sides)) <= 1
        # Dealt in turn: the k-th longest pairs of all processes lie next to each other in the sorted global batch.
        ranked = sorted(lengths[row] for side in sides for row in side)
        for k in range(min(map(len, sides))):
            held = [sorted(lengths[row] for row in side)[k] for side in sides]
            assert ranked[k * world] <= min(held) and max(held) <= ranked[k * world + world - 1]


def test_like_lengths_share_a_batch_and_a_global_batch() -> None:
    def padding(batches: list[list[int]]) -> float:
        padded = sum(max(LENGTHS[i] for i in batch) * len(batch) for batch in batches)
        return 1 - sum(LENGTHS) / padded

    assert padding(epoch(0, lengths=LENGTHS)) < 0.1 < 0.3 < padding(epoch(0))
    batches = epoch(0, lengths=LENGTHS, world=4)
    longest = np.array([max(LENGTHS[i] for i in batch) for batch in batches]).reshape(-1, 4)
    assert np.median(np.ptp(longest, axis=1)) <= 3, "processes that step together hold pairs of like length"


def test_batches_are_not_sorted_by_length() -> None:
    means = [np.mean([LENGTHS[i] for i in batch]) for batch in epoch(0, lengths=LENGTHS)[:WINDOW]]
    assert abs(np.corrcoef(means, range(WINDOW))[0, 1]) < 0.6


def test_the_incomplete_batch_prefers_no_length() -> None:
    found = [np.mean([LENGTHS[i] for i in epoch(number, size=64, lengths=LENGTHS)[-1]]) for number in range(60)]
    assert min(found) < 40 and max(found) > 160
    assert np.mean(found) == pytest.approx(np.mean(LENGTHS), abs=30)


def test_one_process_takes_what_is_there() -> None:
    assert epoch(0, n=5, size=64) == [epoch(0, n=5, size=5)[0]]
    with pytest.raises(InputError, match="3 pairs cannot be dealt out to 4 processes"):
        epoch(0, n=3, world=4)


@pytest.mark.parametrize(("reported", "number"), [(None, 0), (0.0, 0), (0.37, 0), (1.0, 1), (1.9999999, 2), (2.6, 2)])
def test_a_resumed_epoch_keeps_its_order(reported: float | None, number: int) -> None:
    callback = EpochCallback()
    state, control = TrainerState(epoch=reported), TrainerControl()  # type: ignore[arg-type]
    callback.on_epoch_begin(TrainingArguments(use_cpu=True), state, control)  # no sampler yet: nothing to tell
    callback.sampler = SeededBatchSampler(range(1000), batch_size=8, seed=1)
    callback.on_epoch_begin(TrainingArguments(use_cpu=True), state, control)
    assert list(callback.sampler) == epoch(number)
