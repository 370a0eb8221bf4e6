"""Samples and noise: drawn by lot, the same every time, counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gradate.data.studies import draw, with_noise
from gradate.scale import LabelScale
from tests.graded import graded_pairs


@given(st.integers(1, 80))
def test_a_sample_is_in_order_and_the_same_every_time(n: int) -> None:
    pairs = graded_pairs(60)
    found = draw(pairs, n)
    assert len(found) == min(n, 60) and found.fingerprint() == draw(pairs, n).fingerprint()
    positions = [pairs.text1.index(text) for text in found.text1]
    assert positions == sorted(positions)
    assert (found is pairs) == (n >= 60)


@given(st.floats(0, 1))
def test_so_many_grades_are_wrong_and_all_lie_on_the_scale(share: float) -> None:
    pairs = graded_pairs(60)
    found = with_noise(pairs, share)
    assert int((found.grades != pairs.grades).sum()) == round(share * 60)
    assert set(found.grades) <= {0.0, 1.0, 2.0, 3.0}
    assert list(found.text1) == list(pairs.text1)
    assert np.array_equal(found.grades, with_noise(pairs, share).grades)


def test_noise_on_a_continuous_scale_stays_on_it() -> None:
    pairs = graded_pairs(40, scale=LabelScale.continuous(0, 3))
    found = with_noise(pairs, 0.5)
    assert int((found.grades != pairs.grades).sum()) == 20
    assert found.grades.min() >= 0 and found.grades.max() <= 3
    assert found.notes[-1] == "20 of 40 grades replaced by others, drawn by lot"
