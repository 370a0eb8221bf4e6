"""Which loss a stage minimises, as configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gradate.errors import InputError

LossName = Literal[
    "smooth-k2",
    "translated-relu",
    "l1",
    "mse",
    "cross-entropy",
    "cosine-mse",
    "pearson",
    "rank-kl",
    "pro",
    "cosent",
    "angle",
    "mid-info-nce",
    "info-nce",
    "sum",
]
LOSSES: tuple[str, ...] = get_args(LossName)
BUFFERED = ("smooth-k2", "translated-relu")
THROUGH_HEAD = (*BUFFERED, "l1", "mse", "cross-entropy")
"""Losses that compare a prediction of the pair head with a grade."""
ON_COSINE = ("cosine-mse", "pearson", "rank-kl", "pro", "cosent", "angle")
"""Losses that compare the cosine of two texts with a grade."""
CONTRASTIVE = ("info-nce",)
"""Losses that read no grades."""
OVER_PAIRS = (*THROUGH_HEAD, "cosine-mse")
"""Losses that are a mean over pairs, whoever shares the batch."""
WITH_TEMPERATURE = ("info-nce", "mid-info-nce", "rank-kl", "pro", "cosent", "angle")


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of a stage and its parameters."""

    name: LossName = "smooth-k2"
    """Through the head: `smooth-k2`, `translated-relu`, or torch's own `l1`, `mse`, `cross-entropy`. On the cosine:
    `pearson`, `rank-kl`, `pro`, or sentence-transformers' own `cosent`, `angle`, `cosine-mse`. On a layer in the
    middle: `mid-info-nce`. Without grades: `info-nce`. `sum`: the weighted sum of `parts`, over one forward pass."""
    k: float | Literal["auto"] = "auto"
    """Slope of the buffered losses, above 0. `auto`: 2 per squared grade spacing (Zhang & Li 2024, Table 2)."""
    x0: float | Literal["auto"] = "auto"
    """Half-width of the buffer zone in units of the scale, 0 to d/2. `auto`: d/4 (Zhang & Li 2024, Table 2)."""
    boundary: Literal["none", "both", "left"] = "both"
    """What a prediction beyond the ends of the scale costs; see `DeviationLoss`. Ignored by torch's own losses."""
    temperature: float = 0.05
    """What `info-nce`, `mid-info-nce`, `rank-kl`, `pro`, `cosent` and `angle` divide scores by, above 0."""
    projection: bool = False
    """Put a layer of width dim with tanh behind the encoder while `info-nce` trains; it is dropped afterwards."""
    positives: int = 1
    """For `info-nce`: how many of the texts after the first are its positives, 1 or more; the others are negatives."""
    candidates: Literal["batch", "own"] = "batch"
    """For `info-nce`: what a text's positive stands against: the `batch`, every other row's positive and negatives
    too, or its `own` row's negatives alone (Conan-embedding)."""
    published: bool = False
    """For `pearson`: the published code's value, 1 − r·(n − 1)/n."""
    layer: int | Literal["middle"] = "middle"
    """For `mid-info-nce`: the layer that is pooled, 1 for the lowest; `middle`: half of them, as in CoDiEmb."""
    threshold: float = 1.0
    """For `mid-info-nce`: grades from which on a pair is a positive, 0 to 1 of the scale's range."""
    weight: float = 1.0
    """Factor of this loss among the `parts` of a sum, above 0."""
    parts: tuple[ObjectiveConfig, ...] = ()
    """For `sum`: the losses that are added up, each with its `weight`."""

    def __post_init__(self) -> None:
        if self.name not in LOSSES:
            raise InputError(
                f"unknown loss {self.name!r}", where="objective.name", remedy=f"one of {', '.join(LOSSES)}"
            )
        if self.k != "auto" and not (_is_number(self.k) and math.isfinite(self.k) and self.k > 0):
            raise InputError(f"k = {self.k} must be a finite number above 0", where="objective.k")
        if self.x0 != "auto" and not (_is_number(self.x0) and math.isfinite(self.x0) and self.x0 >= 0):
            raise InputError(f"x0 = {self.x0} must be a finite number, 0 or more", where="objective.x0")
        for key, allowed in (("boundary", ("none", "both", "left")), ("candidates", ("batch", "own"))):
            if getattr(self, key) not in allowed:
                what = f"unknown {key} {getattr(self, key)!r}"
                raise InputError(what, where=f"objective.{key}", remedy=f"one of {', '.join(allowed)}")
        for key in ("temperature", "weight"):
            value = getattr(self, key)
            if not (_is_number(value) and math.isfinite(value) and value > 0):
                raise InputError(f"{key} = {value} must be a finite number above 0", where=f"objective.{key}")
        if self.positives < 1:
            raise InputError(f"positives = {self.positives} must be 1 or more", where="objective.positives")
        if self.layer != "middle" and (not _is_number(self.layer) or self.layer < 1):
            raise InputError(f"layer = {self.layer} must be 1 or more, or middle", where="objective.layer")
        if not (_is_number(self.threshold) and 0 <= self.threshold <= 1):
            raise InputError(f"threshold = {self.threshold} must lie from 0 to 1", where="objective.threshold")
        self._check_parts()

    def _check_parts(self) -> None:
        if self.name != "sum":
            if self.parts:
                raise InputError(f"{self.name} has no parts", where="objective.parts", remedy="use name: sum")
            return
        names = [part.name for part in self.parts]
        if len(names) < 2:
            raise InputError("a sum needs two parts or more", where="objective.parts")
        if "sum" in names:
            raise InputError("a part of a sum is itself a sum", where="objective.parts", remedy="list its parts")
        if names.count("mid-info-nce") > 1:
            raise InputError("a sum reads one inner layer at most", where="objective.parts")
        if set(names) & set(CONTRASTIVE):
            remedy = "give it a batch of its own"
            raise InputError(
                f"{CONTRASTIVE[0]} reads other texts than graded pairs", where="objective.parts", remedy=remedy
            )
        if "cross-entropy" in names and len(set(names) & set(THROUGH_HEAD)) > 1:
            what = "cross-entropy needs a head with one output per grade, the other losses one with a single output"
            raise InputError(what, where="objective.parts")

    @property
    def terms(self) -> tuple[ObjectiveConfig, ...]:
        """The losses that are added up: the parts of a sum, or this one alone."""
        return self.parts if self.name == "sum" else (self,)

    @property
    def title(self) -> str:
        """Its name, and for a sum its parts'."""
        if self.name != "sum":
            return self.name
        return " + ".join(part.name if part.weight == 1 else f"{part.weight:g} × {part.name}" for part in self.parts)

    @property
    def per_example(self) -> bool:
        """Whether the loss of a batch is the mean of its pairs' losses, whoever shares the batch.

        Such a loss may see pairs of like length together (`batching: bucketed`) and sum gradients over several batches
        (`accumulate`); one whose value depends on the batch as a whole, such as `info-nce` or `pearson`, may not.
        """
        return all(term.name in OVER_PAIRS for term in self.terms)

    @property
    def reads_grades(self) -> bool:
        """Whether the loss compares anything with a grade."""
        return self.name not in CONTRASTIVE

    @property
    def needs_head(self) -> bool:
        """Whether the loss compares the head's prediction with a grade."""
        return any(term.name in THROUGH_HEAD for term in self.terms)

    @property
    def is_classifier(self) -> bool:
        """Whether the head has one output for each grade."""
        return any(term.name == "cross-entropy" for term in self.terms)

    def parameters(self) -> dict[str, object]:
        """What the loss reads of its keys, as plain JSON, for cards and reports."""
        if self.name == "sum":
            return {"name": self.name, "parts": [{**part.parameters(), "weight": part.weight} for part in self.parts]}
        keys: tuple[str, ...] = ("k", "x0", "boundary") if self.name in BUFFERED else ()
        keys += ("temperature",) if self.name in WITH_TEMPERATURE else ()
        own = {
            "info-nce": ("projection", "positives", "candidates"),
            "mid-info-nce": ("layer", "threshold"),
            "pearson": ("published",),
        }
        return {"name": self.name, **{key: getattr(self, key) for key in (*keys, *own.get(self.name, ()))}}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
