"""The protocol: how the numbers of a benchmark, or of a file of graded pairs, are computed."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.readers import read_pairs
from gradate.engine.precision import PrecisionName
from gradate.errors import InputError
from gradate.evaluation.grading import GradedScores
from gradate.evaluation.results import Aggregation, Average, Evaluation, TaskResult
from gradate.models.backends import encoder_precision
from gradate.models.graded import GradedModel, PairScores
from gradate.scale import LabelScale


def evaluate(
    model: GradedModel | str | Path,
    benchmark: str | Benchmark = "seven-sts",
    *,
    data: DataLocations | Sequence[str] | None = None,
    pairs: Pairs | str | Path | None = None,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    aggregation: Aggregation = "all",
    average: Average = "exact",
    precision: PrecisionName | str | None = None,
    batch_size: int | None = None,
    show_progress: bool = False,
) -> Evaluation:
    """Measure a model on a benchmark, or on your own graded pairs instead.

    The similarity is the cosine; every distinct text of all tasks is encoded once.

    Args:
        model: A graded model, or what `GradedModel.from_pretrained` opens.
        benchmark: `seven-sts`, or a benchmark object; not used when `pairs` are given.
        data: Where the benchmark's data lies, as in `DataLocations.resolve`; None asks `GRADATE_DATA`, then the Hub.
        pairs: Graded pairs, or a file of them, which becomes one task named by its stem. With a head, its grades are
            measured too.
        scale: Scale of a file's grades; by default the model's, and without one it is inferred.
        columns: Columns of a file; see `read_pairs`.
        aggregation: How the subsets of a task become one number; see `TaskResult`.
        average: How the tasks become one number; see `Evaluation`.
        precision: `auto`, `fp32`, `tf32` or `bf16`; None keeps the model's own.
        batch_size: Texts per forward pass at most; None: as many as a token budget holds.
        show_progress: Show a progress bar on stderr.

    Raises:
        InputError: an unknown benchmark, aggregation or average, or data that is missing or wrong.

    Source: the STS protocol of SentEval (Conneau & Kiela, 2018) with the aggregation "all" of Reimers & Gurevych
    (2019) and Gao et al. (2021).
    """
    if aggregation not in get_args(Aggregation):
        raise InputError(f"unknown aggregation {aggregation!r}", where="aggregation", remedy="all, mean or wmean")
    if average not in get_args(Average):
        raise InputError(f"unknown average {average!r}", where="average", remedy="exact or senteval")
    if isinstance(benchmark, str) and benchmark != "seven-sts":
        raise InputError(f"unknown benchmark {benchmark!r}", where="benchmark", remedy="the only one is seven-sts")
    graded = open_model(model, precision)
    options = _Options(aggregation, average, batch_size, show_progress)
    if pairs is not None:
        own = pairs if isinstance(pairs, Pairs) else read_pairs(pairs, scale=scale or graded.scale, columns=columns)
        return _evaluate_pairs(graded, own, options)
    if isinstance(benchmark, str):
        benchmark = load_seven_sts(data if isinstance(data, DataLocations) else DataLocations.resolve(data))
    return _evaluate_benchmark(graded, benchmark, options)


def open_model(model: GradedModel | str | Path, precision: PrecisionName | str | None) -> GradedModel:
    """The model opened where it is a name, with another precision where one is asked for."""
    if isinstance(model, (str, Path)):
        return GradedModel.from_pretrained(model, precision=precision or "auto")
    if precision is None:
        return model
    view = copy.copy(model)  # the caller's model keeps its own precision
    view.precision = encoder_precision(precision, model.encoder)
    return view


@dataclass(frozen=True)
class _Options:
    aggregation: Aggregation
    average: Average
    batch_size: int | None
    show_progress: bool


@dataclass(frozen=True)
class _Texts:
    text1: Sequence[str]
    text2: Sequence[str]


def _evaluate_benchmark(model: GradedModel, benchmark: Benchmark, options: _Options) -> Evaluation:
    subsets = [subset for task in benchmark.tasks.values() for subset in task.subsets]
    texts = _Texts([text for s in subsets for text in s.text1], [text for s in subsets for text in s.text2])
    start = time.perf_counter()
    scores = model.score(texts, batch_size=options.batch_size, show_progress=options.show_progress)
    tasks: dict[str, TaskResult] = {}
    notes = [f"texts in their {benchmark.form} form; values compare only within one form"]
    first = 0
    for name, task in benchmark.tasks.items():
        gold = np.concatenate([np.asarray(subset.gold, dtype=np.float64) for subset in task.subsets])
        cosine = scores.similarity[first : first + len(gold)]
        first += len(gold)
        sizes = tuple((subset.name, len(subset.gold)) for subset in task.subsets)
        skipped = sum(subset.skipped for subset in task.subsets)
        if skipped:
            notes.append(f"{name}: {skipped:,} rows without a score were skipped, as the official protocol asks")
        tasks[name] = TaskResult(name, gold, cosine, sizes, options.aggregation, skipped)
    seconds = time.perf_counter() - start
    return _evaluation(model, benchmark.name, benchmark.fingerprint(), tasks, texts, scores, options, seconds, notes)


def _evaluate_pairs(model: GradedModel, pairs: Pairs, options: _Options) -> Evaluation:
    texts = _Texts(pairs.text1, pairs.text2)
    start = time.perf_counter()
    scores = model.score(texts, batch_size=options.batch_size, show_progress=options.show_progress)
    seconds = time.perf_counter() - start
    notes = list(pairs.notes)
    if pairs.weights is not None:
        notes.append("the weights of the pairs are for training; every pair counts once here")
    comparable = True
    if scores.prediction is not None:
        scale = model.scale
        comparable = scale is not None and (scale.low, scale.high) == (pairs.scale.low, pairs.scale.high)
        if scale is None:
            notes.append("the model's head has no scale: mae, accuracy, qwk and confusion are not measured")
        elif not comparable:
            notes.append(
                f"the model predicts on {scale}, the grades are on {pairs.scale}: mae, accuracy, qwk and confusion are"
                " not measured (declare the model's scale for this file if it is the same)"
            )
        elif pairs.scale.is_continuous:
            notes.append(f"the scale {pairs.scale} is continuous: no accuracy, qwk or confusion")
    graded = GradedScores(pairs.grades, scores.similarity, pairs.scale, scores.prediction, comparable=comparable)
    sizes = ((pairs.name, len(pairs)),)
    task = TaskResult(pairs.name, pairs.grades, scores.similarity, sizes, options.aggregation, graded=graded)
    return _evaluation(model, "pairs", pairs.fingerprint(), {pairs.name: task}, texts, scores, options, seconds, notes)


def _evaluation(
    model: GradedModel,
    benchmark: str,
    fingerprint: str,
    tasks: dict[str, TaskResult],
    texts: _Texts,
    scores: PairScores,
    options: _Options,
    seconds: float,
    notes: list[str],
) -> Evaluation:
    if scores.truncated:
        limit = model.encoder.max_seq_length
        notes.append(f"{scores.truncated:,} distinct texts are longer than the {limit} tokens the encoder reads")
    if scores.undefined:
        notes.append(f"{scores.undefined:,} pairs hold a text with the zero vector; their cosine counts as 0")
    notes += [f"{name}: no correlation, {task.reason}" for name, task in tasks.items() if task.reason is not None]
    return Evaluation(
        benchmark=benchmark,
        aggregation=options.aggregation,
        precision=model.precision.name,
        precision_reason=model.precision.reason,
        data_fingerprint=fingerprint,
        tasks=tasks,
        average_rule=options.average,
        texts=len(texts.text1) + len(texts.text2),
        unique_texts=len({*texts.text1, *texts.text2}),
        undefined_cosines=scores.undefined,
        seconds=seconds,
        notes=tuple(notes),
    )
