"""Which columns of a file are the two texts, the grade and the weight."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradate.errors import InputError

TEXT_COLUMNS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("sentence_A", "sentence_B"),
    ("premise", "hypothesis"),
    ("question", "answer"),
)
GRADE_COLUMNS = ("grade", "score", "label", "similarity", "relatedness_score")
WEIGHT_COLUMN = "weight"
_NAMES_SHOWN = 20


@dataclass(frozen=True)
class Columns:
    """Positions in a header.

    Args:
        header: All column names of the file.
        text1: Position of the first text.
        text2: Position of the second text.
        grade: Position of the grade, None where there is none.
        weight: Position of the weight, None where there is none.
    """

    header: tuple[str, ...]
    text1: int
    text2: int
    grade: int | None = None
    weight: int | None = None

    @property
    def names(self) -> dict[str, str | None]:
        """Name of the column behind each role, None where the file has no such column."""
        places = {"text1": self.text1, "text2": self.text2, "grade": self.grade, "weight": self.weight}
        return {role: None if place is None else self.header[place] for role, place in places.items()}

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that nothing reads, in file order; a nameless one by its position."""
        used = {self.text1, self.text2, self.grade, self.weight}
        return tuple(name or f"column {i + 1}" for i, name in enumerate(self.header) if i not in used)


def resolve_columns(
    header: Sequence[str], wanted: str | Sequence[str] | None = None, *, path: Path, grade_required: bool = True
) -> Columns:
    """Find the columns of a file of pairs.

    Args:
        header: Column names of the file.
        wanted: `text1, text2` or `text1, text2, grade` by name, as a sequence or joined with commas; None looks for
            `TEXT_COLUMNS` and `GRADE_COLUMNS`, first match. A name that differs in case or blanks only is taken where
            no second column reads the same.
        path: The file, for messages.
        grade_required: Refuse a file without a grade.

    Raises:
        InputError: a column is missing, ambiguous or named twice.
    """
    finder = _Finder(tuple(header), path)
    names = _split_wanted(wanted)
    grade: int | None
    if names:
        text1, text2 = finder.named(names[0]), finder.named(names[1])
        grade = finder.named(names[2]) if len(names) > 2 else finder.first(GRADE_COLUMNS)
    else:
        text1, text2 = finder.first_pair()
        grade = finder.first(GRADE_COLUMNS)
    if grade in (text1, text2):
        grade = None
    if grade is None and grade_required:
        raise InputError(
            f"no grade column among {finder.listed}",
            where=path,
            remedy=f"name it one of {', '.join(GRADE_COLUMNS)}, or pass --columns A,B,GRADE",
        )
    weight = finder.find(WEIGHT_COLUMN)
    if weight in (text1, text2, grade):
        weight = None
    return Columns(finder.header, text1, text2, grade, weight)


def _split_wanted(wanted: str | Sequence[str] | None) -> list[str]:
    if wanted is None:
        return []
    names = next(csv.reader([wanted])) if isinstance(wanted, str) else list(wanted)
    names = [name.strip() for name in names]
    if len(names) not in (2, 3) or not all(names):
        raise InputError(
            f"two or three column names were expected, got {', '.join(names) or 'none'}",
            where="--columns",
            remedy="write A,B or A,B,GRADE",
        )
    if len(set(names)) != len(names):
        raise InputError(f"the column {_repeated(names)!r} is named twice", where="--columns")
    return names


@dataclass(frozen=True)
class _Finder:
    header: tuple[str, ...]
    path: Path

    @property
    def listed(self) -> str:
        shown = [name or f"column {i + 1}" for i, name in enumerate(self.header)]
        more = f" and {len(shown) - _NAMES_SHOWN} more" if len(shown) > _NAMES_SHOWN else ""
        return ", ".join(shown[:_NAMES_SHOWN]) + more

    def find(self, name: str) -> int | None:
        """Position of a column: exact name, else the one that differs in case and blanks only."""
        exact = [i for i, other in enumerate(self.header) if other == name]
        found = exact or [i for i, other in enumerate(self.header) if _fold(other) == _fold(name)]
        if len(found) > 1:
            names = " and ".join(repr(self.header[i]) for i in found)
            raise InputError(
                f"columns {found[0] + 1} and {found[1] + 1} both read as {name!r}: {names}",
                where=self.path,
                remedy="rename one of them" if exact else "say which with --columns A,B,GRADE, or rename one of them",
            )
        return found[0] if found else None

    def first(self, names: Sequence[str]) -> int | None:
        places = (self.find(name) for name in names)
        return next((place for place in places if place is not None), None)

    def first_pair(self) -> tuple[int, int]:
        half: list[tuple[str, str]] = []
        for left, right in TEXT_COLUMNS:
            a, b = self.find(left), self.find(right)
            if a is not None and b is not None:
                return a, b
            if a is not None or b is not None:
                half.append((left, right) if a is not None else (right, left))
        seen = f"; there is {half[0][0]!r} but no {half[0][1]!r}" if half else ""
        raise InputError(
            f"no two text columns among {self.listed}{seen}",
            where=self.path,
            remedy="name them with --columns A,B,GRADE",
        )

    def named(self, name: str) -> int:
        place = self.find(name)
        if place is not None:
            return place
        close = difflib.get_close_matches(_fold(name), [_fold(n) for n in self.header], n=1)
        match = next((n for n in self.header if close and _fold(n) == close[0]), None)
        raise InputError(
            f"no column {name!r} among {self.listed}",
            where=self.path,
            remedy=f"did you mean {match!r}?" if match else "check --columns",
        )


def _fold(name: str) -> str:
    return "".join(name.casefold().split())


def _repeated(names: Sequence[str]) -> str:
    return next(name for name in names if names.count(name) > 1)
