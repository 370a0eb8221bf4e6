"""What the head reads of every pair, in blocks: the rows of the convex fit."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gradate.models.head import PairHead, pair_features

ROWS_PER_BLOCK = 1024
"""Pairs whose features are made and used at once: few enough for the processor's caches."""
CACHE_BYTES = 1 << 30
"""Bytes up to which features are kept between passes; beyond, every pass makes them again."""


class PairFeatures:
    """Feature matrix of pairs over texts' embeddings, produced in blocks of bounded size.

    The embeddings may be a memory map of any length: only the rows of one block are read at a time.

    Args:
        embeddings: Embeddings of texts, (m, dim) float32.
        first: Row in `embeddings` of each pair's first text, (n,).
        second: The same for the second text, (n,).
        head: The head whose concatenation defines the features.
    """

    def __init__(self, embeddings: Tensor, first: Tensor, second: Tensor, head: PairHead) -> None:
        self.embeddings, self.first, self.second, self.head = embeddings, first, second, head
        self.width = head.linear.in_features
        fits = len(first) * self.width * 4 <= CACHE_BYTES
        self._kept = torch.empty(len(first), self.width) if fits else None
        self._filled: set[int] = set()

    def __len__(self) -> int:
        return len(self.first)

    @property
    def texts(self) -> int:
        """Number of different rows of `embeddings` that the pairs refer to."""
        used = torch.zeros(len(self.embeddings), dtype=torch.bool)
        used[self.first] = used[self.second] = True
        return int(used.sum())

    def rows(self, index: Tensor | slice) -> Tensor:
        """Features of some of the pairs, (rows, width) float32."""
        u, v = (self.head.prepare(self.embeddings.index_select(0, side[index])) for side in (self.first, self.second))
        return pair_features(u, v, self.head.concatenation, self.head.tied)

    def block(self, rows: slice) -> Tensor:
        """The same for one of the ranges of `row_ranges`; kept for the next time if all fit in `CACHE_BYTES`."""
        if self._kept is None:
            return self.rows(rows)
        if rows.start not in self._filled:
            self._kept[rows] = self.rows(rows)
            self._filled.add(rows.start)
        return self._kept[rows]

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Row ranges and their features, (rows, width) float32."""
        return ((rows, self.block(rows)) for rows in row_ranges(len(self)))


def row_ranges(n: int) -> list[slice]:
    """The blocks that n pairs are worked on in."""
    return [slice(start, min(start + ROWS_PER_BLOCK, n)) for start in range(0, n, ROWS_PER_BLOCK)]
