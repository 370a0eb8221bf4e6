"""Word overlap and isotonic grades."""

from __future__ import annotations

import numpy as np
import pytest

from gradate.errors import InputError
from gradate.evaluation.baseline import isotonic_grades, word_overlap
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


def test_overlap_counts_words_not_case_or_punctuation() -> None:
    first = ["Reset my password!", "a b c d", "x", "", "?", "Straße"]
    second = ["reset MY password", "c d e f", "y", "word", "?", "STRASSE"]
    assert word_overlap(first, second).tolist() == [1.0, 0.5, 0.0, 0.0, 1.0, 1.0]


def test_overlap_is_symmetric_and_bounded() -> None:
    first, second = ["one two three", "two"], ["two three four five", "one two"]
    values = word_overlap(first, second)
    assert (values == word_overlap(second, first)).all()
    assert ((values >= 0) & (values <= 1)).all()


def test_overlap_refuses_different_lengths() -> None:
    with pytest.raises(InputError, match="got 1 and 2"):
        word_overlap(["a"], ["a", "b"])


def test_isotonic_grades_rise_and_stay_on_the_scale() -> None:
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 4, 200).astype(float)
    similarity = grades / 4 + rng.normal(scale=0.2, size=200)
    values = isotonic_grades(similarity, grades, np.linspace(-5, 5, 101), SCALE)
    assert (np.diff(values) >= 0).all()
    assert values.min() >= 0 and values.max() <= 3
    assert values[0] < 1 < 2 < values[-1]


def test_isotonic_grades_of_one_grade_or_one_similarity() -> None:
    assert isotonic_grades([0.1, 0.9], [2, 2], [0.5], SCALE).tolist() == [2.0]
    assert isotonic_grades([0.5, 0.5], [1, 3], [0.1, 0.9], SCALE).tolist() == [2.0, 2.0]
    with pytest.raises(InputError, match="training pairs"):
        isotonic_grades([], [], [0.5], SCALE)
