"""Rows of retrieval training: a query, what answers it, and what only seems to, the likeliest first."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer

from gradate.data.examples import fingerprint
from gradate.data.leakage import fold
from gradate.data.retrieval import RetrievalSet
from gradate.engine.search import BLOCK_ELEMENTS, Rows, best, score_blocks, unit_rows
from gradate.errors import InputError

Embeddings = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Queries with their positives and a ranked pool of negatives, of which every row shows as many as it has columns.

    Where a query has more texts than columns a random subset is shown; where it has fewer, the list is repeated until
    there are enough, and drawn from without replacement. A row's draw depends on its query and the seed alone. With
    `nearest` the negatives are not drawn: the first ones behind those skipped are shown.

    Args:
        query: The queries.
        positives: Texts that answer each query, at least one.
        negatives: Texts that do not, the hardest first, at least one.
        shown: How many positives and how many negatives a row shows.
        seed: Seed of the draws.
        skip: Nearest negatives that are never shown.
        nearest: Show the nearest negatives instead of drawing them.
        name: Name of the source.
        notes: What reading decided, one human line each.

    Raises:
        InputError: the columns differ in length, a query lacks positives or negatives, or fewer than one are shown.

    Source: the records of CoDiEmb (Zhang et al. 2025), drawn from as its training code draws.

    >>> rows = RankedRows(["q"], [["p"]], [["n1", "n2"]], shown=(2, 1))
    >>> list(rows.columns()), rows.columns()["positive_2"]
    (['query', 'positive_1', 'positive_2', 'negative_1'], ['p'])
    """

    query: Sequence[str]
    positives: Sequence[Sequence[str]]
    negatives: Sequence[Sequence[str]]
    shown: tuple[int, int] = (1, 1)
    seed: int = 0
    skip: int = 0
    nearest: bool = False
    name: str = "ranked"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.query) == len(self.positives) == len(self.negatives):
            sizes = ", ".join(str(len(column)) for column in (self.query, self.positives, self.negatives))
            raise InputError(f"columns of {sizes} rows", where=self.name)
        if not all(map(len, self.positives)) or not all(len(pool) > self.skip for pool in self.negatives):
            raise InputError("a query without positives or without negatives", where=self.name)
        if min(self.shown) < 1:
            raise InputError(f"a row shows at least one of each, got {self.shown}", where=self.name)

    def __len__(self) -> int:
        return len(self.query)

    def columns(self) -> dict[str, list[str]]:
        """The texts as the trainer reads them: `query`, `positive_1` …, `negative_1` …."""
        positives, negatives = self.shown
        names = [f"positive_{i + 1}" for i in range(positives)] + [f"negative_{i + 1}" for i in range(negatives)]
        drawn = [self._draw(row) for row in range(len(self))]
        return {"query": list(self.query)} | {name: [row[i] for row in drawn] for i, name in enumerate(names)}

    def select(self, indices: npt.ArrayLike) -> RankedRows:
        """The rows at these positions, in this order."""
        index = np.asarray(indices, dtype=np.int64).tolist()
        parts = ([column[i] for i in index] for column in (self.positives, self.negatives))
        positives, negatives = parts
        return replace(self, query=[self.query[i] for i in index], positives=positives, negatives=negatives)

    def with_notes(self, *notes: str) -> RankedRows:
        """The same rows with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over all texts, in order, and what is drawn of them."""
        lists = [*self.positives, *self.negatives]
        numbers = np.array([*map(len, lists), *self.shown, self.seed, self.skip, self.nearest], dtype=np.float64)
        return fingerprint(self.query, (text for texts in lists for text in texts), numbers)

    def texts(self) -> list[str]:
        """Distinct texts that are shown, first seen first."""
        return list(dict.fromkeys(text for row in zip(*self.columns().values(), strict=True) for text in row))

    def _draw(self, row: int) -> list[str]:
        chance = np.random.default_rng([self.seed, zlib.crc32(self.query[row].encode())])
        drawn: list[str] = []
        negatives = self.negatives[row][self.skip :]
        if self.nearest:
            negatives = negatives[: self.shown[1]]
        for texts, count in zip((self.positives[row], negatives), self.shown, strict=True):
            repeated = list(texts) * -(-count // len(texts))
            drawn += [repeated[i] for i in chance.choice(len(repeated), count, replace=False)]
        return drawn


def ranked_negatives(
    retrieval_set: RetrievalSet,
    *,
    pool: int,
    shown: tuple[int, int] = (1, 1),
    embeddings: tuple[Embeddings, Embeddings] | None = None,
    seed: int = 0,
    elements: int = BLOCK_ELEMENTS,
) -> RankedRows:
    """Training rows of a retrieval set: each query, its positives, and the documents nearest to it that are none.

    No negative has the text of a positive or of the query, after folding case and blanks, and none is empty.

    Args:
        retrieval_set: The set, read from its training split.
        pool: Negatives kept for each query.
        shown: How many positives and how many negatives a row shows.
        embeddings: Rows of the queries (q, dim) and of the documents (n, dim), in the set's order, of any length; the
            nearest by cosine come first. None ranks lexically, by the cosine of TF-IDF vectors.
        seed: Seed of the draws.
        elements: Scores held at once, at least n.

    Raises:
        InputError: more negatives than a query can have, or embeddings of another shape.
    """
    if pool < 1:
        raise InputError(f"a pool of {pool} negatives", where="pool", remedy="ask for at least 1")
    queries, documents = _lexical(retrieval_set) if embeddings is None else _checked(retrieval_set, *embeddings)
    ids, texts = list(retrieval_set.queries), list(retrieval_set.corpus.values())
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(fold(text), []).append(place)
    rows: list[tuple[str, list[str], list[str]]] = []
    for start, block in score_blocks(queries, documents, elements=elements):
        for offset, scores in enumerate(block):
            query = ids[start + offset]
            text = retrieval_set.queries[query]
            positives = _positives(retrieval_set.corpus, retrieval_set.relevant[query])
            if positives:
                barred = [p for key in {"", fold(text), *map(fold, positives)} for p in places.get(key, ())]
                if pool > len(texts) - len(barred):
                    what = f"{len(texts) - len(barred):,} documents can be negatives of query {query!r}, not {pool:,}"
                    raise InputError(what, where=retrieval_set.name, remedy="ask for a smaller pool")
                scores[barred] = -np.inf
                rows.append((text, positives, [texts[place] for place in best(scores, pool)]))
    if not rows:
        raise InputError("all positives are empty texts", where=retrieval_set.name)
    left_out = len(ids) - len(rows)
    note = f"{left_out:,} queries left out because all their positives are empty texts"
    query_texts, positive, negative = (list(column) for column in zip(*rows, strict=True))
    notes = (*retrieval_set.notes, *([note] if left_out else []))
    return RankedRows(query_texts, positive, negative, shown, seed, name=retrieval_set.name, notes=notes)


def _positives(corpus: Mapping[str, str], relevant: Mapping[str, float]) -> list[str]:
    """Texts of the relevant documents, each once and none empty, the highest grade first."""
    found: dict[str, str] = {}
    for document in sorted(relevant, key=lambda document: -relevant[document]):
        if corpus[document]:
            found.setdefault(fold(corpus[document]), corpus[document])
    return list(found.values())


def _lexical(retrieval_set: RetrievalSet) -> tuple[Rows, Rows]:
    terms = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", dtype=np.float32).fit(retrieval_set.corpus.values())
    return terms.transform(retrieval_set.queries.values()), terms.transform(retrieval_set.corpus.values())


def _checked(retrieval_set: RetrievalSet, queries: Embeddings, documents: Embeddings) -> tuple[Rows, Rows]:
    expected = (len(retrieval_set.queries), len(retrieval_set.corpus))
    if queries.ndim != 2 or documents.ndim != 2 or (len(queries), len(documents)) != expected:
        what = f"embeddings of shapes {queries.shape} and {documents.shape}"
        raise InputError(what, where=retrieval_set.name, remedy=f"give {expected[0]} and {expected[1]} rows")
    if queries.shape[1] != documents.shape[1]:
        raise InputError(f"widths {queries.shape[1]} and {documents.shape[1]} differ", where=retrieval_set.name)
    return unit_rows(queries), unit_rows(documents)
