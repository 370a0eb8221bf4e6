from __future__ import annotations

import numpy as np
import pytest

from gradate.errors import InputError
from gradate.evaluation import fidelity
from gradate.evaluation.fidelity import compare_graded, embedding_cosines, sample, texts_per_second
from gradate.evaluation.grading import GradedScores
from gradate.models.graded import GradedModel
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2])


class _Vectors:
    """Looks texts up; what `GradedModel.encode` returns."""

    def __init__(self, **vectors):
        self.vectors = vectors

    def encode(self, texts):
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def test_cosines_are_those_of_each_texts_two_embeddings():
    first = _Vectors(a=[1, 0], b=[3, 4], c=[1, 1])
    second = _Vectors(a=[2, 0], b=[4, 3], c=[0, 0])
    found = embedding_cosines(first, second, ["a", "b", "c"])
    assert (found.min, found.texts) == (0.0, 3)
    assert found.mean == pytest.approx((1 + 24 / 25 + 0) / 3)
    with pytest.raises(InputError, match="no texts"):
        embedding_cosines(first, second, [])


def test_a_model_is_faithful_to_itself():
    model = GradedModel(tiny_encoder(), precision="fp32")
    found = embedding_cosines(model, model, ["a b", "c", ""])
    assert found.min == pytest.approx(1.0) and found.mean == pytest.approx(1.0)


def test_speed_is_taken_in_turn_without_the_first_round(monkeypatch):
    clock = [0.0]
    order = []

    class Timed:
        precision = GradedModel(tiny_encoder(), precision="fp32").precision

        def __init__(self, name, *seconds):
            self.name, self.seconds = name, iter(seconds)

        def encode(self, texts):
            order.append(self.name)
            clock[0] += next(self.seconds)

    monkeypatch.setattr(fidelity.time, "perf_counter", lambda: clock[0])
    found = texts_per_second(Timed("o", 99, 2, 4, 1), Timed("e", 99, 1, 1, 1), ["a"] * 8, rounds=3)
    assert order == ["o", "e"] * 4
    assert (found.original, found.exported) == (4.0, 8.0)
    assert (found.ratio, found.ratio_low, found.ratio_high) == (2.0, 1.0, 4.0)
    assert (found.original_precision, found.texts, found.rounds) == ("fp32", 8, 3)
    with pytest.raises(InputError, match="at least one"):
        texts_per_second(Timed("o"), Timed("e"), [])


def test_graded_comparison_has_intervals_and_paired_differences():
    gold = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    before = GradedScores(gold, np.array([0.1, 0.5, 0.9, 0.2, 0.4, 0.8]), SCALE)
    after = GradedScores(gold, np.array([0.9, 0.5, 0.1, 0.2, 0.4, 0.8]), SCALE)
    found = compare_graded(before, after, resamples=50)
    assert list(found) == ["before", "after", "difference"]
    assert found["before"]["n"] == 6 and found["before"]["mae"] is None
    gain = found["difference"]["spearman_cosine"]
    assert gain["value"] == pytest.approx(found["after"]["spearman_cosine"] - found["before"]["spearman_cosine"])
    assert gain["low"] <= gain["value"] <= gain["high"] and 0 < gain["p"] <= 1
    assert set(found["before"]["intervals"]) == {"spearman_cosine"} == set(found["difference"])


def test_with_predictions_the_heads_metrics_are_compared_too():
    gold = np.array([0.0, 1.0, 2.0, 2.0])
    scores = GradedScores(gold, gold / 2, SCALE, gold)
    found = compare_graded(scores, scores, resamples=20)
    assert set(found["difference"]) == {"spearman_cosine", "spearman_head", "mae", "accuracy", "qwk"}
    assert found["difference"]["mae"]["value"] == 0.0


def test_a_sample_is_the_same_every_time_and_holds_no_text_twice():
    texts = [str(i % 50) for i in range(200)]
    assert sample(texts, 50) == [str(i) for i in range(50)]
    assert sample(texts, 10) == sample(texts, 10)
    assert len(set(sample(texts, 10))) == 10
