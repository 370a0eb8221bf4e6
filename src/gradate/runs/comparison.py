"""Before and after on graded pairs, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradate.data.examples import Pairs
from gradate.evaluation.baseline import isotonic_grades, word_overlap
from gradate.evaluation.grading import GradedScores, Metric, differences, intervals, measure
from gradate.evaluation.significance import Interval
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
