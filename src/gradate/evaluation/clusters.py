"""Clusters of pairs that share sentences: what a cautious bootstrap resamples as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components


def sentence_clusters(pairs: Iterable[tuple[str, str]]) -> npt.NDArray[np.int64]:
    """Cluster of each pair, shape (n,), numbered from 0: pairs in different clusters share no sentence.

    Pairs with a sentence in common err together, so that resampling single pairs calls them more independent than they
    are. The clusters are the connected components of the graph whose nodes are sentences and whose edges are pairs.

    >>> sentence_clusters([("a", "b"), ("c", "d"), ("b", "e")]).tolist()
    [0, 1, 0]
    """
    numbers: dict[str, int] = {}
    edges = [(numbers.setdefault(a, len(numbers)), numbers.setdefault(b, len(numbers))) for a, b in pairs]
    if not edges:
        return np.zeros(0, dtype=np.int64)
    left, right = np.array(edges, dtype=np.int64).T
    graph = coo_matrix((np.ones(len(edges), dtype=np.int8), (left, right)), shape=(len(numbers), len(numbers)))
    _, components = connected_components(graph, directed=False)
    _, clusters = np.unique(components[left], return_inverse=True)
    return np.asarray(clusters, dtype=np.int64)
