"""Agreement of scores with grades: correlations, error, accuracy, kappa.

Every metric is one formula over *counts*: how often each pair occurs in a (re)sample, shape (resamples, n). The plain
value uses a single row of ones, the bootstrap of `gradate.evaluation.significance` thousands of rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gradate.errors import InputError
from gradate.scale import LabelScale

Array: TypeAlias = npt.NDArray[np.float64]
Statistic: TypeAlias = Callable[[Array, Array, Array], Array]
"""(gold (n,), score (n,), counts (r, n)) -> (r,), NaN where the metric is undefined for that row of counts."""


def spearman(gold: npt.ArrayLike, score: npt.ArrayLike) -> float | None:
    """Spearman correlation × 100, ties sharing their mean rank; None where undefined (see `undefined_reason`).

    Args:
        gold: Grades, shape (n,).
        score: What should follow them, shape (n,); any strictly rising map of it gives the same value.

    Raises:
        InputError: shapes that differ, or numbers that are not finite.

    >>> round(spearman([1, 2, 2, 3], [1, 2, 3, 4]), 5)
    94.86833
    >>> spearman([1, 2, 3], [5, 5, 5]) is None
    True
    """
    return _plain(spearman_statistic, gold, score)


def pearson(gold: npt.ArrayLike, score: npt.ArrayLike) -> float | None:
    """Pearson correlation × 100; None where undefined. Arguments as in `spearman`.

    >>> round(pearson([1, 2, 3], [2, 4, 6]), 9)
    100.0
    """
    return _plain(pearson_statistic, gold, score)


def mae(gold: npt.ArrayLike, prediction: npt.ArrayLike) -> float | None:
    """Mean absolute error in units of the scale; None without any pair.

    >>> mae([0, 3], [0.5, 3])
    0.25
    """
    return _plain(mae_statistic, gold, prediction)


def accuracy(gold: npt.ArrayLike, prediction: npt.ArrayLike, scale: LabelScale) -> float | None:
    """Share of predictions whose nearest grade is the gold grade, 0 to 1; None without any pair.

    Args:
        gold: Grades on the scale, shape (n,).
        prediction: Predicted values, shape (n,); beyond the ends the end grade is the nearest.
        scale: A scale with classes; a tie between two goes to the lower (see `LabelScale.index`).

    Raises:
        InputError: a continuous scale, shapes that differ, or numbers that are not finite.

    >>> accuracy([0, 1, 2], [0.4, 1.6, 2.9], LabelScale.from_values([0, 1, 2]))
    0.6666666666666666
    """
    return _plain(accuracy_statistic(scale), gold, prediction)


def qwk(gold: npt.ArrayLike, prediction: npt.ArrayLike, scale: LabelScale) -> float | None:
    """Quadratic weighted kappa of the nearest grades, −1 to 1; None where undefined. Arguments as in `accuracy`.

    The weight of a confusion is the squared distance in steps of the scale. Undefined where gold and predictions
    are one and the same grade throughout.

    Source: Cohen (1968), "Weighted kappa".

    >>> qwk([0, 1, 2], [0, 1, 2], LabelScale.from_values([0, 1, 2]))
    1.0
    """
    return _plain(qwk_statistic(scale), gold, prediction)


def confusion(*, gold: npt.ArrayLike, prediction: npt.ArrayLike, scale: LabelScale) -> list[list[int]]:
    """Counts of nearest grades: one row for each gold grade, one column for each predicted grade, low to high.

    >>> confusion(gold=[0, 1, 1], prediction=[0.2, 0.9, 1.8], scale=LabelScale.from_values([0, 1, 2]))
    [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    gold, prediction = _checked(gold, prediction)
    classes = len(scale.values or ())
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (scale.index(gold), scale.index(prediction)), 1)
    return [[int(count) for count in row] for row in table]


def undefined_reason(gold: npt.ArrayLike, score: npt.ArrayLike) -> str | None:
    """Why a correlation of these two does not exist; None where it does.

    >>> undefined_reason([1, 2, 3], [5, 5, 5])
    'all 3 scores are equal'
    """
    gold, score = _checked(gold, score)
    if len(gold) < 2:
        return f"a correlation needs at least two pairs, got {len(gold)}"
    if (gold == gold[0]).all():
        return f"all {len(gold)} grades are equal"
    if (score == score[0]).all():
        return f"all {len(score)} scores are equal"
    return None


def spearman_statistic(gold: Array, score: Array, counts: Array) -> Array:
    """`spearman` for each row of counts."""
    a, a_constant = _ranks(gold, counts)
    b, b_constant = _ranks(score, counts)
    return _correlation(a, b, counts, a_constant | b_constant)


def pearson_statistic(gold: Array, score: Array, counts: Array) -> Array:
    """`pearson` for each row of counts."""
    constant = _Ties(gold).constant(counts) | _Ties(score).constant(counts)
    a, b = (_standardised(values) for values in (gold, score))
    return _correlation(a[None, :], b[None, :], counts, constant)


def mean_statistic(_gold: Array, score: Array, counts: Array) -> Array:
    """Mean score for each row of counts, for measures that are a mean over queries and held against nothing."""
    return np.asarray(counts @ score / counts.sum(axis=1))


def mae_statistic(gold: Array, prediction: Array, counts: Array) -> Array:
    """`mae` for each row of counts."""
    return _ratio(counts @ np.abs(gold - prediction), counts.sum(axis=1))


def accuracy_statistic(scale: LabelScale) -> Statistic:
    """`accuracy` on a scale for each row of counts."""

    def statistic(gold: Array, prediction: Array, counts: Array) -> Array:
        hit = (scale.index(gold) == scale.index(prediction)).astype(np.float64)
        return _ratio(counts @ hit, counts.sum(axis=1))

    return statistic


def qwk_statistic(scale: LabelScale) -> Statistic:
    """`qwk` on a scale for each row of counts."""

    def statistic(gold: Array, prediction: Array, counts: Array) -> Array:
        a, b = scale.index(gold).astype(np.float64), scale.index(prediction).astype(np.float64)
        n = counts.sum(axis=1)
        sum_a, sum_b = counts @ a, counts @ b
        observed = counts @ np.square(a - b)
        # The chance-expected squared distance of independent draws a, b is E[a²] + E[b²] − 2·E[a]·E[b].
        expected = counts @ np.square(a) + counts @ np.square(b) - 2 * _ratio(sum_a * sum_b, n)
        return 1 - _ratio(observed, expected)

    return statistic


def _plain(statistic: Statistic, gold: npt.ArrayLike, score: npt.ArrayLike) -> float | None:
    gold, score = _checked(gold, score)
    value = float(statistic(gold, score, np.ones((1, len(gold))))[0]) if len(gold) else float("nan")
    return None if np.isnan(value) else value


def _checked(gold: npt.ArrayLike, score: npt.ArrayLike) -> tuple[Array, Array]:
    a, b = np.asarray(gold, dtype=np.float64), np.asarray(score, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise InputError(f"expected two arrays of one shape (n,), got {a.shape} and {b.shape}")
    for name, values in (("grades", a), ("scores", b)):
        bad = int((~np.isfinite(values)).sum())
        if bad:
            raise InputError(
                f"{bad} of {len(values)} {name} are not finite numbers", remedy="find out where they arise"
            )
    return a, b


class _Ties:
    """Groups of equal values: how often each distinct value occurs under given counts."""

    def __init__(self, values: Array) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        starts = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, dtype=bool)
        self.starts = np.flatnonzero(starts)
        self.group = np.empty(len(values), dtype=np.int64)
        self.group[self.order] = np.cumsum(starts) - 1

    def totals(self, counts: Array) -> Array:
        """Counts of each distinct value in rising order, shape (r, groups)."""
        if len(self.starts) == len(self.order):
            return counts[:, self.order]
        return np.add.reduceat(counts[:, self.order], self.starts, axis=1)

    def constant(self, counts: Array) -> npt.NDArray[np.bool_]:
        """Whether a row of counts holds fewer than two distinct values, shape (r,)."""
        return np.asarray((self.totals(counts) > 0).sum(axis=1) < 2)


def _ranks(values: Array, counts: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Average ranks within each row of counts, measured from the middle rank, and whether the row is constant."""
    ties = _Ties(values)
    totals = ties.totals(counts)
    ends = np.cumsum(totals, axis=1)
    # Twice the mean rank is a whole number, so that sums of squares stay exact: no constant row looks varied.
    doubled = 2 * ends - totals - ends[:, -1:]
    return doubled[:, ties.group], np.asarray((totals > 0).sum(axis=1) < 2)


def _correlation(a: Array, b: Array, counts: Array, constant: npt.NDArray[np.bool_]) -> Array:
    """Pearson correlation × 100 of values (r or 1, n) weighted by counts (r, n); NaN where constant."""
    n = counts.sum(axis=1)
    mean_a, mean_b = ((counts * values).sum(axis=1) / n for values in (a, b))
    wa, wb = counts * a, counts * b
    covariance = (wa * b).sum(axis=1) - n * mean_a * mean_b
    variance_a = (wa * a).sum(axis=1) - n * mean_a**2
    variance_b = (wb * b).sum(axis=1) - n * mean_b**2
    value = 100 * _ratio(covariance, np.sqrt(np.maximum(variance_a * variance_b, 0)))
    return np.where(constant, np.nan, np.clip(value, -100, 100))


def _standardised(values: Array) -> Array:
    """Values moved to mean 0 and scaled to largest magnitude 1, so that squares neither overflow nor cancel."""
    centred: Array = values - values.mean()
    largest = float(np.abs(centred).max())
    return centred / largest if largest > 0 else centred


def _ratio(numerator: Array, denominator: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        value: Array = np.where(denominator > 0, numerator / denominator, np.nan)
    return value
