"""What the graded losses share: parameter checks, the boundary policy and the reduction."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from gradate.errors import InputError

Reduction = Literal["mean", "sum", "none"]
Boundary = Literal["none", "both", "left"]


class DeviationLoss(nn.Module):
    """Base of losses that are a function f of the deviation x = |ŷ − y|; a subclass defines `penalty(excess)`.

    Args:
        k: Slope, above 0.
        x0: Half-width of the zero-gradient buffer zone, 0 or more, in units of the scale. At most d/2 keeps every
            grade apart; a recipe, which knows the scale, checks that.
        reduction: `mean`, `sum` or `none`.
        boundary: What a prediction beyond the ends of the scale costs. `none`: its full deviation. `both`: the value
            is f(|clip(ŷ) − y|) and the clip passes gradients through, so overshooting the end grade is free while
            a wrong overshoot is still pulled back (the advice of the paper's section 3.3). `left`: the published
            code's mask, a clip at `low` that blocks gradients; for reproduction only.
        low: Lowest value of the scale; needed by `both` and `left`.
        high: Highest value of the scale; needed by `both`.

    Raises:
        InputError: a parameter outside its range, or a boundary without its ends.
    """

    def __init__(
        self,
        k: float,
        x0: float,
        *,
        reduction: Reduction = "mean",
        boundary: Boundary = "none",
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        super().__init__()
        if not (math.isfinite(k) and k > 0):
            raise InputError(f"k = {k} must be a finite number above 0", where="k")
        if not (math.isfinite(x0) and x0 >= 0):
            raise InputError(f"x0 = {x0} must be a finite number, 0 or more", where="x0")
        if reduction not in get_args(Reduction):
            raise InputError(f"unknown reduction {reduction!r}", remedy="mean, sum or none")
        if boundary not in get_args(Boundary):
            raise InputError(f"unknown boundary {boundary!r}", where="boundary", remedy="none, both or left")
        if (boundary != "none" and low is None) or (boundary == "both" and high is None):
            raise InputError(f"boundary {boundary!r} needs the ends of the scale", remedy="pass low and high")
        if low is not None and high is not None and not low < high:
            raise InputError(f"low = {low} must lie below high = {high}", where="boundary")
        self.k, self.x0 = float(k), float(x0)
        self.reduction, self.boundary, self.low, self.high = reduction, boundary, low, high

    def penalty(self, excess: Tensor) -> Tensor:
        """f as a function of how far the deviation exceeds x0; `excess` (n,) is 0 inside the buffer zone."""
        raise TypeError("DeviationLoss is a base; use SmoothK2Loss or TranslatedReLULoss")

    def forward(self, prediction: Tensor, grade: Tensor) -> Tensor:
        """Loss of predictions (n,) or (n, 1) for grades (n,).

        Raises:
            InputError: any other shape.
        """
        if prediction.ndim == 2 and prediction.shape[1] == 1:
            prediction = prediction.squeeze(1)
        if prediction.ndim != 1 or prediction.shape != grade.shape:
            shapes = f"{tuple(prediction.shape)} and {tuple(grade.shape)}"
            raise InputError(f"expected predictions (n,) or (n, 1) and grades (n,), got {shapes}")
        if prediction.dtype in (torch.float16, torch.bfloat16):
            prediction = prediction.float()
        if self.boundary == "both":
            prediction = _PassThroughClamp.apply(prediction, self.low, self.high)  # type: ignore[no-untyped-call]
        elif self.boundary == "left":
            prediction = prediction.clamp(min=self.low)
        # Subtracting x0 before squaring keeps full precision near the edge of the buffer zone; the published
        # code's x² − 2·x0·x + x0² cancels there.
        excess = torch.relu((prediction - grade.to(prediction.dtype)).abs() - self.x0)
        value = self.penalty(excess)
        return value if self.reduction == "none" else getattr(value, self.reduction)()

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card and for `graded_head/config.json`."""
        return {"k": self.k, "x0": self.x0, "boundary": self.boundary, "low": self.low, "high": self.high}

    @property
    def citation(self) -> str:
        """BibTeX of the paper both losses come from, for the model card."""
        return (
            "@inproceedings{zhang-li-2024-advancing,\n"
            "    title = {Advancing Semantic Textual Similarity Modeling: A Regression Framework with Translated ReLU"
            " and Smooth K2 Loss},\n"
            "    author = {Zhang, Bowen and Li, Chunping},\n    booktitle = {EMNLP},\n    year = {2024},\n}"
        )


class _PassThroughClamp(torch.autograd.Function):
    """Clamp whose gradient is 1 everywhere."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, low: float, high: float) -> Tensor:
        return value.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None
