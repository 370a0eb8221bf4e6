"""Which loss a stage minimises, as configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gradate.errors import InputError

LossName = Literal["smooth-k2", "translated-relu", "l1", "mse", "cross-entropy", "info-nce"]
LOSSES: tuple[str, ...] = get_args(LossName)
BUFFERED = ("smooth-k2", "translated-relu")
CONTRASTIVE = ("info-nce",)


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss of a stage and its parameters."""

    name: LossName = "smooth-k2"
    """`smooth-k2`, `translated-relu`, or torch's own `l1`, `mse`, `cross-entropy`: these read grades through the head.
    `info-nce` reads no grades: a text's partner against the other texts of its batch."""
    k: float | Literal["auto"] = "auto"
    """Slope of the buffered losses, above 0. `auto`: 2 per squared grade spacing (Zhang & Li 2024, Table 2)."""
    x0: float | Literal["auto"] = "auto"
    """Half-width of the buffer zone in units of the scale, 0 to d/2. `auto`: d/4 (Zhang & Li 2024, Table 2)."""
    boundary: Literal["none", "both", "left"] = "both"
    """What a prediction beyond the ends of the scale costs; see `DeviationLoss`. Ignored by torch's own losses."""
    temperature: float = 0.05
    """What `info-nce` divides cosines by, above 0 (Gao et al. 2021: 0.05)."""
    projection: bool = False
    """Put a layer of width dim with tanh behind the encoder while `info-nce` trains; it is dropped afterwards."""

    def __post_init__(self) -> None:
        if self.name not in LOSSES:
            raise InputError(
                f"unknown loss {self.name!r}", where="objective.name", remedy=f"one of {', '.join(LOSSES)}"
            )
        if self.k != "auto" and not (_is_number(self.k) and math.isfinite(self.k) and self.k > 0):
            raise InputError(f"k = {self.k} must be a finite number above 0", where="objective.k")
        if self.x0 != "auto" and not (_is_number(self.x0) and math.isfinite(self.x0) and self.x0 >= 0):
            raise InputError(f"x0 = {self.x0} must be a finite number, 0 or more", where="objective.x0")
        if self.boundary not in ("none", "both", "left"):
            raise InputError(
                f"unknown boundary {self.boundary!r}", where="objective.boundary", remedy="one of none, both, left"
            )

        if not (_is_number(self.temperature) and math.isfinite(self.temperature) and self.temperature > 0):
            raise InputError(
                f"temperature = {self.temperature} must be a finite number above 0", where="objective.temperature"
            )

    @property
    def per_example(self) -> bool:
        """Whether the loss of a batch is the mean of its pairs' losses, whoever shares the batch.

        Such a loss may see pairs of like length together (`batching: bucketed`) and sum gradients over several batches
        (`accumulate`); one whose value depends on the batch as a whole, such as `info-nce`, may not.
        """
        return self.name not in CONTRASTIVE

    @property
    def reads_grades(self) -> bool:
        """Whether the loss compares the head's prediction with a grade; the others need neither."""
        return self.name not in CONTRASTIVE


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
