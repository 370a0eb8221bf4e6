"""The mid-layer objective: InfoNCE on a layer in the middle of the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from gradate.engine.layer_tap import LayerTap
from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig
from gradate.scale import LabelScale


class MidLayerObjective(Objective):
    """InfoNCE over the second texts of the batch, for the pairs of high grade, on embeddings pooled from a layer.

    Args:
        model: The encoder, a transformer with pooling.
        config: `layer`, `threshold` and `temperature`.
        scale: Scale of the labels.

    Label contract: grades on `scale`; those from `threshold` of its range on are positives. A batch without any
    costs 0.

    Formula: mean over i with grade ≥ threshold of −log(e^(cos(u_i, v_i)/τ) / Σ_j e^(cos(u_i, v_j)/τ)).

    Source: Zhang et al. (2025), CoDiEmb; in its code the layer is the middle one, where its help says last but one.
    """

    reads_layer = True

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig, scale: LabelScale) -> None:
        super().__init__(model, config)
        self.scale = scale
        self._tap = LayerTap(model, config.layer)

    def reading(self) -> AbstractContextManager[None]:
        """Embeddings carry the layer's while this is open."""
        return self._tap.open()

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Loss for embeddings that carry the layer's behind their own, each (B, dim + width), and grades (B,)."""
        assert labels is not None
        grades = (labels if labels.ndim == 1 else labels[:, 0]).double()
        share = (grades - self.scale.low) / (self.scale.high - self.scale.low)
        positive = share >= self.config.threshold - 1e-9  # a grade of exactly the threshold, whatever its last bit
        width = self.width()
        with torch.autocast(embeddings[0].device.type, enabled=False):
            u, v = (
                normalize(column[:, width:].to(torch.promote_types(column.dtype, torch.float32)), dim=-1)
                for column in embeddings
            )
            if not bool(positive.any()):
                return (u.sum() + v.sum()) * 0.0
            scores = u[positive] @ v.T / self.config.temperature
            return cross_entropy(scores, positive.nonzero().squeeze(1))

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return self.config.parameters()
