"""Metrics against scipy and scikit-learn, hand values, and what is undefined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from gradate.errors import InputError
from gradate.evaluation.metrics import (
    accuracy,
    accuracy_statistic,
    confusion,
    mae,
    mae_statistic,
    pearson,
    pearson_statistic,
    qwk,
    qwk_statistic,
    spearman,
    spearman_statistic,
    undefined_reason,
)
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


def test_spearman_averages_ties() -> None:
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(94.86833, abs=1e-5)


def test_a_pooled_correlation_can_have_another_sign_than_its_subsets() -> None:
    gold, score = [1, 2, 3, 0, 0.1, 0.2], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    assert spearman(gold[:3], score[:3]) == 100.0
    assert spearman(gold[3:], score[3:]) == 100.0
    assert spearman(gold, score) == pytest.approx(-54.2857, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-1e6, 1e6, width=32)), min_size=2, max_size=40))
def test_correlations_equal_scipy(rows: list[tuple[int, float]]) -> None:
    gold, score = np.array(rows, dtype=float).T
    constant = len(set(gold)) < 2 or len(set(score)) < 2
    assert (spearman(gold, score) is None) == constant
    assert (undefined_reason(gold, score) is not None) == constant
    if not constant:
        assert spearman(gold, score) == pytest.approx(100 * stats.spearmanr(gold, score)[0], abs=1e-9)
        assert pearson(gold, score) == pytest.approx(100 * stats.pearsonr(gold, score)[0], abs=1e-6)


def test_spearman_ignores_rising_maps() -> None:
    rng = np.random.default_rng(0)
    gold, score = rng.normal(size=50), rng.normal(size=50)
    assert spearman(gold, np.exp(score)) == spearman(gold, score)
    assert spearman(gold, -score) == -spearman(gold, score)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("gold", "score", "reason"),
    [
        ([1, 2, 3], [5, 5, 5], "all 3 scores are equal"),
        ([2, 2], [0.1, 0.9], "all 2 grades are equal"),
        ([1], [1], "a correlation needs at least two pairs, got 1"),
        ([], [], "a correlation needs at least two pairs, got 0"),
    ],
)
def test_undefined_is_none_with_a_reason(gold: list[float], score: list[float], reason: str) -> None:
    assert spearman(gold, score) is None
    assert pearson(gold, score) is None
    assert undefined_reason(gold, score) == reason


def test_pearson_survives_tiny_and_huge_numbers() -> None:
    score = [1.0, 2.0, 4.0]
    expected = pearson([1, 2, 3], score)
    assert pearson([1e-200, 2e-200, 3e-200], score) == pytest.approx(expected)
    assert pearson([1e200, 2e200, 3e200], score) == pytest.approx(expected)
    assert pearson([1e9 + 1, 1e9 + 2, 1e9 + 3], score) == pytest.approx(expected)


def test_not_finite_is_refused_not_scored() -> None:
    with pytest.raises(InputError, match="1 of 2 scores are not finite"):
        spearman([0, 1], [0.5, float("nan")])
    with pytest.raises(InputError, match="1 of 2 grades"):
        mae([0, float("inf")], [0.5, 1])
    with pytest.raises(InputError, match="one shape"):
        mae([0, 1], [0.5])


def test_mae() -> None:
    assert mae([0, 3, 1], [0.5, 3, 2]) == pytest.approx(0.5)
    assert mae([], []) is None


def test_accuracy_takes_the_nearest_grade_and_the_lower_of_two() -> None:
    assert accuracy([0, 1, 3], [0.5, 0.51, 7.0], SCALE) == 1.0
    assert accuracy([1, 2], [0.5, 1.5], SCALE) == 0.0
    uneven = LabelScale.from_values([0, 1, 10])
    assert accuracy([1, 10], [5.4, 5.6], uneven) == 1.0


def test_kappa_and_confusion_equal_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 4, 200).astype(float)
    prediction = gold + rng.normal(scale=0.8, size=200)
    nearest = SCALE.index(prediction)
    assert qwk(gold, prediction, SCALE) == pytest.approx(
        cohen_kappa_score(gold.astype(int), nearest, weights="quadratic"), abs=1e-12
    )
    expected = confusion_matrix(gold.astype(int), nearest, labels=range(4)).tolist()
    assert confusion(gold=gold, prediction=prediction, scale=SCALE) == expected


def test_kappa_by_hand() -> None:
    assert qwk([0, 1, 2, 3], [0, 1, 2, 3], SCALE) == 1.0
    assert qwk([0, 3], [3, 0], SCALE) == -1.0
    assert qwk([0, 1, 2, 3], [1, 1, 1, 1], SCALE) == 0.0
    assert qwk([2, 2], [2, 2], SCALE) is None


def test_a_continuous_scale_has_no_classes() -> None:
    for metric in (accuracy, qwk):
        with pytest.raises(InputError, match="no classes"):
            metric([0, 1], [0, 1], LabelScale.continuous(0, 5))


@pytest.mark.parametrize(
    "statistic",
    [
        spearman_statistic,
        pearson_statistic,
        mae_statistic,
        accuracy_statistic(SCALE),
        qwk_statistic(SCALE),
    ],
)
def test_counts_stand_for_repeated_pairs(statistic) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 4, 12).astype(float)
    score = gold + rng.normal(size=12).round(1)
    counts = rng.integers(0, 4, (20, 12)).astype(float)
    together = statistic(gold, score, counts)
    for row, value in zip(counts, together, strict=True):
        times = row.astype(int)
        alone = statistic(np.repeat(gold, times), np.repeat(score, times), np.ones((1, times.sum())))[0]
        assert value == pytest.approx(alone, abs=1e-9, nan_ok=True)


def test_a_resample_without_variety_is_undefined() -> None:
    gold, score = np.array([0.1, 0.7, 0.7]), np.array([0.3, 0.4, 0.9])
    counts = np.array([[3.0, 0, 0], [0, 2, 1], [1, 1, 1]])
    for statistic in (spearman_statistic, pearson_statistic):
        assert np.isnan(statistic(gold, score, counts)).tolist() == [True, True, False]
