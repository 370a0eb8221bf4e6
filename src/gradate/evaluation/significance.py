"""Uncertainty of the metrics: percentile bootstrap intervals of a value and of a paired difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
class PairedScores:
    """Two systems' scores of the same pairs of one task.

    Args:
        gold: Grades, shape (n,).
        first: Scores of the one system, shape (n,).
        second: Scores of the other, shape (n,); a difference is second − first.
        subsets: Sizes of the consecutive subsets, which sum to n; None for one subset.
    """

    gold: Array
    first: Array
    second: Array
    subsets: tuple[int, ...] | None = None


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
        statistic: For instance `metrics.spearman_statistic`, or `metrics.qwk_statistic(scale)`.
        gold: Grades, shape (n,).
        score: Scores, shape (n,).
        resamples: Number of resamples, 1 or more.
        seed: Seed of the resampling; the same seed and n give the same resamples.
        level: Coverage, between 0 and 1.

    Raises:
        InputError: no resamples, a level outside (0, 1), or shapes that differ.

    Source: Efron & Tibshirani (1993), chapter 13.
    """
    gold, score = _aligned(gold, score)
    _check(resamples, level)
    if not len(gold):
        return Interval(None, None, None)
    value = float(statistic(gold, score, np.ones((1, len(gold))))[0])
    draws = [statistic(gold, score, counts) for counts in _resample((len(gold),), resamples, seed)]
    return _summary(value, np.concatenate(draws), level)


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

    Arguments and errors as in `bootstrap_interval`. The p-value is twice the smaller share of resamples on either
    side of 0, at most 1; it cannot fall below 2 / (resamples + 1).
    """
    gold, first = _aligned(gold, first)
    gold, second = _aligned(gold, second)
    _check(resamples, level)
    if not len(gold):
        return Interval(None, None, None)
    one = np.ones((1, len(gold)))
    value = float((statistic(gold, second, one) - statistic(gold, first, one))[0])
    draws = [
        statistic(gold, second, counts) - statistic(gold, first, counts)
        for counts in _resample((len(gold),), resamples, seed)
    ]
    return _summary(value, np.concatenate(draws), level, difference=True)


def benchmark_difference(
    tasks: Mapping[str, PairedScores],
    *,
    statistic: Statistic = spearman_statistic,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Differences on every task and of their average, key `average`, with intervals and p-values.

    Pairs are resampled within their subset, tasks independently of each other, and the average is taken over the
    tasks of each round, so that it is the uncertainty of the printed average.

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
    result: dict[str, Interval] = {}
    values, rounds = [], []
    for offset, (name, task) in enumerate(tasks.items()):
        gold, first = _aligned(task.gold, task.first)
        gold, second = _aligned(task.gold, task.second)
        sizes = task.subsets if task.subsets is not None else (len(gold),)
        if sum(sizes) != len(gold) or not len(gold):
            raise InputError(f"task {name}: subsets of {sum(sizes)} pairs, scores of {len(gold)}")
        one = np.ones((1, len(gold)))
        values.append(float((statistic(gold, second, one) - statistic(gold, first, one))[0]))
        draws = [
            statistic(gold, second, counts) - statistic(gold, first, counts)
            for counts in _resample(sizes, resamples, seed + offset)
        ]
        rounds.append(np.concatenate(draws))
        result[name] = _summary(values[-1], rounds[-1], level, difference=True)
    result["average"] = _summary(float(np.mean(values)), np.mean(rounds, axis=0), level, difference=True)
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
