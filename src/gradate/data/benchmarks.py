"""The seven STS test sets, row by row as published."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradate.data.examples import fingerprint
from gradate.data.hub import senteval_folder
from gradate.data.locations import DataLocations
from gradate.data.sts_files import STS_YEARS, ScoredPairs, read_sick, read_sts_subset, read_stsb

SEVEN_STS = (*STS_YEARS, "STS-B", "SICK-R")
# Scores are comparable only on the same text: the published forms are the original and the lower-cased, tokenised one.
FINGERPRINTS: Mapping[str, str] = {"fdf59fa17853c141": "raw", "9d43d970af92bd46": "senteval"}


@dataclass(frozen=True, eq=False)
class Subset:
    """One file of a task.

    Args:
        name: Its official name; `test` where a task has one file.
        text1: First sentences, in official row order.
        text2: Second sentences.
        gold: Gold scores, shape (n,).
        skipped: Lines left out because they are unscored.
    """

    name: str
    text1: tuple[str, ...]
    text2: tuple[str, ...]
    gold: npt.NDArray[np.float64]
    skipped: int

    def __len__(self) -> int:
        return len(self.text1)


@dataclass(frozen=True)
class Task:
    """One of the test sets.

    Args:
        name: For instance `STS12` or `SICK-R`.
        subsets: Its files, in official order.
    """

    name: str
    subsets: tuple[Subset, ...]

    def __len__(self) -> int:
        return sum(len(subset) for subset in self.subsets)

    def text_pairs(self) -> list[tuple[str, str]]:
        """The two texts of each scored pair, in official row order."""
        return [pair for subset in self.subsets for pair in zip(subset.text1, subset.text2, strict=True)]


@dataclass(frozen=True)
class Benchmark:
    """Named test sets.

    Args:
        name: Name of the benchmark.
        tasks: Its test sets by name, in official order.
        form: The published form of the text: `raw`, `senteval`, or `unknown`.
    """

    name: str
    tasks: Mapping[str, Task]
    form: str = "unknown"

    def text_pairs(self) -> dict[str, list[tuple[str, str]]]:
        """The two texts of each scored pair, per task: what leakage is measured against."""
        return {name: task.text_pairs() for name, task in self.tasks.items()}

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over names, texts and gold scores."""
        return _fingerprint(self.tasks)


def layout_folder(locations: DataLocations) -> Path:
    """Folder in SentEval's layout: the one that was given, else the Hub's.

    Raises:
        InputError: none was given, and the Hub cannot be reached.
    """
    return locations.senteval or senteval_folder()


def load_seven_sts(locations: DataLocations) -> Benchmark:
    """Read STS12-16, the STS-B test set and the SICK-R test set; warns where the text is of no published form.

    Raises:
        InputError: a file is missing, broken or of another length than the official one, or the Hub is out of reach.
    """
    folder = layout_folder(locations)
    tasks = {
        year: Task(year, tuple(_subset(name, read_sts_subset(folder, year, name)) for name in subsets))
        for year, subsets in STS_YEARS.items()
    }
    tasks["STS-B"] = Task("STS-B", (_subset("test", read_stsb(folder, "test")),))
    tasks["SICK-R"] = Task("SICK-R", (_subset("test", read_sick(folder, "test")),))
    value = _fingerprint(tasks)
    form = FINGERPRINTS.get(value, "unknown")
    if form == "unknown":
        warnings.warn(
            f"{folder}: the seven STS sets have the fingerprint {value}, which is no published form "
            f"({', '.join(f'{name} {known}' for known, name in FINGERPRINTS.items())}): scores may not compare",
            stacklevel=2,
        )
    return Benchmark("seven-sts", tasks, form)


def _subset(name: str, pairs: ScoredPairs) -> Subset:
    return Subset(name, tuple(pairs.text1), tuple(pairs.text2), pairs.gold, pairs.skipped)


def _fingerprint(tasks: Mapping[str, Task]) -> str:
    digest = hashlib.sha256()
    for task in tasks.values():
        for subset in task.subsets:
            value = fingerprint(subset.text1, subset.text2, subset.gold)
            digest.update(f"{task.name}/{subset.name}={value}\n".encode())
    return digest.hexdigest()[:16]
