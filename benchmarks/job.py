"""The training job that every contender does, and the clock that times its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.machine import synchronize
from gradate.data.examples import Pairs


@dataclass(frozen=True)
class TrainingJob:
    """Same data, initial weights, loss and learning rate for all.

    Args:
        encoder: Folder of the encoder.
        head: Folder of the head's initial weights, over [u; v; |u−v|] of the state before Normalize.
        pairs: Training pairs.
    """

    encoder: Path
    head: Path
    pairs: Pairs
    batch_size: int = 16
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    k: float = 3.0
    x0: float = 0.2


class Clock:
    """Times of the start and of the end of every step."""

    def __init__(self) -> None:
        self.ticks = [time.perf_counter()]

    def tick(self) -> None:
        """A step has ended."""
        synchronize()
        self.ticks.append(time.perf_counter())

    @property
    def steps(self) -> int:
        """Steps so far."""
        return len(self.ticks) - 1

    def seconds(self, skipped: int = 0) -> float:
        """From the end of the first `skipped` steps (0: from the start, preparation included) to the last step's."""
        return self.ticks[-1] - self.ticks[skipped]


class Contender(Protocol):
    """Somebody's way to do the job."""

    def train(self, pairs: Pairs, seed: int, clock: Clock) -> None:
        """One epoch over these pairs from the initial weights, ticking after each step."""

    def save(self, folder: Path) -> None:
        """Write the trained encoder as a plain sentence-transformers folder."""


def segment(contender: Contender, job: TrainingJob, steps: int, skipped: int) -> Callable[[int], dict[str, Any]]:
    """Measures `steps` steps after `skipped` ones; the pairs are drawn by the round, the same for all contenders."""

    def measure(number: int) -> dict[str, Any]:
        size = min((steps + skipped) * job.batch_size, len(job.pairs) // job.batch_size * job.batch_size)
        chosen = np.random.default_rng(number).choice(len(job.pairs), size, replace=False)
        clock = Clock()
        contender.train(job.pairs.select(chosen), number, clock)
        pairs = (clock.steps - skipped) * job.batch_size
        seconds = clock.seconds(skipped)
        return {
            "seconds": seconds,
            "pairs": pairs,
            "steps": clock.steps - skipped,
            "rate": 2 * pairs / seconds,
            "before": clock.seconds() - seconds,
        }

    return measure


def epoch(contender: Contender, job: TrainingJob, folder: Path) -> Callable[[int], dict[str, Any]]:
    """Measures one epoch over all pairs, from raw texts to the last step; the seed is the round's number + 1."""

    def measure(number: int) -> dict[str, Any]:
        clock = Clock()
        contender.train(job.pairs, number + 1, clock)
        seconds = clock.seconds()
        contender.save(folder)
        return {
            "seconds": seconds,
            "pairs": len(job.pairs),
            "steps": clock.steps,
            "rate": 2 * len(job.pairs) / seconds,
            "seed": number + 1,
            "model": str(folder),
        }

    return measure
