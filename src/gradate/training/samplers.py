"""Batch samplers: the order of a stage's pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

WINDOW = 16
"""Batches among which pairs are sorted by length: enough to halve the padding, few enough to keep batches random."""


class SeededBatchSampler(DefaultBatchSampler):
    """Shuffles by seed and epoch alone, so that a resumed epoch has the order of the interrupted one.

    Args:
        dataset: Anything with a length.
        batch_size: Pairs per batch and process.
        seed: Seed of the run.
        drop_last: Leave out an incomplete last batch.
        lengths: Length of each pair, (n,); within windows of 16 batches pairs of like length then share a batch, and
            the batches of a window are shuffled again. None keeps batches fully random.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int,
        seed: int,
        drop_last: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last, seed=seed)
        self.lengths = lengths

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.sampler), generator=generator).tolist()  # type: ignore[arg-type]
        size = self.batch_size * WINDOW if self.lengths is not None else len(order)
        for start in range(0, len(order), size):
            window = order[start : start + size]
            if self.lengths is not None:
                window = self._by_length(window, generator)
            for first in range(0, len(window), self.batch_size):
                batch = window[first : first + self.batch_size]
                if len(batch) == self.batch_size or not self.drop_last:
                    yield batch

    def _by_length(self, window: list[int], generator: torch.Generator) -> list[int]:
        assert self.lengths is not None
        lengths, size = self.lengths, self.batch_size
        window = sorted(window, key=lambda i: lengths[i])
        whole = len(window) // size
        batches = torch.randperm(whole, generator=generator).tolist()
        # An incomplete batch can only be the epoch's last, and stays last.
        return [i for b in batches for i in window[b * size : (b + 1) * size]] + window[whole * size :]


class EpochCallback(TrainerCallback):
    """Tells a sampler its epoch, also where a wrapper of a resumed, distributed run would not."""

    def __init__(self) -> None:
        self.sampler: SeededBatchSampler | None = None

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the epoch that begins, or the one that is resumed."""
        if self.sampler is not None:
            # A resumed run reports the fraction of its epoch, a whole one with rounding noise.
            self.sampler.set_epoch(int((state.epoch or 0) + 1e-6))
