"""Williams' test: do two dependent correlations with the same grades differ?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from scipy import stats

from gradate.errors import InputError
from gradate.evaluation.metrics import spearman


@dataclass(frozen=True)
class WilliamsTest:
    """Outcome of the test.

    Args:
        t: Student's t; above 0 where the first system correlates more.
        df: Degrees of freedom, n − 3.
        p: Two-sided p-value.
    """

    t: float
    df: int
    p: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"t": self.t, "df": self.df, "p": self.p}


def williams_test(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Test whether corr(1, 2) = corr(1, 3), the three variables measured on the same n pairs.

    Args:
        r12: Correlation of the grades with the first system, −1 to 1.
        r13: Correlation of the grades with the second.
        r23: Correlation of the two systems.
        n: Pairs, 4 or more.

    Raises:
        InputError: a correlation outside −1 to 1, fewer than four pairs, or three values that no data can have.

    Formula: with K = 1 − r12² − r13² − r23² + 2·r12·r13·r23,
    t = (r12 − r13)·sqrt((n − 1)(1 + r23) / (2K(n − 1)/(n − 3) + ((r12 + r13)/2)²(1 − r23)³)), df = n − 3.

    Source: Williams (1959); Steiger (1980), equation 7.

    >>> found = williams_test(0.80, 0.72, 0.89, 26)
    >>> round(found.t, 4), found.df, round(found.p, 4)
    (1.3607, 23, 0.1868)
    """
    if n < 4:
        raise InputError(f"Williams' test needs at least four pairs, got {n}")
    if not all(-1 <= r <= 1 for r in (r12, r13, r23)):
        raise InputError(f"correlations lie between -1 and 1, got {r12}, {r13} and {r23}")
    if r12 == r13:
        # Two systems that rank alike (r23 = 1) would else divide 0 by 0.
        return WilliamsTest(0.0, n - 3, 1.0)
    k = max(0.0, 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23)
    below = 2 * k * (n - 1) / (n - 3) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
    if below <= 0:
        raise InputError(f"no data has the correlations {r12}, {r13} and {r23}")
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / below)
    return WilliamsTest(t, n - 3, float(2 * stats.t.sf(abs(t), n - 3)))


def williams_of_ranks(gold: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> WilliamsTest | None:
    """The test on Spearman correlations, which stand in for Pearson's: an approximation. None where one is undefined.

    Args:
        gold: Grades, shape (n,).
        first: Scores of the first system, shape (n,).
        second: Scores of the second, shape (n,).
    """
    found = [spearman(a, b) for a, b in ((gold, first), (gold, second), (first, second))]
    n = len(list(gold))  # type: ignore[arg-type]
    if n < 4 or any(value is None for value in found):
        return None
    r12, r13, r23 = (value / 100 for value in found if value is not None)
    return williams_test(r12, r13, r23, n)
