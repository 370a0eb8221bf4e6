"""A seeded split of pairs into train, dev and test that keeps pairs sharing a text together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gradate.data.examples import Pairs
from gradate.data.leakage import fold, pair_keys
from gradate.errors import InputError

MIN_PAIRS = 10
_CONTINUOUS_BINS = 5
_OVERFILL = 1.2

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """The three parts and what was decided.

    Args:
        train: Training part.
        dev: Selection part.
        test: Test part.
        notes: Sizes, and whether parts share texts.
    """

    train: Pairs
    dev: Pairs
    test: Pairs
    notes: tuple[str, ...]


def split_pairs(pairs: Pairs, *, seed: int, fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)) -> Split:
    """Split pairs so that no text (case and blanks folded) stands in two parts, with the same mix of grades in each.

    Where more than half of the pairs hang together through shared texts, or form fewer groups than there are parts,
    the split is by pair, and the notes say so; the same two texts then still stand in one part only where possible.

    Args:
        pairs: At least 10 pairs.
        seed: Seed of the split.
        fractions: Shares of train, dev and test, together 1; only train's must be above 0, and a part of no share is
            empty.

    Raises:
        InputError: fewer than 10 pairs, or fractions that are no shares.
    """
    if len(pairs) < MIN_PAIRS:
        raise InputError(
            f"{len(pairs)} pairs are too few to split into train, dev and test",
            where=pairs.name,
            remedy=f"give at least {MIN_PAIRS} pairs, or your own files with --dev and --test",
        )
    if not (min(fractions) >= 0 < fractions[0] and math.isclose(sum(fractions), 1, abs_tol=1e-6)):
        raise InputError(f"the shares {fractions} must not be negative and must sum to 1", where="split")
    notes = []
    groups = _shared_text_groups(pairs)
    largest = int(np.bincount(groups).max())
    needed = sum(f > 0 for f in fractions)
    by_text = largest <= len(pairs) / 2 and groups.max() + 1 >= needed
    if by_text:
        notes.append(f"pairs that share a text stay together ({groups.max() + 1:,} groups)")
    else:
        groups = _same_pair_groups(pairs)
        notes.append(
            f"{largest:,} of {len(pairs):,} pairs hang together through shared texts, so the split is by pair "
            "and its parts share texts"
        )
        if groups.max() + 1 < needed:
            groups = np.arange(len(pairs))
            notes.append(f"fewer than {needed} different pairs: the parts share pairs too")
    parts = _assign(groups, _grade_bins(pairs), fractions, np.random.default_rng(seed))
    train, dev, test = (pairs.select(np.flatnonzero(parts == part)) for part in range(3))
    shares = "/".join(f"{100 * f:g}" for f in fractions)
    notes.insert(0, f"split {shares} with seed {seed}: train {len(train):,}, dev {len(dev):,}, test {len(test):,}")
    return Split(train, dev, test, tuple(notes))


def _shared_text_groups(pairs: Pairs) -> Index:
    """Connected component of each pair in the graph whose nodes are texts and whose edges are pairs."""
    ids: dict[str, int] = {}
    left = np.array([ids.setdefault(fold(text), len(ids)) for text in pairs.text1])
    right = np.array([ids.setdefault(fold(text), len(ids)) for text in pairs.text2])
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(len(ids), len(ids)))
    _, component = connected_components(graph, directed=False)
    return _renumber(component[left])


def _same_pair_groups(pairs: Pairs) -> Index:
    ids: dict[tuple[str, str], int] = {}
    return np.array([ids.setdefault(key, len(ids)) for key in pair_keys(pairs, folded=True)])


def _renumber(groups: Index) -> Index:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _grade_bins(pairs: Pairs) -> Index:
    """Class of each grade; on a continuous scale one of five bins of about equal size."""
    if not pairs.scale.is_continuous:
        return _renumber(pairs.scale.index(pairs.grades))
    borders = np.quantile(pairs.grades, np.arange(1, _CONTINUOUS_BINS) / _CONTINUOUS_BINS)
    return _renumber(np.searchsorted(borders, pairs.grades))


def _assign(groups: Index, bins: Index, fractions: Sequence[float], rng: np.random.Generator) -> Index:
    """Part of each pair: large groups first, each to the part that misses most of the grades the group holds.

    Source: iterative stratification, Sechidis, Tsoumakas & Vlahavas (2011), for whole groups.
    """
    counts = np.zeros((groups.max() + 1, bins.max() + 1))
    np.add.at(counts, (groups, bins), 1)
    sizes = counts.sum(axis=1)
    shuffled = rng.permutation(len(counts))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    target = np.outer(fractions, counts.sum(axis=0))
    share = np.asarray(fractions)
    room = np.where(share > 0, np.maximum(share * len(groups), 1.0), 0.0)
    filled = np.zeros_like(target)
    part_of = np.zeros(len(counts), dtype=np.int64)
    for group in order:
        missing = ((target - filled) / np.maximum(target, 1e-9)) @ counts[group] / sizes[group]
        crowded = filled.sum(axis=1) + sizes[group] > room * _OVERFILL
        crowded[0], crowded[1:][room[1:] == 0] = False, True
        part_of[group] = int(np.argmax(np.where(crowded, -np.inf, missing)))
        filled[part_of[group]] += counts[group]
    _fill_empty(part_of, sizes, room)
    return part_of[groups]


def _fill_empty(part_of: Index, sizes: npt.NDArray[np.float64], room: npt.NDArray[np.float64]) -> None:
    """Give a part that got no pair of its share the group nearest to its size, from the part with most groups."""
    for part in range(3):
        if room[part] and not (part_of == part).any():
            donor = int(np.bincount(part_of, minlength=3).argmax())
            candidates = np.flatnonzero(part_of == donor)
            part_of[candidates[np.abs(sizes[candidates] - room[part]).argmin()]] = part
