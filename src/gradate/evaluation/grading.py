"""How well a system grades pairs: every metric of the main job, with intervals and paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from gradate.errors import InputError
from gradate.evaluation.metrics import (
    Array,
    Statistic,
    accuracy_statistic,
    mae_statistic,
    pearson_statistic,
    qwk_statistic,
    spearman_statistic,
)
from gradate.evaluation.significance import Interval, bootstrap_interval, paired_difference
from gradate.scale import LabelScale

Metric: TypeAlias = Literal[
    "spearman_cosine", "pearson_cosine", "spearman_head", "pearson_head", "mae", "accuracy", "qwk"
]
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True)
class GradedScores:
    """What one system says of graded pairs.

    Args:
        gold: Grades on the scale, shape (n,).
        cosine: Similarities, shape (n,).
        scale: Scale of the grades.
        prediction: Predicted values on the scale, unclipped, shape (n,); None where there are none.
        from_head: Whether the predictions are a pair head's. Those read off the similarity (see
            `baseline.isotonic_grades`) have error, accuracy and kappa, but no correlation of their own.
        comparable: Whether the predictions are on `scale`; on another one only their correlations mean anything.
    """

    gold: Array
    cosine: Array
    scale: LabelScale
    prediction: Array | None = None
    from_head: bool = True
    comparable: bool = True

    def __post_init__(self) -> None:
        columns = (self.gold, self.cosine, *([] if self.prediction is None else [self.prediction]))
        shapes = {column.shape for column in columns}
        if len(shapes) != 1 or self.gold.ndim != 1:
            raise InputError(f"expected grades and scores of one shape (n,), got {sorted(shapes)}")

    def statistic(self, metric: Metric) -> tuple[Statistic, Array] | None:
        """The formula of a metric and the scores it compares with the grades; None where the metric does not apply.

        Correlations read the unclipped prediction, everything else the one clipped to the scale.
        """
        if metric == "spearman_cosine":
            return spearman_statistic, self.cosine
        if metric == "pearson_cosine":
            return pearson_statistic, self.cosine
        if self.prediction is None:
            return None
        if metric in ("spearman_head", "pearson_head"):
            if not self.from_head:
                return None
            return (spearman_statistic if metric == "spearman_head" else pearson_statistic), self.prediction
        if not self.comparable:
            return None
        clipped: Array = self.scale.clamp(self.prediction)
        if metric == "mae":
            return mae_statistic, clipped
        if self.scale.is_continuous:
            return None
        return (accuracy_statistic if metric == "accuracy" else qwk_statistic)(self.scale), clipped


def measure(scores: GradedScores) -> dict[Metric, float | None]:
    """Every metric; None where it does not apply (no prediction, no classes) or is undefined.

    >>> scores = GradedScores(np.array([0.0, 1.0]), np.array([0.2, 0.9]), LabelScale.from_values([0, 1]))
    >>> measure(scores)["spearman_cosine"], measure(scores)["mae"]
    (100.0, None)
    """
    values: dict[Metric, float | None] = {}
    for metric in METRICS:
        chosen = scores.statistic(metric)
        value = np.nan
        if chosen is not None and len(scores.gold):
            value = float(chosen[0](scores.gold, chosen[1], np.ones((1, len(scores.gold))))[0])
        values[metric] = None if np.isnan(value) else value
    return values


def intervals(scores: GradedScores, *, resamples: int = 1000, seed: int = 0) -> dict[Metric, Interval]:
    """Interval of every metric that applies; see `significance.bootstrap_interval`."""
    found: dict[Metric, Interval] = {}
    for metric in METRICS:
        chosen = scores.statistic(metric)
        if chosen is not None:
            found[metric] = bootstrap_interval(chosen[0], scores.gold, chosen[1], resamples=resamples, seed=seed)
    return found


def differences(
    before: GradedScores, after: GradedScores, *, resamples: int = 1000, seed: int = 0
) -> dict[Metric, Interval]:
    """Paired difference after − before of every metric both have; see `significance.paired_difference`.

    Raises:
        InputError: the two were not measured on the same grades.
    """
    if before.scale != after.scale or not np.array_equal(before.gold, after.gold):
        raise InputError("before and after were measured on different grades", remedy="score the same pairs with both")
    found: dict[Metric, Interval] = {}
    for metric in METRICS:
        first, second = before.statistic(metric), after.statistic(metric)
        if first is not None and second is not None:
            found[metric] = paired_difference(
                second[0], after.gold, first[1], second[1], resamples=resamples, seed=seed
            )
    return found
