"""nDCG, recall and reciprocal rank against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from sklearn.metrics import ndcg_score

from gradate.evaluation.ranking import ndcg, recall, reciprocal_rank


def test_ndcg_by_hand() -> None:
    assert ndcg([1], [1]) == 100
    assert ndcg([0, 1], [1]) == pytest.approx(100 / math.log2(3))
    assert ndcg([0, 0], [1]) == 0
    # Grades 3, 0, 2 found; 3, 2, 2 are there: (3 + 2/2) / (3 + 2/log2(3) + 2/2).
    assert ndcg([3, 0, 2], [2, 3, 2]) == pytest.approx(100 * 4 / (4 + 2 / math.log2(3)))
    # The eleventh rank counts for nothing, and more than ten relevant documents can still be perfect.
    assert ndcg([0] * 10 + [1], [1]) == 0
    assert ndcg([1] * 10, [1] * 15) == pytest.approx(100)
    assert ndcg([0, 2, 1], [2, 1], k=2) == pytest.approx(100 * ndcg_score([[0, 2, 1]], [[3, 2, 1]], k=2))


def test_recall_and_reciprocal_rank_by_hand() -> None:
    assert recall([0, 2, 0, 1], [1, 2, 1], k=4) == pytest.approx(200 / 3)
    assert recall([0, 2, 0, 1], [1, 2, 1], k=1) == 0
    assert reciprocal_rank([0, 0, 3, 1]) == pytest.approx(100 / 3)
    assert reciprocal_rank([0] * 10 + [1]) == 0
