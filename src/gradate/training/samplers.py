"""Batch samplers: the order of a stage's pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from sentence_transformers.base.sampler import DefaultBatchSampler, MultiDatasetDefaultBatchSampler
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradate.errors import InputError

WINDOW = 16
"""Global batches among which pairs are sorted by length: enough to nearly end padding, few enough to stay random."""

PIECE = re.compile(r"[A-Za-z0-9_]{1,8}|[^\sA-Za-z0-9_]")
"""What a text counts in before it meets a tokenizer: a word of up to eight letters, a mark, a letter of other scripts.

Correlates with the bundled tokenizer's count by 0.99 (characters: 0.96), and a dry run needs no model for it."""


class SeededBatchSampler(DefaultBatchSampler):
    """Shuffles by seed and epoch alone, so that a resumed epoch has the order of the interrupted one.

    With `lengths`, pairs of like length share a batch. The epoch is still shuffled first and cut into windows of 16
    global batches (one global batch: `batch_size` pairs for each of `world_size` processes), so that chance alone says
    which pairs meet in a window, whatever their source or grade; a window is then sorted, cut into global batches, and
    these are shuffled. A loss that is a sum over pairs does not mind: over an epoch the sum is the same whatever the
    grouping. A loss over the batch as a whole, such as a Pearson correlation, would compare pairs of like length only,
    and wants `lengths=None`.

    Consecutive batches go to the processes in turn, as accelerate deals them, and those of one global batch hold pairs
    of like length and differ in size by at most one pair: no process waits for another. An incomplete global batch is
    the epoch's last, and dealt out too; its place in the sorted window is random, so that no length is preferred.
    Only where it has less than a pair for each process does the one before it give some of its own, or, with batches
    of one pair, those pairs wait for another epoch.

    Args:
        dataset: Anything with a length.
        batch_size: Pairs per batch and process.
        seed: Seed of the run.
        lengths: Length of each pair, (n,), in any unit; None keeps batches fully random.
        world_size: Processes that share the batches.
        reshuffle: Draw a new order every epoch; False repeats the first one.

    Raises:
        InputError: fewer pairs than processes.

    >>> sampler = SeededBatchSampler(range(6), batch_size=2, seed=1, lengths=[9, 1, 5, 1, 9, 5])
    >>> sorted(sorted(batch) for batch in sampler)
    [[0, 4], [1, 3], [2, 5]]
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int,
        seed: int,
        lengths: Sequence[int] | None = None,
        world_size: int = 1,
        reshuffle: bool = True,
    ) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=False, seed=seed)
        if len(dataset) < world_size:
            raise InputError(
                f"{len(dataset)} pairs cannot be dealt out to {world_size} processes", remedy="start fewer processes"
            )
        self.lengths, self.world_size, self.reshuffle = lengths, world_size, reshuffle
        self._sizes = _global_sizes(len(dataset), batch_size, world_size)

    def __len__(self) -> int:
        return self.world_size * len(self._sizes)

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch if self.reshuffle else 0
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.sampler), generator=generator).tolist()  # type: ignore[arg-type]
        start = 0
        for first in range(0, len(self._sizes), WINDOW):
            sizes = self._sizes[first : first + WINDOW]
            slots = list(range(len(sizes)))
            window = order[start : start + sum(sizes)]
            start += len(window)
            if self.lengths is not None:
                window.sort(key=self.lengths.__getitem__)
                slots = torch.randperm(len(sizes), generator=generator).tolist()
            for rows in _cut(window, sizes, slots):
                # accelerate yields a round of batches when its last one is full: that one must be the largest.
                yield from (rows[rank :: self.world_size] for rank in reversed(range(self.world_size)))


def row_lengths(dataset: Any) -> list[int]:
    """Pieces in the longest text of each row, near enough the tokens that its batch is padded to.

    Args:
        dataset: Columns of texts; a column of numbers is no text.

    >>> row_lengths({"sentence1": ["A cat sleeps.", "Yes"], "sentence2": ["Cats?", "Not internationally"]})
    [4, 3]
    """
    names = getattr(dataset, "column_names", None) or list(dataset)
    columns = [column for column in (dataset[name] for name in names) if len(column) and isinstance(column[0], str)]
    return [max(len(PIECE.findall(text)) for text in row) for row in zip(*columns, strict=True)]


def _global_sizes(n: int, batch_size: int, world_size: int) -> list[int]:
    """Pairs in each global batch, in order; every process gets one at least from each."""
    whole, rest = divmod(n, world_size * batch_size)
    sizes = [world_size * batch_size] * whole
    if 0 < rest < world_size:
        if batch_size == 1:
            rest = 0
        else:
            sizes[-1] -= world_size - rest
            rest = world_size
    return [*sizes, rest] if rest else sizes


def _cut(window: list[int], sizes: list[int], slots: list[int]) -> list[list[int]]:
    """Cut a window into consecutive pieces, the i-th for place `slots[i]`, whose size is `sizes[slots[i]]`."""
    pieces: list[list[int]] = [[] for _ in sizes]
    start = 0
    for slot in slots:
        pieces[slot] = window[start : start + sizes[slot]]
        start += sizes[slot]
    return pieces


class EpochCallback(TrainerCallback):
    """Tells a sampler its epoch, also where a wrapper of a resumed, distributed run would not."""

    def __init__(self) -> None:
        self.sampler: DefaultBatchSampler | MultiDatasetDefaultBatchSampler | None = None

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the epoch that begins, or the one that is resumed."""
        if self.sampler is not None:
            # A resumed run reports the fraction of its epoch, a whole one with rounding noise.
            self.sampler.set_epoch(int((state.epoch or 0) + 1e-6))
