from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gradate.engine.search import best, score_blocks, unit_rows


@pytest.mark.parametrize("elements", [1, 20, 10_000])
def test_blocks_together_are_the_whole(elements: int) -> None:
    rng = np.random.default_rng(0)
    queries, rows = unit_rows(rng.normal(size=(7, 4))), unit_rows(rng.normal(size=(9, 4)))
    blocks = list(score_blocks(queries, rows, elements=elements))
    assert max(block.size for _, block in blocks) <= max(elements, len(rows))
    assert [start for start, _ in blocks] == list(range(0, 7, max(1, min(7, elements // 9))))
    np.testing.assert_allclose(np.concatenate([block for _, block in blocks]), queries @ rows.T, atol=1e-6)
    sparse = score_blocks(csr_matrix(queries), csr_matrix(rows), elements=elements)
    np.testing.assert_allclose(np.concatenate([block for _, block in sparse]), queries @ rows.T, atol=1e-6)


def test_the_best_are_those_of_a_stable_sort() -> None:
    scores = np.random.default_rng(0).integers(0, 5, 50).astype(np.float32)
    for k in (0, 1, 7, 50, 60):
        assert best(scores, k).tolist() == sorted(range(50), key=lambda i: (-scores[i], i))[:k]
    assert best(np.zeros(0, dtype=np.float32), 3).tolist() == []
