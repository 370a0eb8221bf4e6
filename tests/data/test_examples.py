from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradate.data.examples import Pairs
from gradate.errors import InputError
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2])


def _pairs(n: int = 4, **changes: Any) -> Pairs:
    values: dict[str, Any] = {
        "text1": [f"a{i}" for i in range(n)],
        "text2": [f"b{i}" for i in range(n)],
        "grades": np.arange(n) % 3,
        "scale": SCALE,
        "rows": np.arange(n) + 2,
    }
    return Pairs(**{**values, **changes})


def test_select_keeps_rows_weights_and_order_together() -> None:
    chosen = _pairs(weights=[1, 2, 3, 4]).select([3, 0])
    assert chosen.text1 == ["a3", "a0"] and chosen.text2 == ["b3", "b0"]
    assert chosen.grades.tolist() == [0, 0] and chosen.rows is not None and chosen.rows.tolist() == [5, 2]
    assert chosen.weights is not None and chosen.weights.tolist() == [4, 1]


def test_select_takes_a_mask_and_nothing() -> None:
    assert _pairs().select(np.array([True, False, False, True])).text1 == ["a0", "a3"]
    assert len(_pairs().select([])) == 0


def test_dataset_has_the_columns_of_the_trainer() -> None:
    assert _pairs(2).to_dataset().column_names == ["sentence1", "sentence2", "score"]
    weighted = _pairs(2, weights=np.array([0.5, 2.0])).to_dataset()
    assert weighted[1] == {"sentence1": "a1", "sentence2": "b1", "score": 1.0, "weight": 2.0}


def test_fingerprint_follows_texts_grades_and_their_borders() -> None:
    first = _pairs().fingerprint()
    assert len(first) == 16 and first == _pairs(name="other", rows=None).fingerprint()
    assert first != _pairs(grades=[0, 1, 2, 1]).fingerprint()
    assert first != _pairs().select([1, 0, 2, 3]).fingerprint()
    shifted = [Pairs([a], [b], np.zeros(1), SCALE).fingerprint() for a, b in (("ab", "c"), ("a", "bc"))]
    assert shifted[0] != shifted[1]


def test_texts_are_distinct_first_seen_first() -> None:
    pairs = Pairs(["x", "y", "x"], ["y", "x", "z"], np.zeros(3), SCALE)
    assert pairs.texts() == ["x", "y", "z"]


def test_concatenate_fills_missing_weights_and_keeps_notes() -> None:
    both = Pairs.concatenate([_pairs(1, name="p", notes=("n",)), _pairs(2, weights=[3, 4])], "both")
    assert len(both) == 3 and both.name == "both" and both.notes == ("p: n",)
    assert both.weights is not None and both.weights.tolist() == [1, 3, 4] and both.rows is None


def test_concatenate_refuses_two_scales_and_nothing() -> None:
    with pytest.raises(InputError, match=r"different scales: 0,1,2 and 0\.\.5"):
        Pairs.concatenate([_pairs(), _pairs(scale=LabelScale.continuous(0, 5))], "both")
    with pytest.raises(InputError, match="nothing to concatenate"):
        Pairs.concatenate([], "both")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text2": ["b"]}, "4 first texts, but 1 in text2"),
        ({"grades": [0.0]}, "grades of shape"),
        ({"grades": [0, 1, 2, 3]}, "3 is off the scale 0,1,2"),
        ({"grades": [0, 1, 2, np.nan]}, "nan is off the scale"),
        ({"weights": [1.0]}, "1 in weights"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _pairs(**changes)
