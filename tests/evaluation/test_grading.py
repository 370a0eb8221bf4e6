"""Metrics of a system on graded pairs: which apply, what they read, and their differences."""

from __future__ import annotations

import numpy as np
import pytest

from gradate.errors import InputError
from gradate.evaluation.grading import METRICS, GradedScores, differences, intervals, measure
from gradate.evaluation.significance import Interval
from gradate.scale import LabelScale

SCALE = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
GOLD = np.array([0.0, 1.0, 2.0, 3.0, 3.0])
COSINE = np.array([0.1, 0.2, 0.5, 0.7, 0.9])


def test_with_a_head_every_metric_applies() -> None:
    prediction = np.array([-1.0, 1.4, 1.6, 3.1, 9.0])
    values = measure(GradedScores(GOLD, COSINE, SCALE, prediction))
    assert set(values) == set(METRICS)
    assert values["mae"] == pytest.approx(0.8 / 5)  # overshooting the ends of the scale costs nothing
    assert values["accuracy"] == 1.0
    assert values["qwk"] == 1.0
    clipped = measure(GradedScores(GOLD, COSINE, SCALE, SCALE.clamp(prediction)))
    assert values["spearman_head"] != clipped["spearman_head"]  # correlations read the unclipped prediction


def test_without_a_prediction_only_the_cosine_counts() -> None:
    scores = GradedScores(GOLD, COSINE, SCALE)
    values = measure(scores)
    assert values["spearman_cosine"] is not None
    assert [m for m in METRICS if values[m] is not None] == ["spearman_cosine", "pearson_cosine"]
    assert set(intervals(scores, resamples=10)) == {"spearman_cosine", "pearson_cosine"}


def test_a_prediction_read_off_the_cosine_has_no_correlation_of_its_own() -> None:
    values = measure(GradedScores(GOLD, COSINE, SCALE, GOLD, from_head=False))
    assert values["spearman_head"] is None and values["pearson_head"] is None
    assert values["mae"] == 0.0 and values["accuracy"] == 1.0


def test_a_continuous_scale_has_error_but_no_classes() -> None:
    values = measure(GradedScores(GOLD, COSINE, LabelScale.continuous(0, 3), GOLD))
    assert values["mae"] == 0.0
    assert values["accuracy"] is None and values["qwk"] is None


def test_a_prediction_on_another_scale_only_correlates() -> None:
    values = measure(GradedScores(GOLD, COSINE, SCALE, GOLD * 5, comparable=False))
    assert values["spearman_head"] == pytest.approx(100)
    assert values["mae"] is None and values["accuracy"] is None and values["qwk"] is None


def test_differences_are_after_minus_before_where_both_have_the_metric() -> None:
    before = GradedScores(GOLD, COSINE[::-1].copy(), SCALE, GOLD + 1, from_head=False)
    after = GradedScores(GOLD, COSINE, SCALE, GOLD)
    found = differences(before, after, resamples=50)
    assert set(found) == {"spearman_cosine", "pearson_cosine", "mae", "accuracy", "qwk"}
    assert found["spearman_cosine"].value > 0  # type: ignore[operator]
    assert found["mae"].value == pytest.approx(-0.6)
    same = differences(after, after, resamples=50)
    assert all((i.value, i.low, i.high) == (0.0, 0.0, 0.0) for i in same.values())


def test_no_pairs_measure_nothing() -> None:
    nothing = np.zeros(0)
    scores = GradedScores(nothing, nothing, SCALE, nothing)
    assert set(measure(scores).values()) == {None}
    assert set(intervals(scores).values()) == {Interval(None, None, None)}


def test_shapes_and_grades_must_match() -> None:
    with pytest.raises(InputError, match="one shape"):
        GradedScores(GOLD, COSINE[:3], SCALE)
    with pytest.raises(InputError, match="different grades"):
        differences(GradedScores(GOLD, COSINE, SCALE), GradedScores(GOLD[::-1].copy(), COSINE, SCALE))
