"""Pairs worth annotating: spread over bands of similarity, each text in few of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.data.leakage import fold
from gradate.engine.encoding import count_truncated, encode_distinct, pair_cosines
from gradate.engine.search import BLOCK_ELEMENTS, score_blocks, unit_rows
from gradate.errors import InputError
from gradate.evaluation.metrics import Array
from gradate.models.graded import GradedModel

BANDS = (0.2, 0.4, 0.6, 0.8)
"""Cosines at which one band ends and the next begins."""
PARTNERS = 4
"""Partners of a text that are considered in a band, times those it may have."""
DIGITS = 4

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Band:
    """What a range of similarity gave.

    Args:
        name: Its ends, for instance `0.2 to 0.4`; the lower one belongs to it.
        asked: Pairs asked for.
        found: Pairs proposed.
        held: All pairs of different texts in it.
    """

    name: str
    asked: int
    found: int
    held: int


@dataclass(frozen=True, eq=False)
class Proposal:
    """Pairs for somebody to grade, in random order.

    Args:
        text1: First texts.
        text2: Second texts.
        similarity: Cosines (n,).
        band: Name of each pair's band.
        bands: The bands, from low to high.
        texts: Distinct texts that were compared.
        notes: Texts left out, bands that fell short, one human line each.
    """

    text1: list[str]
    text2: list[str]
    similarity: Array
    band: list[str]
    bands: tuple[Band, ...]
    texts: int
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.text1)

    def columns(self) -> dict[str, list[Any]]:
        """A table to fill in: `gradate check` and `gradate train` read it once its column `grade` is full."""
        return {
            "text1": self.text1,
            "text2": self.text2,
            "grade": [None] * len(self),
            "similarity": self.similarity.round(DIGITS).tolist(),
            "band": self.band,
        }

    def to_json(self) -> dict[str, Any]:
        """Counts, by band and in all."""
        return {
            "pairs": len(self),
            "texts": self.texts,
            "bands": [asdict(band) for band in self.bands],
            "notes": list(self.notes),
        }


def propose_pairs(
    texts: Sequence[str],
    model: GradedModel,
    *,
    count: int = 100,
    bands: Sequence[float] = BANDS,
    per_text: int = 3,
    seed: int = 0,
    show_progress: bool = False,
    elements: int = BLOCK_ELEMENTS,
) -> Proposal:
    """Propose pairs for annotation, as many from each band of similarity as from the next.

    Pairs drawn at random are nearly all unlike; grades of all kinds want pairs of all similarities. Every two texts
    are compared, exactly, in blocks. Texts equal after folding case and blanks count as one: none meets itself. Memory
    beyond the block: embeddings, and as many candidates for each text and band as `PARTNERS` and `per_text` allow.

    Args:
        texts: The texts; empty ones are left out.
        model: Whose cosine counts.
        count: Pairs in all; the higher bands get one more where it does not divide.
        bands: Rising cosines between −1 and 1 at which one band ends and the next begins.
        per_text: Pairs that one text may stand in.
        seed: Seed of the choice within a band and of the order.
        show_progress: Show a progress bar on stderr.
        elements: Cosines held at once, at least as many as there are texts.

    Raises:
        InputError: fewer than two different texts, bands that do not rise, or nothing asked for.
    """
    edges = np.asarray(bands, dtype=np.float64)
    if not len(edges) or not (np.diff([-1.0, *edges, 1.0]) > 0).all():
        listed = ",".join(f"{edge:g}" for edge in edges)
        raise InputError(f"{listed!r} does not rise between -1 and 1", where="bands", remedy="write 0.2,0.4,0.6,0.8")
    if min(count, per_text) < 1:
        raise InputError(f"{count} pairs, {per_text} for each text", remedy="ask for at least 1 of each")
    distinct, notes = _distinct(texts)
    chance = np.random.default_rng(seed)
    # A text is compared with those after it, so chance decides who comes first.
    distinct = [distinct[place] for place in chance.permutation(len(distinct))]
    embeddings = _encode(model, distinct, show_progress)
    left, right, held = _candidates(unit_rows(embeddings), edges, PARTNERS * per_text, chance, elements)
    similarity = pair_cosines(embeddings, left, right)
    places = np.searchsorted(edges, np.nan_to_num(similarity), side="right")
    asked = [count // len(held) + (place >= len(held) - count % len(held)) for place in range(len(held))]
    chosen = _choose(left, right, places, asked, per_text, chance)
    names = _names(bands)
    found = np.bincount(places[chosen], minlength=len(names))
    counted = tuple(Band(*row) for row in zip(names, asked, found.tolist(), held.tolist(), strict=True))
    notes += [
        f"{band.name}: {band.found:,} pairs where {band.asked:,} were asked for; it holds {band.held:,}, and a text"
        f" may stand in {per_text}"
        for band in counted
        if band.found < band.asked
    ]
    truncated = count_truncated(model.encoder, distinct)
    notes += [f"texts longer than the encoder reads: {truncated:,}"] if truncated else []
    return Proposal(
        [distinct[place] for place in left[chosen]],
        [distinct[place] for place in right[chosen]],
        np.nan_to_num(similarity[chosen]),
        [names[place] for place in places[chosen]],
        counted,
        len(distinct),
        tuple(notes),
    )


def _distinct(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The first of the texts that are equal after folding, and what was left out."""
    filled = [text for text in texts if text.strip()]
    first: dict[str, str] = {}
    for text in filled:
        first.setdefault(fold(text), text)
    if len(first) < 2:
        raise InputError(f"{len(first)} different texts make no pair", remedy="give at least two")
    counts = {"empty texts, left out": len(texts) - len(filled), "repeated texts, left out": len(filled) - len(first)}
    return list(first.values()), [f"{what}: {number:,}" for what, number in counts.items() if number]


def _encode(model: GradedModel, texts: Sequence[str], show_progress: bool) -> npt.NDArray[np.float32]:
    encoded = encode_distinct(model.encoder, texts, precision=model.precision, show_progress=show_progress)
    return encoded.embeddings


def _candidates(
    rows: npt.NDArray[np.float32], edges: Array, most: int, chance: np.random.Generator, elements: int
) -> tuple[Index, Index, Index]:
    """Pairs to choose from, at most so many of each row with later ones in each band, and all pairs by band."""
    held = np.zeros(len(edges) + 1, dtype=np.int64)
    left: list[Index] = []
    right: list[Index] = []
    for start, block in score_blocks(rows, rows, elements=elements):
        for row, scores in enumerate(block, start=start):
            bands = np.searchsorted(edges, scores[row + 1 :], side="right")
            held += np.bincount(bands, minlength=len(held))
            for band in range(len(held)):
                later = np.flatnonzero(bands == band)
                if len(later) > most:
                    later = later[chance.choice(len(later), most, replace=False, shuffle=False)]
                left.append(np.full(len(later), row))
                right.append(row + 1 + later)
    return np.concatenate(left), np.concatenate(right), held


def _choose(
    left: Index, right: Index, band: Index, asked: Sequence[int], per_text: int, chance: np.random.Generator
) -> Index:
    """Positions of the pairs to propose, in random order; the scarcest band chooses first."""
    used = np.zeros(int(right.max()) + 1, dtype=np.int64)
    chosen: list[int] = []
    scarce = np.argsort(np.bincount(band, minlength=len(asked)), kind="stable")
    for place in scarce.tolist():
        wanted = asked[place]
        for pair in chance.permutation(np.flatnonzero(band == place)).tolist():
            if not wanted:
                break
            ends = [left[pair], right[pair]]
            if (used[ends] < per_text).all():
                used[ends] += 1
                wanted -= 1
                chosen.append(pair)
    return chance.permutation(np.array(chosen, dtype=np.int64))


def _names(edges: Sequence[float]) -> list[str]:
    """Bands in words.

    >>> _names([0.2, 0.4])
    ['below 0.2', '0.2 to 0.4', 'from 0.4']
    """
    between = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return [f"below {edges[0]:g}", *between, f"from {edges[-1]:g}"]
