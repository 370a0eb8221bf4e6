"""Hard negatives of a stage's queries: which are shown, and when others take their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gradate.data.ranked import RankedRows
from gradate.errors import InputError

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NegativesConfig:
    """Negatives of a query of a retrieval set, out of a ranked pool."""

    count: int = 4
    """Negatives that a row shows, 1 or more."""
    pool: int = 100
    """Candidates kept for each query, the nearest first; at least `skip` + `count`."""
    ranked_by: Literal["tf-idf", "encoder"] = "tf-idf"
    """What is near: `tf-idf`: the words in common; `encoder`: the embeddings as they are when the stage begins."""
    skip: int = 10
    """Nearest candidates that are never shown, since some of them answer the query unmarked, 0 or more."""
    choice: Literal["drawn", "nearest"] = "drawn"
    """Which of the pool: `drawn` by lot (CoDiEmb), or the `nearest` (Conan-embedding)."""
    replace_every: int | None = None
    """Updates between two looks at the `nearest`, of which those that are hard no longer give way to the next in the
    pool, 1 or more; null: they stay."""
    softening: float = 1.15
    """Negatives give way where `softening` times their mean cosine with the query has fallen below what it was, 1 or
    more."""
    hardest: float = 0.8
    """They stay while that mean is this large or larger, above 0 to 1."""

    def __post_init__(self) -> None:
        _require(self.count >= 1, "count", self.count, "1 or more")
        _require(self.skip >= 0, "skip", self.skip, "0 or more")
        _require(self.pool >= self.skip + self.count, "pool", self.pool, f"at least {self.skip + self.count}")
        _require(self.choice in ("drawn", "nearest"), "choice", self.choice, "drawn or nearest")
        _require(self.ranked_by in ("tf-idf", "encoder"), "ranked_by", self.ranked_by, "tf-idf or encoder")
        every = self.replace_every
        _require(every is None or every >= 1, "replace_every", every, "1 or more, or null")
        if every is not None and self.choice == "drawn":
            raise InputError("drawn negatives are not replaced", where="negatives.choice", remedy="choose the nearest")
        _require(math.isfinite(self.softening) and self.softening >= 1, "softening", self.softening, "1 or more")
        _require(0 < self.hardest <= 1, "hardest", self.hardest, "above 0, up to 1")


class HardNegatives:
    """The negatives that each query shows now, by windows of its ranked pool.

    The i-th negatives of a query are its candidates of rank skip + (i − 1)·count to skip + i·count, the first ones
    included; a query whose pool is used up keeps its last.

    Args:
        rows: Queries with their ranked pools.
        config: How many, and when they give way.

    Source: Li et al. (2024), Conan-embedding, dynamic hard negative mining. What its text leaves open is settled so:
    a query's measure starts anew with new negatives; the pool is ranked once and only its scores are the model's; a
    mean of 0 or below is never replaced (1.15 times a negative mean lies below it, and would always be).

    >>> rows = RankedRows(["q"], [["p"]], [["n1", "n2", "n3", "n4"]])
    >>> negatives = HardNegatives(rows, NegativesConfig(count=1, skip=1, pool=4, choice="nearest"))
    >>> negatives.shown(0), negatives.check(np.array([0.7])), negatives.check(np.array([0.6])), negatives.shown(0)
    (['n2'], [], [0], ['n3'])
    """

    def __init__(self, rows: RankedRows, config: NegativesConfig) -> None:
        self.rows, self.config = rows, config
        self.window = np.ones(len(rows), dtype=np.int64)
        self.start = np.full(len(rows), np.nan)
        """Mean cosine of each query with its negatives when they were new; NaN until it is known."""
        self._place = {query: row for row, query in enumerate(rows.query)}

    def shown(self, row: int) -> list[str]:
        """Negatives of a row."""
        first = self.config.skip + (int(self.window[row]) - 1) * self.config.count
        return list(self.rows.negatives[row][first : first + self.config.count])

    def of(self, query: str) -> list[str]:
        """Negatives of a query, by its text."""
        return self.shown(self._place[query])

    def check(self, means: Array) -> list[int]:
        """Replace the negatives that are hard no longer; returns the rows.

        Args:
            means: Mean cosine of each query with the negatives it shows, (n,).
        """
        fresh = np.isnan(self.start)
        self.start[fresh] = means[fresh]
        softer = (self.start > 0) & (self.config.softening * means < self.start)
        last = self.config.skip + (self.window + 1) * self.config.count
        sizes = np.array([len(pool) for pool in self.rows.negatives])
        replaced = ~fresh & softer & (np.abs(means) < self.config.hardest) & (last <= sizes)
        self.window[replaced] += 1
        self.start[replaced] = np.nan
        return [int(row) for row in np.flatnonzero(replaced)]

    def state(self) -> dict[str, Any]:
        """Windows and measures as plain JSON, for a checkpoint."""
        starts = [None if math.isnan(value) else value for value in self.start.tolist()]
        return {"window": self.window.tolist(), "start": starts}

    def restore(self, state: dict[str, Any]) -> None:
        """Set what `state` gave."""
        self.window = np.array(state["window"], dtype=np.int64)
        self.start = np.array([math.nan if value is None else value for value in state["start"]], dtype=np.float64)


class ShowingNegatives:
    """A collator that puts the negatives of the moment in place of those a row came with.

    Args:
        collate: The trainer's collator.
        negatives: What each query shows now.
        own: Name of the stage's own data set; rows of tasks beside it stay as they are.
    """

    def __init__(self, collate: Any, negatives: HardNegatives, own: str) -> None:
        self.collate, self.negatives, self.own = collate, negatives, own

    @property
    def valid_label_columns(self) -> list[str]:
        """Names of label columns, which the trainer asks its collator for."""
        return list(getattr(self.collate, "valid_label_columns", ()))

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Any:
        """The batch."""
        return self.collate([self._now(row) for row in rows])

    def _now(self, row: dict[str, Any]) -> dict[str, Any]:
        if row.get("dataset_name", self.own) != self.own:
            return row
        current = self.negatives.of(row["query"])
        return row | {f"negative_{i}": text for i, text in enumerate(current, start=1)}


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise InputError(f"{key} = {value} is out of range", where=f"negatives.{key}", remedy=f"allowed: {allowed}")
