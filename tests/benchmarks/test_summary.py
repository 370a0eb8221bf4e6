from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.summary import Spread, fit_line, mean_difference, power_law, ratios


def _measurements(system, rates, sessions=None):
    sessions = sessions or [0] * len(rates)
    return [
        {"system": system, "round": i, "session": s, "rate": rate, "seconds": 100 / rate}
        for i, (rate, s) in enumerate(zip(rates, sessions, strict=True))
    ]


def test_a_ratio_is_taken_within_each_round():
    # The machine slows down threefold in round 1; the ratio of medians would say 1.5.
    found = [*_measurements("peer", [10, 30, 20]), *_measurements("ours", [20, 90, 30])]
    assert ratios(found, "peer", "ours") == Spread(2.0, 1.5, 3.0, 3)
    seconds = ratios(found, "peer", "ours", "seconds")
    assert seconds is not None
    assert (seconds.median, seconds.low, seconds.high) == pytest.approx((2.0, 1.5, 3.0))


def test_measurements_of_two_sessions_are_no_pair():
    found = [*_measurements("peer", [10, 10], [0, 0]), *_measurements("ours", [20, 90], [0, 1])]
    assert ratios(found, "peer", "ours") == Spread(2.0, 2.0, 2.0, 1)
    assert ratios(found, "peer", "nobody") is None


def test_the_median_of_an_even_number_lies_between():
    assert Spread.of([1, 2, 10, 4]) == Spread(3, 1, 10, 4)


def test_the_interval_of_a_paired_difference_is_students():
    first, second = np.array([80.1, 80.4, 79.9]), np.array([80.3, 80.5, 80.3])
    found = mean_difference(list(first), list(second))
    expected = stats.ttest_rel(second, first).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert mean_difference([1.0], [2.0]).low == -math.inf


def test_a_line_and_its_interval_are_those_of_least_squares():
    x, y = [1.0, 2.0, 3.0, 4.0, 7.0], [2.1, 3.9, 6.2, 8.0, 13.8]
    line, expected = fit_line(x, y), stats.linregress(x, y)
    assert (line.intercept, line.slope.value) == pytest.approx((expected.intercept, expected.slope))
    half = stats.t.ppf(0.975, 3) * expected.stderr
    assert (line.slope.low, line.slope.high) == pytest.approx((expected.slope - half, expected.slope + half))
    with pytest.raises(ValueError, match="two different points"):
        fit_line([1, 1], [2, 3])


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(exponent):
    x = [1e3, 1e4, 1e5]
    assert power_law(x, [7 * v**exponent for v in x]).value == pytest.approx(exponent)
