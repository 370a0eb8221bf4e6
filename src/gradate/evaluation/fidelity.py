"""How faithful a stand-in is to the model it stands in for: its embeddings, its measured quality, its speed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from gradate.errors import InputError
from gradate.evaluation.grading import METRICS, GradedScores, Metric, differences, intervals, measure
from gradate.evaluation.metrics import Array
from gradate.models.graded import GradedModel

UNREPORTED: frozenset[Metric] = frozenset({"pearson_cosine", "pearson_head"})


@dataclass(frozen=True)
class Cosines:
    """Cosines between a text's two embeddings, over texts.

    Args:
        min: Of the text that came off worst.
        mean: Over all texts.
        texts: How many.
    """

    min: float
    mean: float
    texts: int


@dataclass(frozen=True)
class Speed:
    """Texts per second of two models, measured in turn.

    Args:
        original: Median over the rounds.
        exported: Median over the rounds.
        ratio: Median over the rounds of exported / original within a round; above 1 the stand-in is faster.
        ratio_low: Smallest of those ratios.
        ratio_high: Largest of those ratios.
        original_precision: What the original computed in.
        texts: Texts encoded in each round.
        rounds: Rounds after the one that warms up.
    """

    original: float
    exported: float
    ratio: float
    ratio_low: float
    ratio_high: float
    original_precision: str
    texts: int
    rounds: int


def embedding_cosines(original: GradedModel, exported: GradedModel, texts: Sequence[str]) -> Cosines:
    """How near a stand-in's embeddings are to the original's.

    Args:
        original: In the precision to compare with.
        exported: The stand-in.
        texts: At least one text. Where either embedding is the zero vector the cosine counts as 0.

    Raises:
        InputError: no texts.
    """
    if not texts:
        raise InputError("no texts to compare embeddings on")
    first, second = (np.asarray(model.encode(texts), dtype=np.float64) for model in (original, exported))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    dots = np.einsum("nd,nd->n", first, second)
    cosines: Array = np.divide(dots, lengths, out=np.zeros(len(dots)), where=lengths > 0)
    return Cosines(float(cosines.min()), float(cosines.mean()), len(cosines))


def texts_per_second(original: GradedModel, exported: GradedModel, texts: Sequence[str], *, rounds: int = 3) -> Speed:
    """Time two models on the same texts, in turn, so that what else the machine does falls on both.

    Args:
        original: In the precision it would be used in.
        exported: The stand-in.
        texts: At least one text.
        rounds: Timed rounds, 1 or more; one more before them warms up.
    """
    if not texts or rounds < 1:
        raise InputError("timing needs at least one text and one round")
    seconds: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        for model, spent in zip((original, exported), seconds, strict=True):
            start = time.perf_counter()
            model.encode(texts)
            if round_:
                spent.append(time.perf_counter() - start)
    ratios = [first / second for first, second in zip(*seconds, strict=True)]
    first, second = (len(texts) / median(spent) for spent in seconds)
    return Speed(first, second, median(ratios), min(ratios), max(ratios), original.precision.name, len(texts), rounds)


def compare_graded(before: GradedScores, after: GradedScores, *, resamples: int = 1000) -> dict[str, Any]:
    """Metrics of two systems on the same pairs with their intervals, and the paired differences after − before.

    Args:
        before: The original's scores.
        after: The stand-in's.
        resamples: Bootstrap resamples, 1 or more.
    """
    found = differences(before, after, resamples=resamples)
    return {
        "before": _entry(before, resamples),
        "after": _entry(after, resamples),
        "difference": {m: interval.to_json() for m, interval in found.items() if m not in UNREPORTED},
    }


def sample(texts: Sequence[str], most: int) -> list[str]:
    """At most so many of the distinct texts, the same ones whenever it is asked.

    >>> sample(["a", "b", "a"], 5)
    ['a', 'b']
    """
    distinct = list(dict.fromkeys(texts))
    return distinct if len(distinct) <= most else random.Random(0).sample(distinct, most)


def _entry(scores: GradedScores, resamples: int) -> dict[str, Any]:
    values = measure(scores)
    spans = intervals(scores, resamples=resamples)
    shown = [metric for metric in METRICS if metric not in UNREPORTED]
    return {
        **{metric: values[metric] for metric in shown},
        "n": len(scores.gold),
        "intervals": {metric: spans[metric].to_json() for metric in shown if metric in spans},
    }
