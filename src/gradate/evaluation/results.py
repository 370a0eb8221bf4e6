"""What an evaluation found: scores by task, the numbers that follow from them, and their JSON form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gradate.evaluation.grading import GradedScores, Metric, intervals, measure
from gradate.evaluation.metrics import Array, confusion, pearson, spearman, undefined_reason

Aggregation: TypeAlias = Literal["all", "mean", "wmean"]
Average: TypeAlias = Literal["exact", "senteval"]

_COSINE_NAMES: dict[Metric, str] = {"spearman_cosine": "spearman", "pearson_cosine": "pearson"}


@dataclass(frozen=True)
class TaskResult:
    """Scores of one task's pairs, in official row order, and what follows from them.

    Args:
        name: Name of the task.
        gold: Grades, shape (n,).
        cosine: Similarities, shape (n,); 0 where a text has the zero vector.
        subsets: Name and size of each consecutive subset.
        aggregation: How subsets become one number: `all` correlates all pairs at once, `mean` and `wmean` average
            the subsets' correlations plainly or by size.
        skipped: Unscored rows left out.
        graded: The same scores with the head's beside them, for a file of graded pairs; None for a benchmark.
    """

    name: str
    gold: Array
    cosine: Array
    subsets: tuple[tuple[str, int], ...]
    aggregation: Aggregation
    skipped: int = 0
    graded: GradedScores | None = None

    @property
    def spearman(self) -> float | None:
        """Spearman correlation × 100 of the cosine; None where undefined."""
        return self._aggregate(spearman)

    @property
    def pearson(self) -> float | None:
        """Pearson correlation × 100 of the cosine; None where undefined."""
        return self._aggregate(pearson)

    @property
    def reason(self) -> str | None:
        """Why the correlations are undefined; None where they are not."""
        for name, gold, cosine in self._parts():
            why = undefined_reason(gold, cosine)
            if why is not None:
                return why if name is None else f"subset {name}: {why}"
        return None

    def to_json(self) -> dict[str, Any]:
        """The task's entry in the results."""
        entry: dict[str, Any] = {
            "spearman": self.spearman,
            "pearson": self.pearson,
            "n": len(self.gold),
            "skipped": self.skipped,
        }
        if self.reason is not None:
            entry["reason"] = self.reason
        if self.graded is not None:
            entry |= _graded_entry(self.graded)
        return entry

    def _parts(self) -> list[tuple[str | None, Array, Array]]:
        if self.aggregation == "all":
            return [(None, self.gold, self.cosine)]
        ends = np.cumsum([size for _, size in self.subsets])
        names = [name for name, _ in self.subsets]
        golds, cosines = np.split(self.gold, ends[:-1]), np.split(self.cosine, ends[:-1])
        return list(zip(names, golds, cosines, strict=True))

    def _aggregate(self, correlation: Callable[[Array, Array], float | None]) -> float | None:
        values = [correlation(gold, cosine) for _, gold, cosine in self._parts()]
        defined = [value for value in values if value is not None]
        if len(defined) < len(values):
            return None
        weights = [size for _, size in self.subsets] if self.aggregation == "wmean" else None
        return float(np.average(defined, weights=weights))


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Args:
        benchmark: Name of the benchmark, or `pairs`.
        aggregation: See `TaskResult`.
        precision: `fp32` or `bf16`, as used.
        precision_reason: Why that one.
        data_fingerprint: Fingerprint of texts and grades.
        tasks: Results by task name, in official order.
        average_rule: `exact` averages the unrounded task values; `senteval` rounds each to two decimals first, as
            SentEval's printed tables do.
        texts: Texts read.
        unique_texts: Distinct texts among them, each encoded once.
        undefined_cosines: Pairs in which a text has the zero vector; their cosine counts as 0.
        seconds: Wall-clock time of encoding and scoring, without opening model and data.
        notes: What a reader must know: skipped rows, zero vectors, undefined values.
    """

    benchmark: str
    aggregation: Aggregation
    precision: str
    precision_reason: str
    data_fingerprint: str
    tasks: dict[str, TaskResult]
    average_rule: Average
    texts: int
    unique_texts: int
    undefined_cosines: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def scores(self) -> dict[str, Array]:
        """Cosines by task, in official row order."""
        return {name: task.cosine for name, task in self.tasks.items()}

    @property
    def average(self) -> float | None:
        """Average Spearman of the tasks; None if one of them is undefined."""
        values = [task.spearman for task in self.tasks.values()]
        defined = [value for value in values if value is not None]
        if len(defined) < len(values) or not values:
            return None
        if self.average_rule == "senteval":
            defined = [round(value, 2) for value in defined]
        return float(np.mean(defined))

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON, correlations × 100 and unrounded, undefined values null with a reason."""
        return {
            "benchmark": self.benchmark,
            "aggregation": self.aggregation,
            "precision": self.precision,
            "precision_reason": self.precision_reason,
            "data_fingerprint": self.data_fingerprint,
            "tasks": {name: task.to_json() for name, task in self.tasks.items()},
            "average": self.average,
            "average_rule": self.average_rule,
            "texts": self.texts,
            "unique_texts": self.unique_texts,
            "undefined_cosines": self.undefined_cosines,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


def _graded_entry(scores: GradedScores) -> dict[str, Any]:
    """The head's metrics, and the intervals of all metrics, under the names a task uses."""
    entry: dict[str, Any] = {}
    if scores.prediction is not None:
        values = measure(scores)
        entry = {metric: value for metric, value in values.items() if metric not in _COSINE_NAMES}
        scale = scores.scale
        has_classes = scores.comparable and not scale.is_continuous
        entry["grades"] = list(scale.names or scale.values or ()) if has_classes else None
        entry["confusion"] = (
            confusion(gold=scores.gold, prediction=scores.prediction, scale=scale) if has_classes else None
        )
    found = intervals(scores)
    entry["intervals"] = {_COSINE_NAMES.get(metric, metric): interval.to_json() for metric, interval in found.items()}
    return entry
