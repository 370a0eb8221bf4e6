"""The contrastive objective: InfoNCE over the texts of a batch, by sentence-transformers' own loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor, nn

from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig


class ContrastiveObjective(Objective):
    """−log of the share that a text's partner has among all candidates of the batch, by exp(cosine / temperature).

    Candidates of row i are the second texts of all rows and, where there are any, their third texts. With one text
    seen twice under dropout this is unsupervised SimCSE; with premise, entailment and contradiction, the supervised.

    Args:
        model: The encoder.
        config: `temperature`, and `projection`: a linear layer with tanh that only training sees (SimCSE's
            `mlp_only_train`).

    Label contract: none; grades beside the texts are not read.

    Formula: l_i = −log(e^(cos(h_i, p_i)/τ) / Σ_j (e^(cos(h_i, p_j)/τ) + e^(cos(h_i, n_j)/τ))), mean over the batch.

    Source: van den Oord et al. (2018); Gao et al. (2021), equations 1 and 5; Zhang & Li (2024), equation 3.
    """

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig) -> None:
        super().__init__(model, config)
        self.projection: nn.Module = nn.Identity()
        if config.projection:
            width = model.get_embedding_dimension()
            assert width is not None
            self.projection = nn.Sequential(nn.Linear(width, width), nn.Tanh()).to(model.device)
        self.loss = MultipleNegativesRankingLoss(model, scale=1 / config.temperature)

    def from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Mean loss for anchors, positives and, if there is a third column, negatives, each (B, dim)."""
        # Cosines over a temperature of 0.05 reach 20: bfloat16 would blur them by a tenth.
        with torch.autocast(embeddings[0].device.type, enabled=False):
            projected = [
                self.projection(column.to(torch.promote_types(column.dtype, torch.float32))) for column in embeddings
            ]
            loss: Tensor = self.loss.compute_loss_from_embeddings(projected, labels)  # type: ignore[arg-type]
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return {"loss": self.config.name, "temperature": self.config.temperature, "projection": self.config.projection}
