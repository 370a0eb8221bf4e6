"""Pearson loss: one minus the correlation of scores and grades."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradate.losses.scores import scores_and_grades

EPSILON = 1e-8


class PearsonLoss(nn.Module):
    """1 − r(s, y), the Pearson correlation of a batch's scores s with its grades y; from 0 to 2.

    Args:
        published: Pcc-tuning's published code: variances over n − 1 beside a covariance over n, so that the value is
            1 − r·(n − 1)/n, never below 1/n; its gradient is that of the exact loss, times (n − 1)/n.

    Label contract: real numbers in any unit; an affine map of the grades (or a rising one of the scores) changes
    nothing. A batch whose grades are all equal has nothing to correlate and costs 0; equal scores cost 1.

    Source: Zhang & Li (2024), Pcc-tuning, the loss of its second stage.

    >>> loss, grades = PearsonLoss(), torch.tensor([0.0, 2.0, 1.0, 5.0])
    >>> round(loss(torch.tensor([0.1, 0.4, 0.2, 0.9]), grades).item(), 4)
    0.0028
    >>> round(PearsonLoss(published=True)(torch.tensor([0.1, 0.4, 0.2, 0.9]), grades).item(), 4)
    0.2521
    """

    def __init__(self, *, published: bool = False) -> None:
        super().__init__()
        self.published = published

    def forward(self, scores: Tensor, grades: Tensor) -> Tensor:
        """Loss of scores (n,) for grades (n,)."""
        s, y = scores_and_grades(scores, grades)
        if len(y) < 2 or bool((y == y[0]).all()):
            return s.sum() * 0.0
        n = len(y)
        s, y = s - s.mean(), y - y.mean()
        # The norm has a gradient where all scores are equal; the root of the variance has none.
        r = torch.dot(s, y) / (torch.linalg.vector_norm(s) * torch.linalg.vector_norm(y)).clamp_min(EPSILON)
        correlation: Tensor = r * ((n - 1) / n if self.published else 1.0)
        return 1 - correlation
