"""The binary ceiling: the best Spearman correlation that scores of two values can reach on given grades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.data.benchmarks import load_seven_sts
from gradate.data.locations import DataLocations
from gradate.data.sources import load_source
from gradate.errors import InputError
from gradate.scale import LabelScale

NO_TIES_LIMIT = 7 / 8
"""The ceiling of many distinct grades by the formula 1 − 6Σd²/(n(n² − 1)), which holds without ties only."""
TIE_CORRECT_LIMIT = math.sqrt(3) / 2
"""The same by the Pearson correlation of mid-ranks, which is what is measured."""
EXPLANATION = (
    f"Of many distinct grades the ceiling is {TIE_CORRECT_LIMIT:.4f}; the {NO_TIES_LIMIT} of the literature comes from"
    " the formula 1 − 6Σd²/(n(n² − 1)), which is invalid under ties, and scores of two values are all ties.",
    "It is no theorem about trained models: a cosine is continuous and may order the pairs within either class.",
)


@dataclass(frozen=True)
class Ceiling:
    """The best that a scorer with two values can do.

    Args:
        value: Its Spearman correlation with the grades, 0 to 1.
        threshold: It says yes to the grades from here on.
        share_positive: Share of the pairs with such a grade.
        n: Pairs.
    """

    value: float
    threshold: float
    share_positive: float
    n: int


@dataclass(frozen=True)
class Ceilings:
    """Ceilings of the tasks of a benchmark, or of one set of pairs.

    Args:
        name: `seven-sts`, a source, or the stem of a file.
        tasks: Tie-aware ceiling of each task.
        no_ties: What the formula without ties says of the same grades.
        notes: What reading decided.
    """

    name: str
    tasks: dict[str, Ceiling]
    no_ties: dict[str, Ceiling]
    notes: tuple[str, ...] = ()

    @property
    def average(self) -> float:
        """Plain average of the tasks: the ceiling of a benchmark's average, with a threshold for each task."""
        return float(np.mean([task.value for task in self.tasks.values()]))

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON, on 0 to 1; one set of pairs is not wrapped into tasks."""
        entries = {name: self._entry(name) for name in self.tasks}
        common = {
            "no_ties_formula": NO_TIES_LIMIT,
            "tie_correct": TIE_CORRECT_LIMIT,
            "notes": [*self.notes, *EXPLANATION],
        }
        if list(entries) == [self.name]:
            return {"pairs": self.name, **entries[self.name], **common}
        return {"benchmark": self.name, "tasks": entries, "average": self.average, **common}

    def _entry(self, name: str) -> dict[str, Any]:
        task = self.tasks[name]
        return {
            "ceiling": task.value,
            "threshold": task.threshold,
            "share_positive": task.share_positive,
            "n": task.n,
            "ceiling_by_no_ties_formula": self.no_ties[name].value,
        }


def measure_ceilings(
    pairs: str,
    *,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
) -> Ceilings:
    """The binary ceiling of a file of pairs, of a named source, or of each of the seven STS test sets.

    Args:
        pairs: A file, a source such as `stsb-test`, or `seven-sts`.
        scale: Scale of a file's grades; None infers one.
        columns: Columns of a file; see `read_pairs`.
        data: Data folders or `NAME=PATH`; see `DataLocations.resolve`.

    Raises:
        InputError: no such source or file, data that cannot be used, or grades that are all equal.
    """
    locations = DataLocations.resolve(data)
    notes: tuple[str, ...] = ()
    name = pairs
    if pairs == "seven-sts":
        if scale is not None or columns is not None:
            raise InputError("seven-sts has its own scales and columns", remedy="leave out --scale and --columns")
        tasks = load_seven_sts(locations).tasks
        golds = {name: np.concatenate([subset.gold for subset in task.subsets]) for name, task in tasks.items()}
    else:
        found = load_source(pairs, locations, scale=scale, columns=columns)
        name, notes, golds = found.name, found.notes, {found.name: found.grades}
    return Ceilings(name, _ceilings(golds, tie_aware=True), _ceilings(golds, tie_aware=False), notes)


def binary_ceiling(gold: npt.ArrayLike, *, tie_aware: bool = True) -> Ceiling:
    """The best Spearman correlation of a binary score with the grades, and where it cuts them.

    No other split of the pairs does better than a cut between two grades: for a given number of positives the topmost
    ranks correlate most, and as positives are added from one group of equal grades, the square of the correlation is
    a convex function over a concave one, whose maximum lies at an end of the group.

    Args:
        gold: Grades, shape (n,).
        tie_aware: Spearman as it is measured, the Pearson correlation of mid-ranks. False takes the formula
            1 − 6Σd²/(n(n² − 1)) instead, which is invalid under ties and yields the 0.875 of the source.

    Raises:
        InputError: grades that are all equal or not finite.

    Source: Zhang & Li (2024), "Pcc-tuning: Breaking the contrastive learning ceiling in semantic textual similarity".

    >>> ceiling = binary_ceiling([1, 2, 3, 4])
    >>> round(ceiling.value, 5), ceiling.threshold, ceiling.share_positive
    (0.89443, 3.0, 0.5)
    >>> round(binary_ceiling([1, 2, 3, 4], tie_aware=False).value, 5)
    0.9
    """
    grades = np.asarray(gold, dtype=np.float64)
    if grades.ndim != 1 or not np.isfinite(grades).all():
        raise InputError("the grades must be finite numbers of shape (n,)", remedy="find out where others arise")
    values, counts = np.unique(grades, return_counts=True)
    if len(values) < 2:
        what = f"all {len(grades)} grades are equal: no score correlates with them"
        raise InputError(what, remedy="bring pairs of at least two grades")
    n = len(grades)
    # Ranks are counted from their middle and doubled, so that all of them are whole and their sum is 0. A binary score
    # then has the rank −positives where it says no and +negatives where it says yes.
    ranks = 2.0 * np.cumsum(counts) - counts - n
    variance = float(counts @ ranks**2)
    positives = (n - np.cumsum(counts))[:-1].astype(np.float64)
    covariance = -n * np.cumsum(counts * ranks)[:-1]
    binary_variance = n * positives * (n - positives)
    if tie_aware:
        correlations = covariance / np.sqrt(variance * binary_variance)
    else:
        squared_distances = (variance + binary_variance - 2 * covariance) / 4
        correlations = 1 - 6 * squared_distances / (n * (n**2 - 1.0))
    best = int(np.argmax(correlations))
    return Ceiling(float(correlations[best]), float(values[best + 1]), float(positives[best] / n), n)


def _ceilings(golds: dict[str, npt.NDArray[np.float64]], *, tie_aware: bool) -> dict[str, Ceiling]:
    found = {}
    for name, gold in golds.items():
        try:
            found[name] = binary_ceiling(gold, tie_aware=tie_aware)
        except InputError as error:
            raise InputError(error.what, where=name, remedy=error.remedy) from None
    return found
