"""What contrastive objectives read: triplets of texts, and single texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gradate.data.examples import Pairs
from gradate.data.leakage import TextPair, fold, pair_keys
from gradate.errors import InputError
from gradate.scale import LabelScale  # noqa: F401, the doctest needs it


@dataclass(frozen=True, eq=False)
class Triplets:
    """Texts with one that means the same and one that does not.

    Args:
        anchor: Texts.
        positive: A text like each anchor.
        negative: A text unlike each anchor, though near.
        name: Name of the source.
        notes: What reading decided, one human line each.

    Raises:
        InputError: the columns differ in length.

    >>> Triplets(["a cat sleeps"], ["a cat rests"], ["a cat runs"]).columns()["negative"]
    ['a cat runs']
    """

    anchor: Sequence[str]
    positive: Sequence[str]
    negative: Sequence[str]
    name: str = "triplets"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.anchor) == len(self.positive) == len(self.negative):
            sizes = ", ".join(str(len(column)) for column in (self.anchor, self.positive, self.negative))
            raise InputError(f"columns of {sizes} texts", where=self.name)

    def __len__(self) -> int:
        return len(self.anchor)

    def columns(self) -> dict[str, list[str]]:
        """The texts as the trainer reads them."""
        return {"anchor": list(self.anchor), "positive": list(self.positive), "negative": list(self.negative)}

    def select(self, indices: npt.ArrayLike) -> Triplets:
        """The triplets at these positions, in this order."""
        index = np.asarray(indices, dtype=np.int64).tolist()
        parts = ([column[i] for i in index] for column in (self.anchor, self.positive, self.negative))
        anchor, positive, negative = parts
        return replace(self, anchor=anchor, positive=positive, negative=negative)

    def with_notes(self, *notes: str) -> Triplets:
        """The same triplets with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over all texts, in order."""
        return _fingerprint(self.anchor, self.positive, self.negative)

    def texts(self) -> list[str]:
        """Distinct texts, first seen first."""
        return list(dict.fromkeys(text for row in zip(*self.columns().values(), strict=True) for text in row))


@dataclass(frozen=True, eq=False)
class Texts:
    """Single texts: each is its own positive, seen twice under different dropout.

    Args:
        text: The texts.
        name: Name of the source.
        notes: What reading decided, one human line each.

    >>> Texts(["a cat sleeps"]).columns()
    {'sentence1': ['a cat sleeps'], 'sentence2': ['a cat sleeps']}
    """

    text: Sequence[str]
    name: str = "texts"
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.text)

    def columns(self) -> dict[str, list[str]]:
        """The texts as the trainer reads them: two views of each."""
        return {"sentence1": list(self.text), "sentence2": list(self.text)}

    def select(self, indices: npt.ArrayLike) -> Texts:
        """The texts at these positions, in this order."""
        return replace(self, text=[self.text[i] for i in np.asarray(indices, dtype=np.int64).tolist()])

    def with_notes(self, *notes: str) -> Texts:
        """The same texts with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over all texts, in order."""
        return _fingerprint(self.text)

    def texts(self) -> list[str]:
        """Distinct texts, first seen first."""
        return list(dict.fromkeys(self.text))


def triplets_of_classes(pairs: Pairs) -> Triplets:
    """Triplets from graded pairs: first texts that have a highest and a lowest second text, joined in file order.

    A first text with several of both gives as many triplets as the scarcer kind has texts. For NLI these are a
    premise, what it entails and what it contradicts.

    Source: Gao et al. (2021), section 4.

    >>> scale = LabelScale.from_names(["contradiction", "neutral", "entailment"])
    >>> pairs = Pairs(["a", "a", "a", "b"], ["x", "y", "z", "w"], np.array([2.0, 0.0, 1.0, 2.0]), scale)
    >>> triplets_of_classes(pairs).columns()
    {'anchor': ['a'], 'positive': ['x'], 'negative': ['y']}
    """
    like: dict[str, list[str]] = {}
    unlike: dict[str, list[str]] = {}
    for first, second, grade in zip(pairs.text1, pairs.text2, pairs.grades.tolist(), strict=True):
        if grade == pairs.scale.high:
            like.setdefault(first, []).append(second)
        elif grade == pairs.scale.low:
            unlike.setdefault(first, []).append(second)
    rows = [
        (anchor, positive, negative)
        for anchor, positives in like.items()
        for positive, negative in zip(positives, unlike.get(anchor, ()), strict=False)
    ]
    anchor, positive, negative = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    note = f"{len(rows):,} triplets from {len(pairs):,} pairs: first texts with a second one of either end"
    return Triplets(anchor, positive, negative, pairs.name, (*pairs.notes, note))


def drop_test_triplets(triplets: Triplets, tests: Iterable[TextPair]) -> Triplets:
    """Leave out the triplets whose anchor and positive stand as a pair in a test set, in either order; count them."""
    held = set(pair_keys(list(tests)))
    keys = pair_keys(list(zip(triplets.anchor, triplets.positive, strict=True)))
    kept = [i for i, key in enumerate(keys) if key not in held]
    removed = len(triplets) - len(kept)
    note = f"{removed:,} triplets left out because they stand in one of the seven tests"
    return triplets.select(kept).with_notes(*([note] if removed else []))


def drop_test_texts(texts: Texts, tests: Iterable[TextPair]) -> Texts:
    """Leave out repeated texts, and those that stand in a test set after folding case and blanks, and count both."""
    held = {fold(text) for pair in tests for text in pair}
    distinct = list(dict.fromkeys(texts.text))
    kept = [text for text in distinct if fold(text) not in held]
    notes = []
    if len(distinct) < len(texts):
        notes.append(f"{len(texts) - len(distinct):,} repeated texts left out")
    if len(kept) < len(distinct):
        notes.append(f"{len(distinct) - len(kept):,} texts left out because they stand in one of the seven tests")
    return replace(texts, text=kept).with_notes(*notes)


def _fingerprint(*columns: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for column in columns:
        for text in column:
            data = text.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()[:16]
