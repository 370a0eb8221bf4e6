"""Williams' test against the published example, and where it would divide by zero."""

from __future__ import annotations

import numpy as np
import pytest

from gradate.errors import InputError
from gradate.evaluation.williams import williams_of_ranks, williams_test


def test_the_published_example() -> None:
    found = williams_test(0.80, 0.72, 0.89, 26)
    assert (round(found.t, 4), found.df, round(found.p, 4)) == (1.3607, 23, 0.1868)
    assert found.to_json() == {"t": found.t, "df": 23, "p": found.p}


def test_swapping_the_systems_turns_the_sign() -> None:
    there, back = williams_test(0.5, 0.3, 0.6, 40), williams_test(0.3, 0.5, 0.6, 40)
    assert there.t == pytest.approx(-back.t) and there.p == pytest.approx(back.p)


def test_equal_systems_do_not_differ() -> None:
    gold, score = np.arange(10.0), np.arange(10.0) ** 2
    found = williams_of_ranks(gold, score, 3 * score)
    assert found is not None and (found.t, found.p) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.5, 0.4, 0.3, 3), "four pairs"), ((1.5, 0.4, 0.3, 9), "between -1 and 1"), ((1.0, 0.0, 1.0, 9), "no data")],
)
def test_what_no_data_can_have(arguments: tuple[float, float, float, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        williams_test(*arguments)


def test_undefined_correlations_have_no_test() -> None:
    assert williams_of_ranks(np.ones(8), np.arange(8.0), np.arange(8.0)) is None
    assert williams_of_ranks(np.arange(3.0), np.arange(3.0), np.arange(3.0)) is None


def test_the_test_keeps_its_level_on_data_without_a_difference() -> None:
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(300):
        gold = rng.normal(size=60)
        first, second = (gold + rng.normal(size=60) for _ in range(2))
        found = williams_of_ranks(gold, first, second)
        assert found is not None
        rejected += found.p < 0.05
    assert rejected < 35
