"""What a run measures before and after, and how the two compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.evaluation.grading import GradedScores
from gradate.evaluation.protocol import evaluate
from gradate.evaluation.results import Evaluation
from gradate.evaluation.retrieval import RetrievalResult, evaluate_retrieval
from gradate.models.graded import GradedModel
from gradate.runs.comparison import (
    BenchmarkComparison,
    Comparison,
    RetrievalComparison,
    baseline_scores,
    compare,
    compare_benchmark,
    model_scores,
)
from gradate.runs.resolve import Resolved


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one model came to."""

    pairs: Evaluation | GradedScores | None = None
    """On the seven sets or on the test pairs; None where there are none."""
    retrieval: Mapping[str, RetrievalResult] | None = None
    """On retrieval sets, by name; None where none are asked for."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Before against after."""

    pairs: Comparison | BenchmarkComparison | None = None
    """On the test pairs or the seven sets."""
    retrieval: RetrievalComparison | None = None
    """On retrieval sets."""

    def to_json(self) -> dict[str, Any]:
        """`before`, `after` and `difference` of the pairs, and, where they are measured, of retrieval sets."""
        pairs = {"before": None, "after": None, "difference": None} if self.pairs is None else self.pairs.to_json()
        return pairs if self.retrieval is None else {**pairs, "retrieval": self.retrieval.to_json()}


def take_measurement(resolved: Resolved, model: GradedModel, locations: DataLocations) -> Measurement:
    """Measure a model as a recipe asks for it.

    Args:
        resolved: Recipe and data.
        model: The model.
        locations: Where benchmarks lie.
    """
    wanted, precision = resolved.recipe.evaluation, resolved.recipe.precision
    if wanted.source == "none":
        return Measurement()
    pairs: Evaluation | GradedScores | None = None
    train, test = resolved.stages[-1], resolved.test
    if wanted.source == "seven-sts":
        pairs = evaluate(
            model, benchmark="seven-sts", data=locations, aggregation=wanted.aggregation, precision=precision
        )
    elif test is not None and isinstance(train, Pairs):
        pairs = model_scores(model, test, train)
    found = [evaluate_retrieval(model, name, data=locations) for name in wanted.retrieval]
    return Measurement(pairs, {name: result for each in found for name, result in each.tasks.items()} or None)


def compare_measurements(resolved: Resolved, before: Measurement, after: Measurement) -> Measured:
    """Compare the model before with the one after.

    Args:
        resolved: Recipe and data.
        before: The untrained model's measurement.
        after: The trained model's.
    """
    resamples, train = resolved.recipe.evaluation.intervals, resolved.stages[-1]
    pairs: Comparison | BenchmarkComparison | None = None
    if isinstance(before.pairs, Evaluation) and isinstance(after.pairs, Evaluation):
        pairs = compare_benchmark(before.pairs, after.pairs, resamples=resamples)
    elif isinstance(before.pairs, GradedScores) and isinstance(after.pairs, GradedScores):
        assert resolved.test is not None and isinstance(train, Pairs)
        pairs = compare(before.pairs, after.pairs, baseline_scores(resolved.test, train), resamples=resamples)
    retrieval = None
    if before.retrieval is not None and after.retrieval is not None:
        retrieval = RetrievalComparison(before.retrieval, after.retrieval)
    return Measured(pairs, retrieval)
