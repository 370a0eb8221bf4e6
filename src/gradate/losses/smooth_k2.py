"""Smooth K2 Loss: quadratic outside a zero-gradient buffer zone."""

from __future__ import annotations

from torch import Tensor

from gradate.losses.deviation import DeviationLoss


class SmoothK2Loss(DeviationLoss):
    """Smooth K2: f(x) = k·(x − x0)² for x ≥ x0, else 0, of the deviation x = |ŷ − y|; f' = 2k·(x − x0).

    k = 1, x0 = 0 is the mean squared error. Recommended where the grades can be trusted; `TranslatedReLULoss`
    where they are noisy (paper, section 3.3).

    Args: see `DeviationLoss`.

    Label contract: grades are real numbers on one scale, of the same unit as the predictions; ties are fine.

    Source: Zhang & Li (2024), Equation 2.

    >>> import torch
    >>> loss = SmoothK2Loss(k=2, x0=0.25)
    >>> loss(torch.tensor([1.5, 3.0]), torch.tensor([1.0, 1.0])).item()      # (0.125 + 6.125) / 2
    3.125
    """

    def penalty(self, excess: Tensor) -> Tensor:
        """k·excess²."""
        return self.k * excess.square()
