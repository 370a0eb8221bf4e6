"""Soups: runs averaged with equal weights, and how they and others do on a selection set."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradate.data.corpus import load_dev_clean
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.sources import load_source
from gradate.errors import InputError
from gradate.evaluation.metrics import spearman, undefined_reason
from gradate.models.checkpoint import Checkpoint
from gradate.models.fusion import write_fused
from gradate.models.graded import GradedModel
from gradate.scale import LabelScale


@dataclass(frozen=True)
class Judge:
    """Judges a model by the Spearman correlation × 100 of its cosine, mean over the parts of a selection set.

    Args:
        sets: The parts by name.
        precision: `auto`, `fp32`, `tf32` or `bf16`.
        trust_remote_code: Run Python code that comes with the models.
    """

    sets: Mapping[str, Pairs]
    precision: str = "auto"
    trust_remote_code: bool = False

    @property
    def pairs(self) -> int:
        """Pairs in all parts."""
        return sum(len(pairs) for pairs in self.sets.values())

    def __call__(self, folder: Path) -> float:
        """The value of the model in a folder.

        Raises:
            InputError: it cannot be opened, or has no correlation.
        """
        model = GradedModel.from_pretrained(folder, precision=self.precision, trust_remote_code=self.trust_remote_code)
        values = []
        for name, pairs in self.sets.items():
            cosine = model.similarity(pairs)
            value = spearman(pairs.grades, cosine)
            if value is None:
                reason = undefined_reason(pairs.grades, cosine)
                raise InputError(f"no correlation on {name}: {reason}", where=folder, remedy="select on other pairs")
            values.append(value)
        return float(np.mean(values))


@dataclass(frozen=True)
class Selection:
    """Values on a selection set, as a judge gives them.

    Args:
        sets: Names of its parts.
        pairs: Pairs in all of them.
        base: Value of the base.
        runs: Value of each run.
        uniform: Value of the soup of all runs.
        greedy: Value of the greedy soup.
        chosen: Positions of the greedy soup's runs, the best one first.
    """

    sets: tuple[str, ...]
    pairs: int
    base: float
    runs: tuple[float, ...]
    uniform: float
    greedy: float
    chosen: tuple[int, ...]

    def to_json(self, runs: Sequence[str]) -> dict[str, Any]:
        """Plain JSON form, with the runs by their names."""
        return {
            "sets": list(self.sets),
            "pairs": self.pairs,
            "base": self.base,
            "runs": dict(zip(runs, self.runs, strict=True)),
            "uniform_soup": self.uniform,
            "greedy_soup": self.greedy,
            "greedy_runs": [runs[position] for position in self.chosen],
        }


def judge_all(base: Checkpoint, runs: Sequence[Checkpoint], judge: Judge) -> Selection:
    """Judge base, runs and both soups of them."""
    values = tuple(judge(run.folder) for run in runs)
    chosen, greedy = greedy_soup(runs, values, judge)
    return Selection(
        sets=tuple(judge.sets),
        pairs=judge.pairs,
        base=judge(base.folder),
        runs=values,
        uniform=soup_value(runs, judge),
        greedy=greedy,
        chosen=chosen,
    )


def selection_sets(
    name: str,
    *,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
) -> Mapping[str, Pairs]:
    """The parts of a selection set: those of `sts-dev-clean`, or the one file or source of that name.

    Raises:
        InputError: no such source or file, or its data cannot be used.
    """
    locations = DataLocations.resolve(data)
    if name == "sts-dev-clean":
        return load_dev_clean(locations)
    pairs = load_source(name, locations, scale=scale, columns=columns)
    return {pairs.name: pairs}


def soup_value(runs: Sequence[Checkpoint], judge: Callable[[Path], float]) -> float:
    """Value of the soup of these runs, which is written for the judge alone."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        runs[0].copy_frame(folder)
        write_fused(runs, folder)
        return judge(folder)


def greedy_soup(
    runs: Sequence[Checkpoint], values: Sequence[float], judge: Callable[[Path], float]
) -> tuple[tuple[int, ...], float]:
    """Start from the best run and add each other one, best first, that does not lower the soup's value.

    Args:
        runs: The candidates.
        values: The value of each.
        judge: Gives the value of a model folder.

    Returns:
        Positions of the soup's runs in the order they were added, and its value.

    Source: Wortsman et al. (2022), "Model soups", recipe 1.
    """
    best, *others = sorted(range(len(runs)), key=lambda position: -values[position])
    chosen: tuple[int, ...] = (best,)
    value = values[best]
    for position in others:
        found = soup_value([runs[i] for i in (*chosen, position)], judge)
        if found >= value:
            chosen, value = (*chosen, position), found
    return chosen, value
