"""Retrieval sets in BEIR's form: documents, queries, and how relevant which document is to which query."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradate.data.leakage import fold
from gradate.data.locations import RETRIEVAL_LAYOUT, RETRIEVAL_PREFIX, DataLocations
from gradate.data.tables import Table, read_table, show, text_problem
from gradate.errors import InputError

# Documents, judged queries and judgements of the published sets. Cranfield has no other split.
PUBLISHED: Mapping[tuple[str, str], tuple[int, int, int]] = MappingProxyType(
    {
        ("scifact", "train"): (5_183, 809, 919),
        ("scifact", "test"): (5_183, 300, 339),
        ("cranfield", "test"): (1_400, 225, 1_837),
    }
)
_REMEDY = f"a retrieval set is a folder that holds {RETRIEVAL_LAYOUT}"
_QRELS = ("query-id", "corpus-id", "score")


@dataclass(frozen=True, eq=False)
class RetrievalSet:
    """Documents, the queries of one split, and the documents relevant to each.

    Args:
        name: Name of the set.
        split: `train`, `dev` or `test`.
        corpus: Id → title and text of each document, in file order; an empty one has the text "".
        queries: Id → text of each query with a relevant document, in file order.
        relevant: Query id → id → grade, above 0, of its relevant documents.
        notes: What reading decided, one human line each.

    >>> found = RetrievalSet("s", "test", {"1": "A cat", "2": "a  cat", "3": "dog"}, {"q": "cats"}, {"q": {"1": 1.0}})
    >>> len(found), found.duplicates
    (1, (('1', '2'),))
    """

    name: str
    split: str
    corpus: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def duplicates(self) -> tuple[tuple[str, ...], ...]:
        """Ids of documents that have one text after folding case and blanks, first seen first."""
        groups: dict[str, list[str]] = {}
        for document, text in self.corpus.items():
            groups.setdefault(fold(text), []).append(document)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)

    def fingerprint(self) -> str:
        """First 16 hex digits of the sha256 over documents, queries and grades."""
        digest = hashlib.sha256()
        for part in (self.corpus, self.queries):
            for entry in part.items():
                digest.update(f"{entry!r}\n".encode())
        for query, grades in self.relevant.items():
            digest.update(f"{query!r} {sorted(grades.items())!r}\n".encode())
        return digest.hexdigest()[:16]


def load_retrieval(name: str, locations: DataLocations, split: str = "test") -> RetrievalSet:
    """Read a retrieval set by its name; warns where a published one has other counts than it should.

    Raises:
        InputError: no folder was given for it, or the folder cannot be used.
    """
    folder = locations.named.get(f"{RETRIEVAL_PREFIX}{name}")
    if folder is None:
        given = ", ".join(n.removeprefix(RETRIEVAL_PREFIX) for n in locations.named if n.startswith(RETRIEVAL_PREFIX))
        raise InputError(
            f"no data of a retrieval set called {name!r} was given",
            where="--data",
            remedy=f"given are {given}" if given else f"pass its folder: --data beir/{name}=FOLDER",
        )
    found = read_retrieval(folder, split, name=name)
    counts = (len(found.corpus), len(found), sum(map(len, found.relevant.values())))
    published = PUBLISHED.get((name, split), counts)
    if counts != published:
        warnings.warn(
            f"{folder}: {_counts(counts)}; the published set has {_counts(published)}: values may not compare",
            stacklevel=2,
        )
    return found


def read_retrieval(folder: str | Path, split: str = "test", *, name: str | None = None) -> RetrievalSet:
    """Read a folder in BEIR's form: `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`.

    Title and text are joined by a blank, as BEIR joins them. A grade of 0 says "not relevant".

    Args:
        folder: The folder.
        split: Which judgements to read.
        name: What to call the set; None: as the folder is called.

    Raises:
        InputError: a file is missing or has a broken row, an id stands twice, or a judgement names an id that is not
            there.

    Source: Thakur et al. (2021), "BEIR".
    """
    folder = Path(folder)
    corpus = _read_texts(folder / "corpus.jsonl", titled=True)
    queries = _read_texts(folder / "queries.jsonl", titled=False)
    grades, notes = _read_judgements(_judgement_file(folder, split), corpus, queries)
    relevant = {query: {d: g for d, g in grades[query].items() if g > 0} for query in queries if query in grades}
    relevant = {query: documents for query, documents in relevant.items() if documents}
    if not relevant:
        raise InputError("no query has a relevant document", where=folder / "qrels" / f"{split}.tsv")
    asked = {query: queries[query] for query in relevant}
    found = RetrievalSet(name or folder.resolve().name, split, corpus, asked, relevant)
    counts = {
        "judged queries without a relevant document, left out": len(grades) - len(asked),
        "empty documents, which stay in the corpus": sum(not text for text in corpus.values()),
        "documents that repeat the text of another": sum(len(group) - 1 for group in found.duplicates),
    }
    judged = f"{len(grades):,} of {len(queries):,} queries are judged in {split}"
    return replace(found, notes=(judged, *notes, *_counted(counts)))


def _read_texts(path: Path, *, titled: bool) -> dict[str, str]:
    table = _read(path)
    columns = [_column(table, name) for name in ("_id", "text")]
    titles = _column(table, "title") if titled and "title" in table.header else [None] * len(table.rows)
    found: dict[str, str] = {}
    for row, identity, text, title in zip(table.rows, *columns, titles, strict=True):
        for name, cell in (("_id", identity), ("text", text), ("title", title)):
            problem = text_problem(cell, name)
            may_be_empty = name == "title" or (titled and name == "text")
            if problem is not None and not (may_be_empty and problem[0] == "empty"):
                raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
        if identity in found:
            raise InputError(f"the id {show(identity)} stands twice", where=f"{path}:{row}", remedy="remove the row")
        found[identity] = f"{title or ''} {text or ''}".strip()
    return found


def _judgement_file(folder: Path, split: str) -> Path:
    path = folder / "qrels" / f"{split}.tsv"
    if not path.is_file():
        splits = sorted(file.stem for file in path.parent.glob("*.tsv"))
        there = f"the splits there are {', '.join(splits)}" if splits else _REMEDY
        raise InputError("no such file", where=path, remedy=there)
    return path


def _read_judgements(
    path: Path, corpus: Mapping[str, str], queries: Mapping[str, str]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Grades by query and document, and notes on those that count for nothing."""
    table = _read(path)
    columns = [_column(table, name) for name in _QRELS]
    unknown: list[tuple[int, str]] = []
    found: dict[str, dict[str, float]] = {}
    repeated = 0
    for row, query, document, cell in zip(table.rows, *columns, strict=True):
        grade = _grade(cell, f"{path}:{row}")
        if query not in queries:
            unknown.append((row, f"the query {show(query)} is not in queries.jsonl"))
        elif document not in corpus:
            unknown.append((row, f"the document {show(document)} is not in corpus.jsonl"))
        known = found.setdefault(query, {})
        repeated += document in known
        if known.setdefault(document, grade) != grade:
            what = f"query {show(query)} and document {show(document)} have another grade further up"
            raise InputError(what, where=f"{path}:{row}", remedy="keep one of the two rows")
    if unknown:
        row, what = unknown[0]
        more = f"; {len(unknown) - 1:,} more rows name such ids" if len(unknown) > 1 else ""
        raise InputError(f"{what}{more}", where=f"{path}:{row}", remedy="remove the rows, or fetch the set again")
    counts = {
        "repeated judgements, left out": repeated,
        "judgements that say not relevant": sum(grade == 0 for grades in found.values() for grade in grades.values()),
    }
    return found, _counted(counts)


def _read(path: Path) -> Table:
    if not path.is_file():
        raise InputError("no such file", where=path, remedy=_REMEDY)
    table = read_table(path)
    if table.problems:
        first = table.problems[0]
        raise InputError(first.detail, where=f"{path}:{first.row}", remedy=first.remedy)
    if not table.rows:
        raise InputError("there is a header but no row", where=path)
    return table


def _column(table: Table, name: str) -> list[Any]:
    if name not in table.header:
        raise InputError(f"no column {name!r} among {', '.join(table.header)}", where=table.path, remedy=_REMEDY)
    return table.column(table.header.index(name))


def _grade(cell: str, where: str) -> float:
    try:
        grade = float(cell)
    except ValueError:
        grade = math.nan
    if not 0 <= grade < math.inf:
        raise InputError(f"the score {show(cell)} is no grade from 0 up", where=where, remedy="fix or remove the row")
    return grade


def _counted(counts: Mapping[str, int]) -> list[str]:
    return [f"{what}: {count:,}" for what, count in counts.items() if count]


def _counts(counts: tuple[int, int, int]) -> str:
    documents, queries, judgements = counts
    return f"{documents:,} documents, {queries:,} queries, {judgements:,} judgements"
