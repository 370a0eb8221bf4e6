"""Before and after on graded pairs, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradate.data.examples import Pairs
from gradate.evaluation.baseline import isotonic_grades, word_overlap
from gradate.evaluation.grading import GradedScores, Metric, differences, intervals, measure
from gradate.evaluation.metrics import spearman_statistic
from gradate.evaluation.results import Evaluation
from gradate.evaluation.retrieval import RetrievalResult
from gradate.evaluation.significance import Interval, PairedScores, benchmark_difference, bootstrap_interval
from gradate.models.graded import GradedModel

FLAT: tuple[Metric, ...] = ("spearman_cosine", "spearman_head", "mae", "accuracy", "qwk")


@dataclass(frozen=True)
class Comparison:
    """Two systems and a word-overlap baseline on the same test pairs."""

    baseline: GradedScores
    before: GradedScores
    after: GradedScores
    intervals: Mapping[str, Mapping[Metric, Interval]]
    """Per system (`baseline`, `before`, `after`) and metric."""
    difference: Mapping[Metric, Interval]
    """After − before; a metric only `after` has is compared with the nearest one `before` has, see `compare`."""

    def to_json(self) -> dict[str, Any]:
        """Flat metrics of each system with their intervals, and the differences."""
        shown = {name: self._flat(name, getattr(self, name)) for name in ("baseline", "before", "after")}
        return {**shown, "difference": {k: v.to_json() for k, v in self.difference.items()}}

    def _flat(self, name: str, scores: GradedScores) -> dict[str, Any]:
        values = measure(scores)
        spans = {m: i.to_json() for m, i in self.intervals[name].items() if m in FLAT}
        return {**{m: values[m] for m in FLAT}, "n": len(scores.gold), "intervals": spans}


def baseline_scores(test: Pairs, train: Pairs) -> GradedScores:
    """Word overlap as similarity, read as grades by isotonic regression fitted on the training pairs."""
    overlap = word_overlap(test.text1, test.text2)
    grades = isotonic_grades(word_overlap(train.text1, train.text2), train.grades, overlap, test.scale)
    return GradedScores(test.grades, overlap, test.scale, grades, from_head=False)


def model_scores(model: GradedModel, test: Pairs, train: Pairs) -> GradedScores:
    """A model's cosines and predictions; without a head, grades read off the cosine as for the baseline."""
    scored = model.score(test)
    if scored.prediction is not None and model.scale == test.scale:
        return GradedScores(test.grades, scored.similarity, test.scale, scored.prediction)
    fitted = model.score(train).similarity
    grades = isotonic_grades(fitted, train.grades, scored.similarity, test.scale)
    return GradedScores(test.grades, scored.similarity, test.scale, grades, from_head=False)


def compare(before: GradedScores, after: GradedScores, baseline: GradedScores, *, resamples: int) -> Comparison:
    """Measure three systems on the same pairs.

    Where the model before has no head, the difference of `spearman_head` is against the Spearman of its cosine.

    Args:
        before: Scores of the untrained model.
        after: Scores of the trained one.
        baseline: Scores of the word overlap.
        resamples: Bootstrap resamples, 1 or more.
    """
    systems = {"baseline": baseline, "before": before, "after": after}
    spans = {name: intervals(scores, resamples=resamples) for name, scores in systems.items()}
    found: dict[Metric, Interval] = {
        m: i for m, i in differences(before, after, resamples=resamples).items() if m in FLAT
    }
    if after.from_head and not before.from_head and after.prediction is not None:
        head_as_score = GradedScores(after.gold, after.prediction, after.scale)
        found["spearman_head"] = differences(before, head_as_score, resamples=resamples)["spearman_cosine"]
    return Comparison(baseline, before, after, spans, found)


@dataclass(frozen=True)
class BenchmarkComparison:
    """A benchmark's Spearman correlations of the cosine before and after."""

    before: Evaluation
    after: Evaluation
    intervals: Mapping[str, Mapping[str, Interval]]
    """Per system (`before`, `after`) and task; of the average the value alone."""
    difference: Mapping[str, Interval]
    """After − before per task and of the average."""

    def to_json(self) -> dict[str, Any]:
        """Both evaluations, and the differences with their intervals."""
        difference = {name: interval.to_json() for name, interval in self.difference.items()}
        return {"before": self.before.to_json(), "after": self.after.to_json(), "difference": difference}


def compare_benchmark(before: Evaluation, after: Evaluation, *, resamples: int) -> BenchmarkComparison:
    """Measure the gain on every task and of the average.

    Intervals resample pairs within their subsets. They exist for the aggregation `all`, whose statistic they resample;
    the other aggregations have values alone.

    Args:
        before: The untrained model's evaluation.
        after: The trained model's, on the same benchmark with the same aggregation.
        resamples: Bootstrap resamples, 1 or more.
    """
    spans: dict[str, dict[str, Interval]] = {"before": {}, "after": {}}
    resampled = after.aggregation == "all" and before.average is not None and after.average is not None
    for name, evaluation in (("before", before), ("after", after)):
        for task, found in evaluation.tasks.items():
            span = Interval(found.spearman, None, None)
            if resampled:
                span = bootstrap_interval(spearman_statistic, found.gold, found.cosine, resamples=resamples)
            spans[name][task] = span
        spans[name]["average"] = Interval(evaluation.average, None, None)
    if resampled:
        pairs = {
            task: PairedScores(found.gold, before.scores[task], found.cosine, tuple(size for _, size in found.subsets))
            for task, found in after.tasks.items()
        }
        return BenchmarkComparison(before, after, spans, benchmark_difference(pairs, resamples=resamples))
    gains = {
        task: Interval(_gain(spans["before"][task].value, two.value), None, None)
        for task, two in spans["after"].items()
    }
    return BenchmarkComparison(before, after, spans, gains)


@dataclass(frozen=True)
class RetrievalComparison:
    """nDCG@10 on retrieval sets before and after."""

    before: Mapping[str, RetrievalResult]
    """The untrained model's result of each set."""
    after: Mapping[str, RetrievalResult]
    """The trained model's."""

    @property
    def difference(self) -> dict[str, Interval]:
        """After − before on each set, by paired bootstrap over its queries."""
        return {name: after.minus(self.before[name]) for name, after in self.after.items()}

    def to_json(self) -> dict[str, Any]:
        """Both results of each set, and the differences with their intervals."""
        results = {"before": self.before, "after": self.after}
        shown = {when: {name: found.to_json() for name, found in sets.items()} for when, sets in results.items()}
        return {**shown, "difference": {name: interval.to_json() for name, interval in self.difference.items()}}


def _gain(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
