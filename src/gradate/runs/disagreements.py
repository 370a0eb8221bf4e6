"""Grades to look at again: the pairs of which a model thinks most differently than who graded them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradate.data.examples import Pairs
from gradate.data.readers import grade_label
from gradate.evaluation.baseline import isotonic_grades
from gradate.evaluation.metrics import Array
from gradate.models.graded import GradedModel

DIGITS = 4


@dataclass(frozen=True, eq=False)
class Disagreements:
    """Graded pairs of which model and annotator think most differently, the worst first.

    Args:
        pairs: The pairs.
        similarity: Cosines (n,).
        expected: The grade each cosine stands for, shape (n,), see `find_disagreements`.
        compared: Pairs that were compared.
        notes: What reading the pairs decided.
    """

    pairs: Pairs
    similarity: Array
    expected: Array
    compared: int
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def columns(self) -> dict[str, list[Any]]:
        """A table to look through: the pair, its grade as it stands, and the one its cosine stands for."""
        scale, grades = self.pairs.scale, self.pairs.grades
        rows = range(1, len(self) + 1) if self.pairs.rows is None else self.pairs.rows.tolist()
        labels = grades.tolist() if scale.is_continuous else [grade_label(scale, i) for i in scale.index(grades)]
        return {
            "text1": list(self.pairs.text1),
            "text2": list(self.pairs.text2),
            "grade": labels,
            "similarity": self.similarity.round(DIGITS).tolist(),
            "expected": self.expected.round(DIGITS).tolist(),
            "disagreement": (grades - self.expected).round(DIGITS).tolist(),
            "row": list(rows),
        }

    def to_json(self) -> dict[str, Any]:
        """Counts."""
        return {"pairs": len(self), "compared": self.compared, "notes": list(self.notes)}


def find_disagreements(
    pairs: Pairs, model: GradedModel, *, count: int = 100, show_progress: bool = False
) -> Disagreements:
    """List the graded pairs whose grade is farthest from the one their cosine stands for.

    A cosine stands for the value of the rising function that fits these grades best (isotonic regression), so that a
    model which orders the pairs as their grades do disagrees with none, however its cosines are spread. Ranks would
    not do: the pairs of one grade share one rank and their cosines do not, which looks like disagreement within every
    grade.

    Args:
        pairs: Graded pairs.
        model: Whose cosine counts.
        count: Pairs to list at most; those without any disagreement are never listed.
        show_progress: Show a progress bar on stderr.

    Source: isotonic regression by pool-adjacent-violators, Barlow et al. (1972).
    """
    similarity = model.score(pairs, show_progress=show_progress).similarity
    expected = isotonic_grades(similarity, pairs.grades, similarity, pairs.scale)
    distance = np.abs(pairs.grades - expected)
    worst = np.argsort(-distance, kind="stable")[:count]
    worst = worst[distance[worst].round(DIGITS) > 0]
    return Disagreements(pairs.select(worst), similarity[worst], expected[worst], len(pairs), pairs.notes)
