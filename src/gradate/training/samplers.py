"""Batch samplers: the order of a stage's pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class SeededBatchSampler(DefaultBatchSampler):
    """Shuffles by seed and epoch alone, so that a resumed epoch has the order of the interrupted one.

    Args:
        dataset: Anything with a length.
        batch_size: Pairs per batch, over all processes together; accelerate deals them out.
        seed: Seed of the run.
        drop_last: Leave out an incomplete last batch.
    """

    def __init__(self, dataset: Any, *, batch_size: int, seed: int, drop_last: bool = False) -> None:
        super().__init__(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last, seed=seed)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(len(self.sampler), generator=generator).tolist()  # type: ignore[arg-type]
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch


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
