"""The binary ceiling against hand values and a slow twin that lets scipy rank every cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gradate.errors import InputError
from gradate.evaluation.ceiling import NO_TIES_LIMIT, TIE_CORRECT_LIMIT, binary_ceiling, measure_ceilings
from tests.graded import graded_pairs, write_csv
from tests.senteval_layout import write_layout

GRADES = st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.5, 3.0, 4.0]), min_size=2, max_size=14).filter(
    lambda grades: len(set(grades)) > 1
)


@pytest.mark.parametrize(
    ("n", "no_ties", "exact"),
    [(2, 1, 1), (4, 0.9, 0.89443), (10, 0.878788, 0.870388), (100, 0.8750375, 0.866069), (10_000, 0.875, 0.866025)],
)
def test_distinct_grades_have_the_values_of_the_formulas(n, no_ties, exact):
    found = binary_ceiling(np.random.default_rng(0).permutation(n))
    assert (found.value, found.threshold, found.share_positive, found.n) == (
        pytest.approx(exact, abs=5e-6),
        n / 2,
        0.5,
        n,
    )
    assert binary_ceiling(range(n), tie_aware=False).value == pytest.approx(no_ties, abs=5e-7)


@settings(max_examples=100, deadline=None)
@given(GRADES)
def test_it_is_the_best_of_all_cuts(grades):
    gold = np.array(grades)
    slow = {cut: stats.spearmanr(gold >= cut, gold)[0] for cut in sorted(set(grades))[1:]}
    found = binary_ceiling(gold)
    assert found.value == pytest.approx(max(slow.values()), abs=1e-12)
    assert slow[found.threshold] == pytest.approx(found.value, abs=1e-12)
    assert found.share_positive == pytest.approx(np.mean(gold >= found.threshold))


@settings(max_examples=100, deadline=None)
@given(GRADES)
def test_the_formula_without_ties_is_that_formula(grades):
    gold = np.array(grades)
    n = len(gold)
    slow = [
        1 - 6 * np.sum((stats.rankdata(gold >= cut) - stats.rankdata(gold)) ** 2) / (n * (n**2 - 1))
        for cut in sorted(set(grades))[1:]
    ]
    assert binary_ceiling(gold, tie_aware=False).value == pytest.approx(max(slow), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(GRADES, st.data())
def test_no_binary_score_at_all_does_better(grades, data):
    score = data.draw(st.lists(st.booleans(), min_size=len(grades), max_size=len(grades)))
    if len(set(score)) == 2:
        assert stats.spearmanr(score, grades)[0] <= binary_ceiling(grades).value + 1e-12


def test_it_binds_binary_scores_only():
    """What orders pairs within its two classes, as a contrastively trained cosine may, goes beyond the ceiling."""
    gold = np.arange(1000.0)
    score = (gold >= 500) + 0.001 * np.random.default_rng(0).normal(gold, 200) / 1000
    assert stats.spearmanr(score, gold)[0] > binary_ceiling(gold).value
    assert stats.spearmanr(score > 0.5, gold)[0] == pytest.approx(binary_ceiling(gold).value)


def test_two_grades_are_no_limit():
    assert binary_ceiling([0, 1, 1, 0, 1]).value == pytest.approx(1)


@pytest.mark.parametrize("grades", [[2, 2, 2], [1], []])
def test_equal_grades_are_refused(grades):
    with pytest.raises(InputError, match=r"all \d grades are equal: no score correlates with them"):
        binary_ceiling(grades)


@pytest.mark.parametrize("grades", [[1, math.nan], [[1, 2]]])
def test_what_is_no_grade_is_refused(grades):
    with pytest.raises(InputError, match="must be finite numbers of shape"):
        binary_ceiling(grades)


def test_a_file_is_one_set(tmp_path):
    file = write_csv(tmp_path / "letters.csv", graded_pairs(40))
    found = measure_ceilings(str(file)).to_json()
    assert found["pairs"] == "letters" and found["n"] == 40
    assert found["ceiling"] == binary_ceiling(graded_pairs(40).grades).value
    assert (found["no_ties_formula"], found["tie_correct"]) == (NO_TIES_LIMIT, TIE_CORRECT_LIMIT)


def test_the_benchmark_has_a_ceiling_for_each_task(tmp_path):
    data = [str(write_layout(tmp_path))]
    with pytest.warns(UserWarning, match="no published form"):
        found = measure_ceilings("seven-sts", data=data)
    assert found.to_json().keys() >= {"benchmark", "tasks", "average"}
    assert list(found.tasks)[-2:] == ["STS-B", "SICK-R"] and len(found.tasks) == 7
    assert measure_ceilings("stsb-test", data=data).tasks["stsb-test"] == found.tasks["STS-B"]
    with pytest.raises(InputError, match="its own scales and columns"):
        measure_ceilings("seven-sts", data=data, columns="a,b,c")
