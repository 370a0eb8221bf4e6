"""Pairs that stand in a test set: as they are, the other way round, or after folding case and blanks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradate.data.examples import Pairs

TextPair = tuple[str, str]
TextPairs = Pairs | Iterable[TextPair]


@dataclass(frozen=True)
class Leak:
    """One pair that stands in a test set.

    Args:
        index: Position of the pair, from 0.
        row: Its row in its file, or its position from 1 where it has no file.
        kind: `exact`, `swapped`, or `folded` (equal only after folding case and blanks, in either order).
        test: Name of the first test set that holds it.
    """

    index: int
    row: int
    kind: str
    test: str


@dataclass(frozen=True)
class Leaks:
    """All leaks of a set of pairs; each pair is counted once, under the strictest kind it meets."""

    found: tuple[Leak, ...]

    @property
    def exact(self) -> int:
        """Pairs that stand in a test set as they are."""
        return self._count("exact")

    @property
    def swapped(self) -> int:
        """Pairs whose texts stand in a test set the other way round only."""
        return self._count("swapped")

    @property
    def folded(self) -> int:
        """Pairs that stand in a test set only after folding case and blanks, in either order."""
        return self._count("folded")

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of the leaking pairs."""
        return tuple(leak.row for leak in self.found)

    @property
    def index(self) -> npt.NDArray[np.int64]:
        """Positions of the leaking pairs, shape (leaks,)."""
        return np.array([leak.index for leak in self.found], dtype=np.int64)

    def _count(self, kind: str) -> int:
        return sum(leak.kind == kind for leak in self.found)


def fold(text: str) -> str:
    """A text without differences of case and spacing.

    >>> fold("  How  do I PAY? ")
    'how do i pay?'
    """
    return " ".join(text.casefold().split())


def pair_keys(pairs: TextPairs, *, folded: bool = False) -> list[TextPair]:
    """A key of each pair that does not depend on the order of its texts, exact or after `fold`.

    >>> pair_keys([("b", "a"), ("a", "b")])
    [('a', 'b'), ('a', 'b')]
    """
    return [_unordered(fold(a), fold(b)) if folded else _unordered(a, b) for a, b in text_pairs(pairs)]


def text_pairs(pairs: TextPairs) -> Sequence[TextPair]:
    """The texts of each pair."""
    if isinstance(pairs, Pairs):
        return list(zip(pairs.text1, pairs.text2, strict=True))
    return pairs if isinstance(pairs, Sequence) else list(pairs)


def find_leaks(pairs: TextPairs, tests: Mapping[str, TextPairs] | TextPairs) -> Leaks:
    """Find the pairs that stand in any of the test sets, whatever their grade.

    Args:
        pairs: The pairs to check, usually training pairs.
        tests: Name and pairs of each test set, of which the first that holds a pair is named; or one test set.
    """
    ordered: dict[TextPair, str] = {}
    folded: dict[TextPair, str] = {}
    for name, test in _named(tests).items():
        for a, b in text_pairs(test):
            ordered.setdefault((a, b), name)
            folded.setdefault(_unordered(fold(a), fold(b)), name)
    rows = pairs.rows if isinstance(pairs, Pairs) else None
    found = []
    for i, (a, b) in enumerate(text_pairs(pairs)):
        kind, test_name = "exact", ordered.get((a, b))
        if test_name is None:
            kind, test_name = "swapped", ordered.get((b, a))
        if test_name is None and folded:
            kind, test_name = "folded", folded.get(_unordered(fold(a), fold(b)))
        if test_name is not None:
            found.append(Leak(i, i + 1 if rows is None else int(rows[i]), kind, test_name))
    return Leaks(tuple(found))


def drop_leaks(pairs: Pairs, tests: Mapping[str, TextPairs] | TextPairs) -> tuple[Pairs, int]:
    """Leave out the pairs whose two texts stand in a test set as exact strings, in either order.

    Source: the filter of Zhang & Li (2024), appendix A.

    Returns:
        The other pairs, with a note that counts the dropped ones, and that count.
    """
    tests = _named(tests)
    held = {key for test in tests.values() for key in pair_keys(test)}
    clean = np.array([key not in held for key in pair_keys(pairs)], dtype=np.bool_)
    removed = int((~clean).sum())
    note = f"{removed:,} of {len(pairs):,} pairs left out: they stand in {', '.join(tests)}"
    return pairs.select(clean).with_notes(*([note] if removed else [])), removed


def _named(tests: Mapping[str, TextPairs] | TextPairs) -> Mapping[str, TextPairs]:
    if isinstance(tests, Mapping):
        return tests
    return {tests.name if isinstance(tests, Pairs) else "the test set": tests}


def _unordered(a: str, b: str) -> TextPair:
    return (a, b) if a <= b else (b, a)
