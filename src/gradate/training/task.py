"""The task beside a stage: other examples and another objective, in batches of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gradate.errors import InputError
from gradate.objectives.config import ObjectiveConfig
from gradate.training.hard_negatives import NegativesConfig


@dataclass(frozen=True)
class TaskConfig:
    """A task that trains in the same stage, never in the same batch."""

    source: str
    """A source name, as `source` of a stage; not `pairs`."""
    objective: ObjectiveConfig = field(default_factory=lambda: ObjectiveConfig(name="info-nce"))
    """Its loss; one that reads no head, which belongs to the stage's own pairs."""
    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Hard negatives, where the source is a retrieval set."""
    batch_size: int = 16
    """Examples per step and process, 1 or more."""
    limit: int | None = None
    """Train on this many examples, drawn by lot, the same for every seed, 1 or more; null: on all."""
    weight: float = 1.0
    """Factor of its loss beside the stage's, above 0."""

    def __post_init__(self) -> None:
        if self.source == "pairs":
            what = "pairs are the stage's own"
            raise InputError(what, where="beside.source", remedy="make them the stage's source")
        if self.objective.needs_head:
            what = f"{self.objective.title} reads the head, which belongs to the stage's own pairs"
            raise InputError(what, where="beside.objective", remedy="take a loss on the cosine, or info-nce")
        if self.objective.projection:
            raise InputError("a task beside a stage has no projection", where="beside.objective.projection")
        if self.negatives.replace_every is not None:
            what = "negatives are replaced for the stage's own queries alone"
            raise InputError(what, where="beside.negatives", remedy="make the retrieval set the stage's source")
        if self.batch_size < 1:
            raise InputError(f"batch_size = {self.batch_size} must be 1 or more", where="beside.batch_size")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"limit = {self.limit} must be 1 or more, or null", where="beside.limit")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise InputError(f"weight = {self.weight} must be a finite number above 0", where="beside.weight")
