"""Exact search: the scores of all rows, block by block, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Rows: TypeAlias = "npt.NDArray[np.float32] | csr_matrix"

BLOCK_ELEMENTS = 4_000_000
"""Scores held at once: 16 MB of them."""


def unit_rows(rows: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Rows scaled to length 1, so that their products are cosines; a zero row stays zero, its cosines are 0.

    >>> unit_rows([[3, 4], [0, 0]]).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    found = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    unit = np.zeros_like(found)
    np.divide(found, lengths, out=unit, where=lengths > 0)
    return unit


def score_blocks(
    queries: Rows, rows: Rows, *, elements: int = BLOCK_ELEMENTS
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Products of every query with every row, some queries at a time.

    Args:
        queries: Rows (q, dim), dense or sparse; of length 1 for cosines.
        rows: Rows (n, dim) of the same kind.
        elements: Scores held at once; at least one query's n.

    Yields:
        Position of a block's first query, and its scores (b, n).
    """
    size = max(1, elements // max(1, rows.shape[0]))
    for start in range(0, queries.shape[0], size):
        scores = queries[start : start + size] @ rows.T
        yield start, scores if isinstance(scores, np.ndarray) else scores.toarray()


def best(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """Positions of the k highest scores, best first; of equal ones the earlier position comes first.

    Args:
        scores: Scores (n,).
        k: How many; all of them where there are fewer.

    >>> best(np.float32([0.5, 0.9, 0.5, 0.1]), 2).tolist()
    [1, 0]
    """
    k = min(k, len(scores))
    if not k:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(scores, -k)[-k]
    candidates = np.flatnonzero(scores >= least)  # rising, so that a stable sort leaves equal ones in this order
    return candidates[np.argsort(-scores[candidates], kind="stable")][:k]
