"""Retrieval measured: every document ranked for every query by cosine, and nDCG@10 of the rankings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradate.data.locations import RETRIEVAL_PREFIX, RETRIEVAL_SETS, DataLocations
from gradate.data.retrieval import RetrievalSet, load_retrieval
from gradate.engine.encoding import Encoded, count_truncated, encode_distinct
from gradate.engine.precision import PrecisionName
from gradate.engine.search import best, score_blocks, unit_rows
from gradate.errors import InputError
from gradate.evaluation.metrics import Array, mean_statistic
from gradate.evaluation.protocol import open_model
from gradate.evaluation.ranking import ndcg, recall, reciprocal_rank
from gradate.evaluation.significance import Interval, bootstrap_interval, paired_difference
from gradate.models.graded import GradedModel

BENCHMARK = "retrieval"
"""The published sets together."""
RANKED = 100
"""Documents kept for each query: what recall@100 reads."""
# Names under which models keep the prompt of either side, as sentence-transformers looks for them.
_QUERY_PROMPTS, _DOCUMENT_PROMPTS = ("query",), ("document", "passage", "corpus")


@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """What was measured on one set; all values × 100, one per query, in the set's order.

    Args:
        name: Name of the set.
        queries: Ids of the queries.
        documents: Number of documents ranked.
        ndcg: nDCG@10 of each query, shape (q,).
        recall: Recall@100.
        reciprocal_rank: Reciprocal rank within the first 10.
    """

    name: str
    queries: tuple[str, ...]
    documents: int
    ndcg: Array
    recall: Array
    reciprocal_rank: Array

    def interval(self) -> Interval:
        """Mean nDCG@10 with its 95 % bootstrap interval over queries."""
        return bootstrap_interval(mean_statistic, np.zeros(len(self.ndcg)), self.ndcg)

    def minus(self, other: RetrievalResult) -> Interval:
        """Difference self − other of the mean nDCG@10, by paired bootstrap over queries.

        Raises:
            InputError: they were measured on other queries.
        """
        if (self.name, self.queries) != (other.name, other.queries):
            raise InputError(f"{self.name} and {other.name} were measured on different queries")
        return paired_difference(mean_statistic, np.zeros(len(self.ndcg)), other.ndcg, self.ndcg)

    def to_json(self) -> dict[str, Any]:
        """The set's entry in the results."""
        found = self.interval()
        return {
            "ndcg@10": found.value,
            "recall@100": float(self.recall.mean()),
            "mrr@10": float(self.reciprocal_rank.mean()),
            "queries": len(self.queries),
            "documents": self.documents,
            "intervals": {"ndcg@10": {"low": found.low, "high": found.high}},
        }


@dataclass(frozen=True, eq=False)
class RetrievalEvaluation:
    """What `evaluate_retrieval` found.

    Args:
        benchmark: What was asked for.
        split: Split of the sets.
        precision: `fp32`, `tf32` or `bf16`, as used.
        precision_reason: Why that one.
        fingerprints: Fingerprint of each set.
        tasks: Result of each set by its name.
        seconds: Wall-clock time of encoding and ranking, without opening model and data.
        notes: What a reader must know, one human line each.
    """

    benchmark: str
    split: str
    precision: str
    precision_reason: str
    fingerprints: dict[str, str]
    tasks: dict[str, RetrievalResult]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def average(self) -> float:
        """Plain average over the sets of the mean nDCG@10."""
        return float(np.mean([task.ndcg.mean() for task in self.tasks.values()]))

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON, values × 100 and unrounded."""
        return {
            "benchmark": self.benchmark,
            "split": self.split,
            "precision": self.precision,
            "precision_reason": self.precision_reason,
            "data_fingerprint": self.fingerprints,
            "tasks": {name: task.to_json() for name, task in self.tasks.items()},
            "average": self.average,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


def evaluate_retrieval(
    model: GradedModel | str | Path,
    benchmark: str | RetrievalSet = BENCHMARK,
    *,
    data: DataLocations | Sequence[str] | None = None,
    split: str = "test",
    precision: PrecisionName | str | None = None,
    batch_size: int | None = None,
    show_progress: bool = False,
) -> RetrievalEvaluation:
    """Measure how well a model finds the relevant documents of retrieval sets.

    Every document is ranked for every query by the cosine of their embeddings; equal cosines are ordered by rising
    id, as sentence-transformers orders them. The model's prompts for queries and documents are used where it has some.
    A document with a query's id is ranked like any other (BEIR leaves it out, which is right for sets whose queries
    are documents).

    Args:
        model: A graded model, or what `GradedModel.from_pretrained` opens.
        benchmark: `retrieval` for SciFact and Cranfield, the name of a set that `data` holds, or a set itself.
        data: Where the sets lie, as in `DataLocations.resolve`; None asks `GRADATE_DATA`.
        split: Which judgements count.
        precision: `auto`, `fp32`, `tf32` or `bf16`; None keeps the model's own.
        batch_size: Texts per forward pass at most; None: as many as a token budget holds.
        show_progress: Show a progress bar on stderr.

    Raises:
        InputError: no data of a set was given, or it cannot be used.
    """
    sets = [benchmark] if isinstance(benchmark, RetrievalSet) else _load(benchmark, data, split)
    graded = open_model(model, precision)
    start = time.perf_counter()
    tasks = {found.name: _measure(graded, found, batch_size, show_progress) for found in sets}
    seconds = time.perf_counter() - start
    notes: list[str] = []
    for found in sets:
        notes += [f"{found.name}: {note}" for note in found.notes]
        truncated = count_truncated(graded.encoder, list(found.corpus.values()))
        if truncated:
            limit = graded.encoder.max_seq_length
            notes.append(
                f"{found.name}: {truncated:,} distinct documents are longer than the {limit} tokens the encoder reads"
            )
    return RetrievalEvaluation(
        benchmark if isinstance(benchmark, str) else benchmark.name,
        sets[0].split,
        graded.precision.name,
        graded.precision.reason,
        {found.name: found.fingerprint() for found in sets},
        tasks,
        seconds,
        tuple(notes),
    )


def _load(benchmark: str, data: DataLocations | Sequence[str] | None, split: str) -> list[RetrievalSet]:
    locations = data if isinstance(data, DataLocations) else DataLocations.resolve(data)
    names = RETRIEVAL_SETS if benchmark == BENCHMARK else (benchmark.removeprefix(RETRIEVAL_PREFIX),)
    if not {*names} <= {*RETRIEVAL_SETS} | {name.removeprefix(RETRIEVAL_PREFIX) for name in locations.named}:
        remedy = f"seven-sts, {BENCHMARK}, {', '.join(RETRIEVAL_SETS)}, or a set given as --data beir/NAME=FOLDER"
        raise InputError(f"unknown benchmark {benchmark!r}", where="benchmark", remedy=remedy)
    return [load_retrieval(name, locations, split) for name in names]


def _measure(
    model: GradedModel, retrieval_set: RetrievalSet, batch_size: int | None, show_progress: bool
) -> RetrievalResult:
    def encode(texts: Sequence[str], prompts: Sequence[str]) -> Encoded:
        prompt_name = next((name for name in prompts if name in model.encoder.prompts), None)
        return encode_distinct(
            model.encoder,
            texts,
            precision=model.precision,
            batch_size=batch_size,
            prompt_name=prompt_name,
            show_progress=show_progress,
        )

    documents = sorted(retrieval_set.corpus)
    corpus = encode([retrieval_set.corpus[document] for document in documents], _DOCUMENT_PROMPTS)
    queries = encode(list(retrieval_set.queries.values()), _QUERY_PROMPTS)
    ids = tuple(retrieval_set.queries)
    values: list[tuple[float, float, float]] = []
    # Scored are distinct texts, so that documents of one text get one score to the last bit.
    for start, block in score_blocks(unit_rows(queries.embeddings[queries.index]), unit_rows(corpus.embeddings)):
        for offset, scores in enumerate(block):
            relevant = retrieval_set.relevant[ids[start + offset]]
            ranked = best(scores[corpus.index], RANKED)
            grades = [relevant.get(documents[place], 0.0) for place in ranked]
            judged = list(relevant.values())
            values.append((ndcg(grades, judged), recall(grades, judged, RANKED), reciprocal_rank(grades)))
    return RetrievalResult(retrieval_set.name, ids, len(documents), *np.array(values).T)
