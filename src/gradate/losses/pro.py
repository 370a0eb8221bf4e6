"""PRO: every pair against all that have a lower grade, the more so the further their grades are apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradate.losses.scores import check_temperature, scores_and_grades

GAP = 1e-8
"""Grades closer than this are equal."""


class PROLoss(nn.Module):
    """Mean over k of −log(e^(g_k·z_k) / (e^(g_k·z_k) + Σ_j e^(g_kj·z_j))), z = s/τ, over all j of lower grade than k.

    g_kj = y_k − y_j, and g_k is the largest of them. Pairs with none below them are left out of the mean.

    Args:
        temperature: τ, above 0.

    Label contract: grades from 0 to 1, because their differences multiply the scores: grades five times as far apart
    are a temperature a fifth as large. A shift of the scores changes the value. A batch whose grades are all equal
    costs 0.

    Source: Song et al. (2024), preference ranking optimisation, as Zhang et al. (2025), CoDiEmb, have it for graded
    pairs.

    >>> loss = PROLoss(temperature=1)
    >>> round(loss(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([1.0, 0.5, 0.0])).item(), 4)
    0.6384
    """

    def __init__(self, temperature: float = 0.05) -> None:
        super().__init__()
        self.temperature = check_temperature(temperature)

    def forward(self, scores: Tensor, grades: Tensor) -> Tensor:
        """Loss of scores (n,) for grades (n,)."""
        s, y = scores_and_grades(scores, grades)
        gaps = y[:, None] - y[None, :]
        below = gaps > GAP
        counts = below.any(dim=1)
        if not bool(counts.any()):
            return s.sum() * 0.0
        z = s / self.temperature
        own = gaps.masked_fill(~below, 0.0).amax(dim=1) * z
        others = (gaps * z[None, :]).masked_fill(~below, -torch.inf)
        return (torch.logsumexp(torch.cat([own[:, None], others], dim=1), dim=1) - own)[counts].mean()
