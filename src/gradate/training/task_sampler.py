"""The order of a stage with tasks beside it: batches of one task each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import torch
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler
from torch.utils.data import ConcatDataset

from gradate.training.samplers import SeededBatchSampler

Mix = Literal["alternate", "together"]


class TaskBatchSampler(MultiDatasetDefaultBatchSampler):
    """Batches of single tasks, each of its own size, in an order that seed and epoch alone decide.

    `alternate`: an epoch is one pass over every task, and a step has a batch of one of them, drawn by lot in the share
    of what is left; a task with smaller batches has more steps (CoDiEmb). `together`: every update has a batch of each
    task, one after the other; an epoch is one pass over the first task, and the others begin anew where they end, in
    another order (Conan-embedding). All processes are at the same task in each step, on rows of their own, and within
    a pass no row is left out (the published code of CoDiEmb drops a rest, and more under gradient accumulation).

    Args:
        dataset: The tasks' data sets, one behind the other.
        samplers: The order within each task.
        seed: Seed of the run.
        world_size: Processes that share the batches.
        mix: `alternate` or `together`.

    >>> samplers = [SeededBatchSampler(range(n), batch_size=size, seed=1) for n, size in ((6, 2), (4, 1))]
    >>> sampler = TaskBatchSampler(ConcatDataset([range(6), range(4)]), samplers, seed=1)
    >>> sorted(len(batch) for batch in sampler), sorted(row for batch in sampler for row in batch)
    ([1, 1, 1, 1, 2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(
        self,
        dataset: ConcatDataset[object],
        samplers: Sequence[SeededBatchSampler],
        *,
        seed: int,
        world_size: int = 1,
        mix: Mix = "alternate",
    ) -> None:
        super().__init__(dataset, list(samplers), seed=seed)
        self.samplers, self.world_size, self.mix = list(samplers), world_size, mix
        # Batches of several sizes: accelerate then deals them out as they come, and drops none for being short.
        self.batch_size = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if self.mix == "together":
            return len(self.samplers) * len(self.samplers[0])
        return sum(len(sampler) for sampler in self.samplers)

    def __iter__(self) -> Iterator[list[int]]:
        offsets = [0, *self.dataset.cumulative_sizes]
        streams = [self._stream(task) for task in range(len(self.samplers))]
        for task in self._tasks():
            for batch in islice(streams[task], self.world_size):
                yield [row + offsets[task] for row in batch]

    def _tasks(self) -> list[int]:
        """The task of every step."""
        steps = [len(sampler) // self.world_size for sampler in self.samplers]
        if self.mix == "together":
            return list(range(len(self.samplers))) * steps[0]
        order = [task for task, count in enumerate(steps) for _ in range(count)]
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        return [order[i] for i in torch.randperm(len(order), generator=generator).tolist()]

    def _stream(self, task: int) -> Iterator[list[int]]:
        """Batches of a task: those of the epoch, and for `together` those of passes that follow."""
        sampler = self.samplers[task]
        if self.mix == "alternate" or task == 0:
            sampler.set_epoch(self.epoch)
            yield from sampler
            return
        # Passes are counted through all epochs, so that a resumed epoch goes on where it was.
        needed = len(self.samplers[0])
        start = self.epoch * needed
        number, skipped = divmod(start, len(sampler))
        while True:
            sampler.set_epoch(number)
            yield from islice(iter(sampler), skipped, None)
            number, skipped = number + 1, 0
