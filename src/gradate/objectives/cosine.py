"""The cosine objective: losses that hold the cosine of two texts against their grade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import AnglELoss, CoSENTLoss, CosineSimilarityLoss
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gradate.losses.pearson import PearsonLoss
from gradate.losses.pro import PROLoss
from gradate.losses.rank_kl import RankKLLoss
from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig
from gradate.scale import LabelScale


class CosineObjective(Objective):
    """A loss of cos(u, v) and the grade, over the batch as a whole, or, for `cosine-mse`, over its pairs.

    `cosent`, `angle` and `cosine-mse` are sentence-transformers' own; `angle` looks at the angle in complex space in
    place of the cosine.

    Args:
        model: The encoder.
        config: Resolved objective.
        scale: Scale of the labels.

    Label contract: a float column with grades on `scale`, shape (B,); the loss sees them mapped to 0 to 1. Weights
    beside them, (B, 2), count for `cosine-mse` alone, a mean over pairs.

    Source: Zhang & Li (2024), Pcc-tuning; Zhang et al. (2025), CoDiEmb; Su (2022), CoSENT; Li & Li (2024), AnglE;
    Reimers & Gurevych (2019), equation 2.
    """

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig, scale: LabelScale) -> None:
        super().__init__(model, config)
        self.scale = scale
        self.loss = _build(model, config)

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Loss for embeddings u and v, each (B, dim), and grades (B,), or grades and weights (B, 2)."""
        assert labels is not None
        weights = None
        if labels.ndim == 2:
            labels, weights = labels[:, 0], labels[:, 1]
        with torch.autocast(embeddings[0].device.type, enabled=False):
            u, v = (column.to(torch.promote_types(column.dtype, torch.float32)) for column in embeddings)
            grades = ((labels.double() - self.scale.low) / (self.scale.high - self.scale.low)).to(u.dtype)
            if isinstance(self.loss, (CoSENTLoss, CosineSimilarityLoss)):
                values: Tensor = self.loss.compute_loss_from_embeddings([u, v], grades)
            else:
                values = self.loss(cosine_similarity(u, v, dim=-1), grades)
        return values if values.ndim == 0 else (values if weights is None else values * weights).mean()

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return {"loss": self.config.title, "scale": str(self.scale)}


def _build(model: SentenceTransformer, config: ObjectiveConfig) -> nn.Module:
    if config.name == "pearson":
        return PearsonLoss(published=config.published)
    if config.name == "rank-kl":
        return RankKLLoss(config.temperature)
    if config.name == "pro":
        return PROLoss(config.temperature)
    if config.name == "cosent":
        return CoSENTLoss(model, scale=1 / config.temperature)
    if config.name == "angle":
        return AnglELoss(model, scale=1 / config.temperature)
    return CosineSimilarityLoss(model, loss_fct=nn.MSELoss(reduction="none"))
