"""Systems on the same pairs: how much better one is than another, and how sure that is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from gradate.errors import InputError
from gradate.evaluation.metrics import Array, Statistic, spearman_statistic
from gradate.evaluation.significance import Interval, Resampled, resample
from gradate.evaluation.williams import WilliamsTest, williams_of_ranks

AVERAGE = "average"


@dataclass(frozen=True, eq=False)
class ScoredTask:
    """What the scores of a task are held against.

    Args:
        gold: Grades, shape (n,).
        subsets: Sizes of the consecutive subsets; None for one.
        clusters: Cluster of each pair, shape (n,); None where the texts are not at hand.
    """

    gold: Array
    subsets: tuple[int, ...] | None = None
    clusters: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class System:
    """A system's scores by task, in official row order.

    Args:
        name: What to call it.
        scores: Shape (seeds, n) for each task; one row for a system without seeds.
        seeds: Seed of each row; empty for a system that has none, such as an untrained model.
    """

    name: str
    scores: Mapping[str, Array]
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        rows = {len(scores) for scores in self.scores.values()}
        if rows != {max(1, len(self.seeds))}:
            raise InputError(f"{len(self.seeds)} seeds, but scores of {sorted(rows)}", where=self.name)


@dataclass(frozen=True)
class SeedSpread:
    """A difference over seeds.

    Args:
        n: Differences: one a seed both have, or as many as the one with seeds has.
        sd: Their sample standard deviation.
        low: Lower end of Student's 95 % interval of their mean.
        high: Upper end.
    """

    n: int
    sd: float
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"n": self.n, "sd": self.sd, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Difference:
    """How a second system differs from a first on a task, or on the average of all.

    Args:
        pairs: Value, interval and p-value by resampling pairs.
        clusters: The same by resampling clusters of pairs that share sentences; None where they are not known.
        williams: Williams' test, the median of its p-values over pairs of seeds; None for an average.
        seeds: Spread over seeds; None where fewer than two can be compared.
    """

    pairs: Interval
    clusters: Interval | None = None
    williams: WilliamsTest | None = None
    seeds: SeedSpread | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form: difference, low, high, p, and what else is known."""
        found: dict[str, Any] = {
            "difference": self.pairs.value,
            "low": self.pairs.low,
            "high": self.pairs.high,
            "p": self.pairs.p,
        }
        if self.clusters is not None:
            found["clusters"] = {"low": self.clusters.low, "high": self.clusters.high, "p": self.clusters.p}
        if self.williams is not None:
            found["williams"] = self.williams.to_json()
        if self.seeds is not None:
            found["seeds"] = self.seeds.to_json()
        return found


class Arena:
    """Tasks on which systems meet; each is resampled once, and every two of them met the same resamples.

    Args:
        tasks: The tasks by name; none may be called `average`.
        statistic: Metric of a task, higher is better.
        resamples: Bootstrap resamples, 1 or more.
        seed: Seed of the first task's resamples; each further task takes the next number.

    Raises:
        InputError: no task, or one called `average`.
    """

    def __init__(
        self,
        tasks: Mapping[str, ScoredTask],
        *,
        statistic: Statistic = spearman_statistic,
        resamples: int = 1000,
        seed: int = 0,
    ) -> None:
        if not tasks or AVERAGE in tasks:
            raise InputError(f"expected at least one task, none of them called {AVERAGE!r}")
        self.tasks, self.statistic, self.resamples, self.seed = dict(tasks), statistic, resamples, seed
        self._resampled: dict[tuple[str, bool], dict[str, Resampled]] = {}

    @property
    def clustered(self) -> bool:
        """Whether the clusters of all tasks are known."""
        return all(task.clusters is not None for task in self.tasks.values())

    def values(self, system: System) -> dict[str, Array]:
        """The metric by task and seed, and the average over tasks by seed."""
        found = {}
        for name, task in self.tasks.items():
            one = np.ones((1, len(task.gold)))
            found[name] = np.array([self.statistic(task.gold, row, one)[0] for row in self._scores(system, name)])
        return found | {AVERAGE: np.mean(list(found.values()), axis=0)}

    def resampled(self, system: System, *, clusters: bool = False) -> dict[str, Resampled]:
        """The metric by task, mean over seeds, on the data and on every resample; and its average over tasks."""
        key = (system.name, clusters)
        if key not in self._resampled:
            found = {
                name: resample(
                    self.statistic,
                    task.gold,
                    self._scores(system, name),
                    subsets=task.subsets,
                    clusters=task.clusters if clusters else None,
                    resamples=self.resamples,
                    seed=self.seed + offset,
                )
                for offset, (name, task) in enumerate(self.tasks.items())
            }
            self._resampled[key] = found | {AVERAGE: Resampled.average(list(found.values()))}
        return self._resampled[key]

    def difference(self, first: System, second: System) -> dict[str, Difference]:
        """What the second system has over the first, by task and on the average.

        Raises:
            InputError: a task is missing in one of the two, or its scores are of another length.
        """
        by_pairs = self._minus(first, second, clusters=False)
        by_clusters = self._minus(first, second, clusters=True) if self.clustered else {}
        before, after = self.values(first), self.values(second)
        return {
            name: Difference(
                interval,
                by_clusters.get(name),
                None if name == AVERAGE else self._williams(first, second, name),
                seed_spread(first.seeds, before[name], second.seeds, after[name]),
            )
            for name, interval in by_pairs.items()
        }

    def _minus(self, first: System, second: System, *, clusters: bool) -> dict[str, Interval]:
        one, other = (self.resampled(system, clusters=clusters) for system in (first, second))
        return {name: other[name].minus(one[name]) for name in other}

    def _williams(self, first: System, second: System, name: str) -> WilliamsTest | None:
        if self.statistic is not spearman_statistic:
            return None
        gold, ones, others = self.tasks[name].gold, self._scores(first, name), self._scores(second, name)
        count = max(len(ones), len(others))
        tests = [williams_of_ranks(gold, others[i % len(others)], ones[i % len(ones)]) for i in range(count)]
        found = sorted((test for test in tests if test is not None), key=lambda test: test.p)
        return found[len(found) // 2] if len(found) == count else None

    def _scores(self, system: System, name: str) -> Array:
        if name not in system.scores:
            raise InputError(f"has no scores of {name}", where=system.name, remedy="measure it there, or leave it out")
        scores, n = system.scores[name], len(self.tasks[name].gold)
        if scores.shape[1] != n:
            raise InputError(f"has {scores.shape[1]} scores of {name}, which has {n} pairs", where=system.name)
        return scores


def seed_spread(
    first_seeds: tuple[int, ...], first: Array, second_seeds: tuple[int, ...], second: Array
) -> SeedSpread | None:
    """Spread of second − first over seeds; None where there are not two differences or one is undefined.

    Systems with common seeds are compared seed by seed, one with seeds against one without by every seed it has, and
    systems without a common seed by their means (Welch).
    """
    if np.isnan(first).any() or np.isnan(second).any():
        return None
    if first_seeds and second_seeds:
        common = [seed for seed in first_seeds if seed in second_seeds]
        if len(common) < 2:
            return _welch(first, second)
        ones = first[[first_seeds.index(seed) for seed in common]]
        differences = second[[second_seeds.index(seed) for seed in common]] - ones
    else:
        differences = second - first
    n = len(differences)
    if n < 2:
        return None
    sd = statistics.stdev(differences.tolist())
    reach = float(stats.t.ppf(0.975, n - 1)) * sd / n**0.5
    mean = float(differences.mean())
    return SeedSpread(n, sd, mean - reach, mean + reach)


def _welch(first: Array, second: Array) -> SeedSpread | None:
    if min(len(first), len(second)) < 2:
        return None
    interval = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    sd = float(np.sqrt(first.var(ddof=1) + second.var(ddof=1)))
    return SeedSpread(min(len(first), len(second)), sd, float(interval.low), float(interval.high))
