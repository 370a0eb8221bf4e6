"""Grades to look at again: the worst first, and none where the order is right."""

from __future__ import annotations

import numpy as np
import pytest

from gradate.data.examples import Pairs
from gradate.models.graded import GradedModel, PairScores
from gradate.runs.disagreements import find_disagreements
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

SCALE = LabelScale.from_names(["no", "some", "much"])


def _model(similarity: list[float], monkeypatch: pytest.MonkeyPatch) -> GradedModel:
    model = GradedModel(tiny_encoder(), precision="fp32")
    monkeypatch.setattr(model, "score", lambda pairs, **_: PairScores(np.array(similarity), 0, None))
    return model


def _pairs(grades: list[float], scale: LabelScale = SCALE, rows: list[int] | None = None) -> Pairs:
    texts = [f"t{i}" for i in range(len(grades))]
    return Pairs(texts, texts[::-1], np.array(grades), scale, rows=None if rows is None else np.array(rows))


def test_a_model_in_the_order_of_the_grades_disagrees_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model([0.1, 0.3, 0.31, 0.32, 0.9, 0.95], monkeypatch)
    assert len(find_disagreements(_pairs([0, 0, 1, 1, 2, 2]), model)) == 0


def test_the_worst_come_first_with_grade_expectation_and_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model([0.1, 0.2, 0.3, 0.5, 0.6, 0.9], monkeypatch)
    found = find_disagreements(_pairs([0, 2, 0, 1, 1, 2], rows=[2, 3, 4, 5, 6, 7]), model)
    # Fitted by pooling: 0, then 2, 0, 1, 1 share their mean, then 2.
    assert found.expected.tolist() == [1.0, 1.0] and found.pairs.rows is not None
    columns = found.columns()
    assert columns["row"] == [3, 4] and columns["grade"] == ["much", "no"]
    assert columns["disagreement"] == [1.0, -1.0] and columns["similarity"] == [0.2, 0.3]
    assert find_disagreements(_pairs([0, 2, 0, 1, 1, 2]), model, count=1).columns()["row"] == [1]
    assert found.to_json() == {"pairs": 2, "compared": 6, "notes": []}


def test_a_continuous_scale_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model([0.1, 0.2, 0.3], monkeypatch)
    found = find_disagreements(_pairs([0.5, 4.5, 0.0], LabelScale.continuous(0, 5)), model)
    assert found.columns()["grade"] == [4.5, 0.0] and found.expected.tolist() == [2.25, 2.25]
