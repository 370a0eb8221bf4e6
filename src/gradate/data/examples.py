"""Graded pairs of texts: the typed view that objectives, evaluation and reports read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from gradate.errors import InputError
from gradate.scale import LabelScale

if TYPE_CHECKING:
    from datasets import Dataset


Self = TypeVar("Self")


class Examples(Protocol):
    """What a stage trains on: rows of one, two or three texts, with or without a grade."""

    @property
    def name(self) -> str:
        """Name of the source."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What reading decided."""

    def __len__(self) -> int: ...

    def columns(self) -> dict[str, list[str]]:
        """The texts as the trainer reads them, one list a column."""

    def select(self: Self, indices: npt.ArrayLike) -> Self:
        """The rows at these positions, in this order."""

    def with_notes(self: Self, *notes: str) -> Self:
        """The same rows with more notes."""

    def fingerprint(self) -> str:
        """First 16 hex digits of a sha256 over the content."""

    def texts(self) -> list[str]:
        """Distinct texts, first seen first."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of texts with a grade each, and the scale of the grades.

    Args:
        text1: First texts.
        text2: Second texts, as many.
        grades: Grade values on `scale`, shape (n,).
        scale: The scale of the grades.
        weights: Weight of each pair, shape (n,), finite and not negative; None weighs all pairs alike.
        rows: Row of each pair in its file, shape (n,), the header of a csv or tsv being row 1; None without a file.
        name: Stem of the file or name of the source.
        notes: What reading decided, one human line each.

    Raises:
        InputError: the columns differ in length, or a grade lies off the scale.

    >>> pairs = Pairs(["a", "b"], ["c", "a"], np.array([0.0, 2.0]), LabelScale.from_values([0, 1, 2]))
    >>> len(pairs), pairs.texts(), pairs.select([1]).grades.tolist()
    (2, ['a', 'c', 'b'], [2.0])
    """

    text1: Sequence[str]
    text2: Sequence[str]
    grades: npt.NDArray[np.float64]
    scale: LabelScale
    weights: npt.NDArray[np.float64] | None = None
    rows: npt.NDArray[np.int64] | None = None
    name: str = "pairs"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        grades = np.asarray(self.grades, dtype=np.float64)
        object.__setattr__(self, "grades", grades)
        if self.weights is not None:
            object.__setattr__(self, "weights", np.asarray(self.weights, dtype=np.float64))
        if self.rows is not None:
            object.__setattr__(self, "rows", np.asarray(self.rows, dtype=np.int64))
        n = len(self.text1)
        for column, values in (("text2", self.text2), ("weights", self.weights), ("rows", self.rows)):
            if values is not None and len(values) != n:
                raise InputError(f"{n} first texts, but {len(values)} in {column}", where=self.name)
        if grades.shape != (n,):
            raise InputError(f"{n} pairs, but grades of shape {grades.shape}", where=self.name)
        if not np.all((grades >= self.scale.low) & (grades <= self.scale.high)):
            worst = grades[~((grades >= self.scale.low) & (grades <= self.scale.high))][0]
            raise InputError(f"the grade {worst:g} is off the scale {self.scale}", where=self.name)

    def __len__(self) -> int:
        return len(self.text1)

    def select(self, indices: npt.ArrayLike) -> Pairs:
        """The pairs at these positions, in this order; a boolean mask selects where it is true."""
        index = np.asarray(indices)
        index = np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64)
        return replace(
            self,
            text1=[self.text1[i] for i in index.tolist()],
            text2=[self.text2[i] for i in index.tolist()],
            grades=self.grades[index],
            weights=None if self.weights is None else self.weights[index],
            rows=None if self.rows is None else self.rows[index],
        )

    def columns(self) -> dict[str, list[str]]:
        """The texts as the trainer reads them."""
        return {"sentence1": list(self.text1), "sentence2": list(self.text2)}

    def with_notes(self, *notes: str) -> Pairs:
        """The same pairs with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def to_dataset(self) -> Dataset:
        """Columns `sentence1`, `sentence2`, `score` (and `weight`), as sentence-transformers' trainer reads them."""
        from datasets import Dataset  # takes a second to import, and reading or auditing pairs does not need it

        columns: dict[str, list[str] | list[float]] = {
            "sentence1": list(self.text1),
            "sentence2": list(self.text2),
            "score": self.grades.tolist(),
        }
        if self.weights is not None:
            columns["weight"] = self.weights.tolist()
        return Dataset.from_dict(columns)

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over texts and grades, in order."""
        return fingerprint(self.text1, self.text2, self.grades)

    def texts(self) -> list[str]:
        """Distinct texts, first seen first."""
        return list(dict.fromkeys(text for pair in zip(self.text1, self.text2, strict=True) for text in pair))

    @staticmethod
    def concatenate(parts: Sequence[Pairs], name: str) -> Pairs:
        """The pairs of all parts in order; a part without weights weighs 1 where another has them.

        Raises:
            InputError: no part, or parts on different scales.
        """
        if not parts:
            raise InputError("nothing to concatenate", where=name)
        scales = list(dict.fromkeys(part.scale for part in parts))
        if len(scales) > 1:
            raise InputError(
                f"parts are on different scales: {' and '.join(str(s) for s in scales)}",
                where=name,
                remedy="rescale them to one scale first",
            )
        weighted = any(part.weights is not None for part in parts)
        weights = [np.ones(len(part)) if part.weights is None else part.weights for part in parts]
        return Pairs(
            [text for part in parts for text in part.text1],
            [text for part in parts for text in part.text2],
            np.concatenate([part.grades for part in parts]),
            scales[0],
            weights=np.concatenate(weights) if weighted else None,
            name=name,
            notes=tuple(f"{part.name}: {note}" for part in parts for note in part.notes),
        )


def fingerprint(text1: Iterable[str], text2: Iterable[str], grades: npt.NDArray[np.float64]) -> str:
    """First 16 hex digits of the sha256 over texts, each with its length, and grades as little-endian doubles."""
    digest = hashlib.sha256()
    for column in (text1, text2):
        for text in column:
            data = text.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    digest.update(np.asarray(grades, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]
