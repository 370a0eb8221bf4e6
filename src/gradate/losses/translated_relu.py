"""Translated ReLU: linear outside a zero-gradient buffer zone."""

from __future__ import annotations

from torch import Tensor

from gradate.losses.deviation import DeviationLoss


class TranslatedReLULoss(DeviationLoss):
    """Translated ReLU: f(x) = max(0, k·(x − x0)) of the deviation x = |ŷ − y|; f' = k outside the zone, else 0.

    k = 1, x0 = 0 is the L1 loss. The paper expects it to suit noisy grades better than `SmoothK2Loss`.

    Args: see `DeviationLoss`.

    Label contract: grades are real numbers on one scale, of the same unit as the predictions; ties are fine.

    Source: Zhang & Li (2024), Equation 1.

    >>> import torch
    >>> loss = TranslatedReLULoss(k=2.5, x0=0.25)
    >>> loss(torch.tensor([1.5, 3.0]), torch.tensor([1.0, 1.0])).item()      # (0.625 + 4.375) / 2
    2.5
    """

    def penalty(self, excess: Tensor) -> Tensor:
        """k·excess."""
        return self.k * excess
