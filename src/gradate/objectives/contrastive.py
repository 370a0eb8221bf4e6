"""The contrastive objective: InfoNCE over the texts of a batch, by sentence-transformers' own loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gradate.errors import InputError
from gradate.losses.own_negatives import OwnNegativesLoss
from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig


class ContrastiveObjective(Objective):
    """−log of the share that a text's partner has among all candidates, by exp(cosine / temperature).

    Candidates of row i are the partners of all rows and, where there are any, the negatives of all rows. With one
    text seen twice under dropout this is unsupervised SimCSE; with premise, entailment and contradiction, the
    supervised. With several positives the loss is the mean over them, each with the negatives: a text's other
    positives are no candidates. With `candidates: own` a text's own negatives are its only candidates.

    Args:
        model: The encoder.
        config: `temperature`, `positives`, `candidates`, and `projection`: a linear layer with tanh that only training
            sees (SimCSE's `mlp_only_train`).

    Label contract: none; grades beside the texts are not read.

    Formula: l_i = −log(e^(cos(h_i, p_i)/τ) / Σ_j (e^(cos(h_i, p_j)/τ) + e^(cos(h_i, n_j)/τ))), mean over the batch and
    over the positives.

    Source: van den Oord et al. (2018); Gao et al. (2021), equations 1 and 5; Zhang & Li (2024), equation 3; several
    positives: Zhang et al. (2025), CoDiEmb; own negatives: Li et al. (2024), Conan-embedding.
    """

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig) -> None:
        super().__init__(model, config)
        self.projection: nn.Module = nn.Identity()
        if config.projection:
            width = model.get_embedding_dimension()
            assert width is not None
            self.projection = nn.Sequential(nn.Linear(width, width), nn.Tanh()).to(model.device)
        self.loss = MultipleNegativesRankingLoss(model, scale=1 / config.temperature)
        self.own_negatives = OwnNegativesLoss(config.temperature)

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Mean loss for anchors, their positives and, if there are more columns, negatives, each (B, dim).

        Raises:
            InputError: fewer columns than the positives need, or no negatives where they are the only candidates.
        """
        count = self.config.positives
        if len(embeddings) < 1 + count or (self.config.candidates == "own" and len(embeddings) < 2 + count):
            what = f"rows of {len(embeddings)} texts are too short for positives = {count}"
            what += " and negatives" if self.config.candidates == "own" else ""
            raise InputError(what, where="objective.positives")
        # Cosines over a temperature of 0.05 reach 20: bfloat16 would blur them by a tenth.
        with torch.autocast(embeddings[0].device.type, enabled=False):
            anchor, *others = (
                self.projection(column.to(torch.promote_types(column.dtype, torch.float32))) for column in embeddings
            )
            positives, negatives = others[:count], others[count:]
            return torch.stack([self._loss(anchor, positive, negatives) for positive in positives]).mean()

    def _loss(self, anchor: Tensor, positive: Tensor, negatives: list[Tensor]) -> Tensor:
        if self.config.candidates == "own":
            scores = torch.stack([cosine_similarity(anchor, negative, dim=-1) for negative in negatives], dim=1)
            own: Tensor = self.own_negatives(cosine_similarity(anchor, positive, dim=-1), scores)
            return own
        loss: Tensor = self.loss.compute_loss_from_embeddings([anchor, positive, *negatives], None)  # type: ignore[arg-type]
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return {"loss": self.config.name, "temperature": self.config.temperature, "projection": self.config.projection}
