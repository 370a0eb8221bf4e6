"""What the command line asked for: one run of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Results, System, interleave
from benchmarks.machine import on_gpu
from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.corpus import build_sts_corpus
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.readers import read_pairs
from gradate.data.sources import NLI_SCALE
from gradate.models.loading import resolve_model

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "results" / "performance"
QUICK = ROOT / "runs" / "performance"
"""Git-ignored."""


class Inputs:
    """The data of the tables, read when it is first needed.

    Args:
        locations: As for `gradate`'s `--data`.
        encoder: As for `gradate`'s MODEL.
    """

    def __init__(self, locations: DataLocations, encoder: str) -> None:
        self.locations = locations
        self.encoder = resolve_model(encoder)

    @cached_property
    def corpus(self) -> Pairs:
        """The 5,398 pairs of STS-B and SICK-R that stand in no test."""
        return build_sts_corpus(self.locations, self.benchmark).pairs

    @cached_property
    def benchmark(self) -> Benchmark:
        """The seven STS test sets."""
        return load_seven_sts(self.locations)

    @cached_property
    def nli(self) -> Pairs:
        """All pairs of the NLI file, whatever their part: what is measured here is time."""
        file = self.locations.named.get("nli")
        if file is None:
            raise SystemExit("this table needs the NLI pairs: --data nli=FILE")
        return read_pairs(file, scale=NLI_SCALE)

    @property
    def sentences(self) -> list[str]:
        """The distinct sentences of the seven sets, first seen first."""
        pairs = (pair for task in self.benchmark.tasks.values() for pair in task.text_pairs())
        return list(dict.fromkeys(text for pair in pairs for text in pair))


@dataclass(frozen=True)
class Run:
    """Options that every table has, and the few that one has for itself."""

    table: str
    inputs: Inputs
    quick: bool = False
    rounds: int | None = None
    only: tuple[str, ...] = ()
    fresh: bool = False
    isolate: bool = True
    command: str = ""
    folder: Path | None = None
    """Where the results go instead of the usual place."""
    options: dict[str, Any] = field(default_factory=dict)

    def results(self, settings: dict[str, Any]) -> Results:
        """The table's file of results."""
        folder = self.folder or (QUICK if self.quick else COMMITTED)
        name = f"{self.table}-gpu" if on_gpu() else self.table
        path = folder / f"{name}.json"
        return Results(path, self.table, settings, self.command, quick=self.quick, fresh=self.fresh or self.quick)

    def interleave(self, results: Results, part: str, systems: Sequence[System], rounds: int, **further: Any) -> None:
        """As `harness.interleave`, with this run's options."""
        interleave(results, part, systems, self.rounds or rounds, isolate=self.isolate, only=self.only, **further)


def sample(pairs: Pairs, n: int) -> Pairs:
    """`n` of the pairs, the same every time; all of them where there are not more."""
    if n >= len(pairs):
        return pairs
    return pairs.select(np.sort(np.random.default_rng(0).choice(len(pairs), n, replace=False)))
