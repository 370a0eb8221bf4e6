"""Arithmetic of measurements: spreads, ratios pair by pair, paired differences, slopes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Median of repeated measurements with their smallest and largest."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value or more.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0, n=3)
        """
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the interval is infinite where it cannot be told."""

    value: float
    low: float
    high: float
    n: int


def by_round(measurements: Sequence[dict[str, Any]], system: str) -> dict[int, dict[str, Any]]:
    """Measurements of one system by their round."""
    return {m["round"]: m for m in measurements if m["system"] == system}


def ratios(measurements: Sequence[dict[str, Any]], peer: str, ours: str, key: str = "rate") -> Spread | None:
    """How many times `ours` is faster than `peer`: the ratio within each round, then its spread.

    Only rounds in which one session measured both count: those are the pairs that met the same machine.

    Args:
        measurements: Of one part; each has `system`, `round`, `session` and `key`.
        peer: System that is divided by.
        ours: System that is divided.
        key: What is compared: a rate (higher is faster), or `seconds` (lower is faster).
    """
    theirs, own = by_round(measurements, peer), by_round(measurements, ours)
    values = []
    for number in sorted(theirs.keys() & own.keys()):
        a, b = theirs[number], own[number]
        if a["session"] == b["session"]:
            values.append(a[key] / b[key] if key == "seconds" else b[key] / a[key])
    return Spread.of(values) if values else None


def mean_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Mean of second − first, pair by pair, with Student's interval.

    >>> found = mean_difference([1.0, 2.0, 3.0], [1.1, 2.0, 3.2])
    >>> [round(x, 3) for x in (found.value, found.low, found.high)]
    [0.1, -0.148, 0.348]
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    value, n = statistics.fmean(differences), len(differences)
    if n < 2:
        return Estimate(value, -math.inf, math.inf, n)
    half = student.ppf((1 + CONFIDENCE) / 2, n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return Estimate(value, value - float(half), value + float(half), n)


@dataclass(frozen=True)
class Line:
    """y = intercept + slope·x by least squares, with the slope's interval and the largest relative residual."""

    intercept: float
    slope: Estimate
    worst: float

    def at(self, x: float) -> float:
        """Value of the line at x."""
        return self.intercept + self.slope.value * x


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares through two points or more.

    >>> line = fit_line([1, 2, 3], [3, 5, 7])
    >>> round(line.intercept, 9), round(line.slope.value, 9), round(line.at(10), 9)
    (1.0, 2.0, 21.0)
    """
    n, mean_x, mean_y = len(x), statistics.fmean(x), statistics.fmean(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    if n < 2 or spread == 0:
        raise ValueError("a line needs two different points")
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    residuals = [b - intercept - slope * a for a, b in zip(x, y, strict=True)]
    worst = max(abs(r) / abs(b) if b else 0.0 for r, b in zip(residuals, y, strict=True))
    if n == 2:
        return Line(intercept, Estimate(slope, -math.inf, math.inf, n), worst)
    error = math.sqrt(sum(r * r for r in residuals) / (n - 2) / spread)
    half = float(student.ppf((1 + CONFIDENCE) / 2, n - 2)) * error
    return Line(intercept, Estimate(slope, slope - half, slope + half, n), worst)


def power_law(x: Sequence[float], y: Sequence[float]) -> Estimate:
    """Exponent e of y ∝ x^e: the slope of log y over log x, with its interval.

    >>> round(power_law([1, 10, 100], [3, 30, 300]).value, 6)
    1.0
    """
    return fit_line([math.log(a) for a in x], [math.log(b) for b in y]).slope
