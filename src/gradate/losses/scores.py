"""What losses over the scores of a batch share: they see scores and grades of one list, in float32 or better."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradate.errors import InputError


def scores_and_grades(scores: Tensor, grades: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (n,) in float32 or better, and grades in the same type.

    Raises:
        InputError: any other shape.
    """
    if scores.ndim != 1 or scores.shape != grades.shape:
        raise InputError(f"expected scores (n,) and grades (n,), got {tuple(scores.shape)} and {tuple(grades.shape)}")
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return scores.to(dtype), grades.to(dtype)


def check_temperature(temperature: float) -> float:
    """The temperature, if it is finite and above 0.

    Raises:
        InputError: it is not.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature = {temperature} must be a finite number above 0", where="temperature")
    return float(temperature)
