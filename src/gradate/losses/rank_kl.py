"""RankKL: the scores of a batch as a distribution, held against one made of the grades' ranks."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradate.errors import InputError
from gradate.losses.scores import check_temperature, scores_and_grades


class RankKLLoss(nn.Module):
    """KL(softmax(t/τ) ‖ softmax(s/τ)), t_i = (n − 1 − ρ_i)/(n − 1) from the rank ρ_i of grade i, highest first.

    Ties share the mean of their ranks. The loss is 0 where scores are t plus a constant. At τ = 0.05 most of the mass
    lies on the few highest grades: it orders the top, and hardly the rest.

    Args:
        temperature: τ, above 0.
        reduction: `mean` divides by n, as the published code does; `sum` does not.

    Label contract: grades count by their order alone; a shift of all scores changes nothing, a factor does. A batch
    whose grades are all equal has no order and costs 0.

    Source: Zhang et al. (2025), CoDiEmb, the ranking term of its loss for similarity.

    >>> loss = RankKLLoss(temperature=1, reduction="sum")
    >>> round(loss(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([5.0, 3.0, 0.0])).item(), 4)
    0.003
    """

    def __init__(self, temperature: float = 0.05, *, reduction: Literal["mean", "sum"] = "mean") -> None:
        super().__init__()
        self.temperature = check_temperature(temperature)
        if reduction not in ("mean", "sum"):
            raise InputError(f"unknown reduction {reduction!r}", remedy="mean or sum")
        self.reduction = reduction

    def forward(self, scores: Tensor, grades: Tensor) -> Tensor:
        """Loss of scores (n,) for grades (n,)."""
        s, y = scores_and_grades(scores, grades)
        n = len(y)
        if n < 2 or bool((y == y[0]).all()):
            return s.sum() * 0.0
        higher = (y[None, :] > y[:, None]).sum(dim=1)
        tied = (y[None, :] == y[:, None]).sum(dim=1) - 1
        target = (n - 1 - higher - tied / 2).to(s.dtype) / (n - 1)
        found, wanted = (torch.log_softmax(x / self.temperature, dim=0) for x in (s, target))
        divergence = functional.kl_div(found, wanted, reduction="sum", log_target=True)
        return divergence / n if self.reduction == "mean" else divergence
