"""InfoNCE against a query's own negatives alone: the retrieval term of Conan-embedding's balance loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradate.errors import InputError
from gradate.losses.scores import check_temperature


class OwnNegativesLoss(nn.Module):
    """Mean over i of −log(e^(s_i⁺/τ) / (e^(s_i⁺/τ) + Σ_j e^(s_ij⁻/τ))); other queries' texts are no candidates.

    However the negatives of a query are dealt out to devices, the value is that of the whole list.

    Args:
        temperature: τ, above 0.

    Label contract: none.

    Source: Li et al. (2024), Conan-embedding, the cross-GPU batch balance loss without its similarity term.

    >>> loss = OwnNegativesLoss(temperature=1)
    >>> round(loss(torch.tensor([0.8]), torch.tensor([[0.2, 0.4]])).item(), 4)
    0.7971
    """

    def __init__(self, temperature: float = 0.05) -> None:
        super().__init__()
        self.temperature = check_temperature(temperature)

    def forward(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """Loss of the scores of positives (n,) and of each query's negatives (n, m).

        Raises:
            InputError: any other shape.
        """
        if positive.ndim != 1 or negatives.ndim != 2 or len(negatives) != len(positive):
            shapes = f"{tuple(positive.shape)} and {tuple(negatives.shape)}"
            raise InputError(f"expected positives (n,) and negatives (n, m), got {shapes}")
        scores = torch.cat([positive[:, None], negatives], dim=1) / self.temperature
        return (torch.logsumexp(scores, dim=1) - scores[:, 0]).mean()
