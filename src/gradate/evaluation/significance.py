"""Uncertainty of the metrics: percentile bootstrap intervals of a value and of a paired difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.errors import InputError
from gradate.evaluation.metrics import Array, Statistic, spearman_statistic

CHUNK_ELEMENTS = 500_000
"""Resampled pairs held at once: bounds the memory of a bootstrap to a few tens of MB."""


@dataclass(frozen=True)
class Interval:
    """A value with its percentile bootstrap interval.

    Args:
        value: The metric on the data itself; None where it is undefined.
        low: Lower end; None where the value is, or where no resample has one.
        high: Upper end.
        p: For a difference, the two-sided bootstrap p-value of "no difference"; else None.
        undefined: Resamples in which the metric was undefined (all grades or all scores equal), left out.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float | None = None
    undefined: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain form: value, low, high; p and undefined only where they say something."""
        entry: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.p is not None:
            entry["p"] = self.p
        if self.undefined:
            entry["undefined"] = self.undefined
        return entry


@dataclass(frozen=True)
class Resampled:
    """A statistic on the data itself and on resamples of it.

    Two systems that met the same resamples (same pairs, clusters, seed) are compared resample by resample.

    Args:
        value: The statistic on the data, mean over seeds; NaN where it is undefined.
        draws: The same on every resample, shape (r,).
    """

    value: float
    draws: Array

    def interval(self, level: float = 0.95) -> Interval:
        """Value with its percentile interval."""
        return _summary(self.value, self.draws, level)

    def minus(self, other: Resampled, level: float = 0.95) -> Interval:
        """Interval and p-value of the difference self − other.

        The p-value is twice the smaller share of resamples on either side of 0, at most 1; it cannot fall below
        2 / (resamples + 1).
        """
        return _summary(self.value - other.value, self.draws - other.draws, level, difference=True)

    @classmethod
    def average(cls, parts: Sequence[Resampled]) -> Resampled:
        """Plain average of statistics whose resamples were drawn independently, as those of different tasks."""
        return cls(float(np.mean([p.value for p in parts])), np.mean([p.draws for p in parts], axis=0))


@dataclass(frozen=True)
class PairedScores:
    """Two systems' scores of the same pairs of one task.

    Args:
        gold: Grades, shape (n,).
        first: Scores of the one system, shape (n,), or (seeds, n) for the mean of its seeds' values.
        second: Scores of the other; a difference is second − first.
        subsets: Sizes of the consecutive subsets, which sum to n; None for one subset.
        clusters: Cluster of each pair, shape (n,), see `clusters.sentence_clusters`; whole clusters are resampled
            then. None resamples pairs within their subset.
    """

    gold: Array
    first: Array
    second: Array
    subsets: tuple[int, ...] | None = None
    clusters: npt.NDArray[np.int64] | None = None


def resample(
    statistic: Statistic,
    gold: npt.ArrayLike,
    scores: npt.ArrayLike,
    *,
    subsets: tuple[int, ...] | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Resampled:
    """A metric on the data and on resamples of its pairs.

    Args:
        statistic: For instance `metrics.spearman_statistic`, or `metrics.qwk_statistic(scale)`.
        gold: Grades, shape (n,), n ≥ 1.
        scores: Scores, shape (n,), or (seeds, n) for the mean of the seeds' values.
        subsets: As in `PairedScores`.
        clusters: As in `PairedScores`.
        resamples: Number of resamples, 1 or more.
        seed: Seed of the resampling; the same seed, n, subsets and clusters give the same resamples.

    Raises:
        InputError: no resamples, or shapes that differ.
    """
    runs = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    aligned = [_aligned(gold, run) for run in runs]
    if not aligned:
        raise InputError("expected the scores of at least one seed")
    n = len(aligned[0][0])
    sizes = subsets if subsets is not None else (n,)
    if sum(sizes) != n or not n:
        raise InputError(f"subsets of {sum(sizes)} pairs, scores of {n}")
    if clusters is not None and np.shape(clusters) != (n,):
        raise InputError(f"clusters of {len(clusters)} pairs, scores of {n}")
    _check(resamples, 0.95)

    def mean(counts: Array) -> Array:
        return np.asarray(np.mean([statistic(gold, run, counts) for gold, run in aligned], axis=0))

    counted = _resample(sizes, resamples, seed) if clusters is None else _resample_clusters(clusters, resamples, seed)
    return Resampled(float(mean(np.ones((1, n)))[0]), np.concatenate([mean(counts) for counts in counted]))


def bootstrap_interval(
    statistic: Statistic,
    gold: npt.ArrayLike,
    score: npt.ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a metric under resampling of the pairs.

    Args:
        statistic: As in `resample`.
        gold: Grades, shape (n,).
        score: Scores, shape (n,).
        resamples: Number of resamples, 1 or more.
        seed: As in `resample`.
        level: Coverage, between 0 and 1.

    Raises:
        InputError: no resamples, a level outside (0, 1), or shapes that differ.

    Source: Efron & Tibshirani (1993), chapter 13.
    """
    gold, score = _aligned(gold, score)
    _check(resamples, level)
    if not len(gold):
        return Interval(None, None, None)
    return resample(statistic, gold, score, resamples=resamples, seed=seed).interval(level)


def paired_difference(
    statistic: Statistic,
    gold: npt.ArrayLike,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Interval and p-value of the difference second − first, both measured on the same resampled pairs.

    Arguments and errors as in `bootstrap_interval`; the p-value as in `Resampled.minus`.
    """
    gold, first = _aligned(gold, first)
    gold, second = _aligned(gold, second)
    _check(resamples, level)
    if not len(gold):
        return Interval(None, None, None)
    one, other = (resample(statistic, gold, score, resamples=resamples, seed=seed) for score in (first, second))
    return other.minus(one, level)


def benchmark_difference(
    tasks: Mapping[str, PairedScores],
    *,
    statistic: Statistic = spearman_statistic,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Differences on every task and of their average, key `average`, with intervals and p-values.

    Pairs are resampled within their subset (or clusters within their task), tasks independently of each other, and the
    average is taken over the tasks of each round, so that it is the uncertainty of the printed average.

    Args:
        tasks: Scores of both systems by task name; none may be called `average`.
        statistic: Metric of a task over all its pairs.
        resamples: As in `bootstrap_interval`.
        seed: As in `bootstrap_interval`, of the first task; each further task takes the next number.
        level: As in `bootstrap_interval`.

    Raises:
        InputError: no task, subset sizes that do not sum to the pairs, or what `bootstrap_interval` refuses.
    """
    _check(resamples, level)
    if not tasks or "average" in tasks:
        raise InputError("expected at least one task, none of them called 'average'")
    ones: dict[str, Resampled] = {}
    others: dict[str, Resampled] = {}
    for offset, (name, task) in enumerate(tasks.items()):
        for found, scores in ((ones, task.first), (others, task.second)):
            try:
                found[name] = resample(
                    statistic,
                    task.gold,
                    scores,
                    subsets=task.subsets,
                    clusters=task.clusters,
                    resamples=resamples,
                    seed=seed + offset,
                )
            except InputError as error:
                raise InputError(f"task {name}: {error.what}", where=error.where, remedy=error.remedy) from None
    result = {name: others[name].minus(ones[name], level) for name in tasks}
    first, second = (Resampled.average(list(found.values())) for found in (ones, others))
    result["average"] = second.minus(first, level)
    return result


def _resample(sizes: tuple[int, ...], resamples: int, seed: int) -> Iterator[Array]:
    """Counts (r, n) of each pair in resamples drawn with replacement within consecutive subsets, chunk by chunk."""
    generator = np.random.default_rng(seed)
    n = sum(sizes)
    rows = max(1, CHUNK_ELEMENTS // n)
    for start in range(0, resamples, rows):
        r = min(rows, resamples - start)
        parts, first = [], 0
        for size in sizes:
            parts.append(first + generator.integers(0, size, (r, size)))
            first += size
        drawn = np.concatenate(parts, axis=1) + n * np.arange(r)[:, None]
        yield np.bincount(drawn.ravel(), minlength=r * n).reshape(r, n).astype(np.float64)


def _resample_clusters(clusters: npt.NDArray[np.int64], resamples: int, seed: int) -> Iterator[Array]:
    """Counts (r, n) of each pair in resamples of whole clusters, as many clusters as there are."""
    generator = np.random.default_rng(seed)
    names, member = np.unique(clusters, return_inverse=True)
    rows = max(1, CHUNK_ELEMENTS // len(clusters))
    for start in range(0, resamples, rows):
        r = min(rows, resamples - start)
        drawn = generator.integers(0, len(names), (r, len(names))) + len(names) * np.arange(r)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=r * len(names)).reshape(r, len(names))
        yield counts[:, member].astype(np.float64)


def _summary(value: float, draws: Array, level: float, *, difference: bool = False) -> Interval:
    defined = draws[~np.isnan(draws)]
    undefined = len(draws) - len(defined)
    if np.isnan(value):
        return Interval(None, None, None, undefined=undefined)
    if not len(defined):
        return Interval(value, None, None, undefined=undefined)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    p = None
    if difference:
        below, above = int((defined <= 0).sum()), int((defined >= 0).sum())
        p = min(1.0, 2 * (min(below, above) + 1) / (len(defined) + 1))
    return Interval(value, float(low), float(high), p, undefined)


def _aligned(gold: npt.ArrayLike, score: npt.ArrayLike) -> tuple[Array, Array]:
    a, b = np.asarray(gold, dtype=np.float64), np.asarray(score, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(f"expected arrays of one shape (n,), got {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("grades and scores must be finite numbers", remedy="find out where they arise")
    return a, b


def _check(resamples: int, level: float) -> None:
    if resamples < 1:
        raise InputError(f"resamples = {resamples} must be 1 or more", where="resamples")
    if not 0 < level < 1:
        raise InputError(f"level = {level} must lie between 0 and 1", where="level")
