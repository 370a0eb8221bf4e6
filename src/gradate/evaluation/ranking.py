"""How good one ranking is: nDCG, recall and reciprocal rank, of the grades of what was found."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradate.evaluation.metrics import Array


def ndcg(found: npt.ArrayLike, judged: npt.ArrayLike, k: int = 10) -> float:
    """Discounted cumulative gain of the first k × 100, as a share of the best possible.

    The gain of a document is its grade, the discount of rank r is log2(r + 1): trec_eval's `ndcg_cut`, which BEIR
    reports. (Other tools take 2^grade − 1 for the gain; for grades 0 and 1 the two agree.)

    Args:
        found: Grade of each document found, best first, 0 where it is not relevant.
        judged: Grades of all relevant documents of the query, at least one above 0.
        k: How many ranks count.

    Source: Järvelin & Kekäläinen (2002); Thakur et al. (2021).

    >>> round(ndcg([0, 2, 1], [2, 1]), 4)
    66.9672
    """
    ideal = np.sort(np.asarray(judged, dtype=np.float64))[::-1]
    return 100 * _dcg(np.asarray(found, dtype=np.float64)[:k]) / _dcg(ideal[:k])


def recall(found: npt.ArrayLike, judged: npt.ArrayLike, k: int = 100) -> float:
    """Share × 100 of all relevant documents that stand among the first k; arguments as in `ndcg`.

    >>> recall([0, 2, 1], [2, 1], k=2)
    50.0
    """
    return 100 * float(np.count_nonzero(np.asarray(found)[:k]) / np.count_nonzero(judged))


def reciprocal_rank(found: npt.ArrayLike, k: int = 10) -> float:
    """100 / rank of the first relevant document among the first k, 0 without one; `found` as in `ndcg`.

    >>> reciprocal_rank([0, 2, 1])
    50.0
    """
    hits = np.flatnonzero(np.asarray(found)[:k])
    return 100 / float(hits[0] + 1) if len(hits) else 0.0


def _dcg(gains: Array) -> float:
    return float(gains @ (1 / np.log2(np.arange(2, len(gains) + 2))))
