"""The pair objective: encoder, pair head and loss in sentence-transformers' loss protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from gradate.errors import InputError
from gradate.losses.deviation import DeviationLoss, Reduction
from gradate.losses.smooth_k2 import SmoothK2Loss
from gradate.losses.translated_relu import TranslatedReLULoss
from gradate.models.head import PairHead
from gradate.objectives.base import Objective
from gradate.objectives.config import BUFFERED, ObjectiveConfig
from gradate.scale import LabelScale


def build_loss(config: ObjectiveConfig, scale: LabelScale, *, reduction: Reduction = "mean") -> nn.Module:
    """The loss that a configuration names, on a scale: a module (prediction, target) -> Tensor.

    Raises:
        InputError: parameters still `auto`, or x0 above d/2.
    """
    if config.name == "l1":
        return nn.L1Loss(reduction=reduction)
    if config.name == "mse":
        return nn.MSELoss(reduction=reduction)
    if config.name == "cross-entropy":
        return nn.CrossEntropyLoss(reduction=reduction)
    if config.k == "auto" or config.x0 == "auto":
        raise InputError("k and x0 are still auto", where="objective", remedy="resolve the recipe against its data")
    scale.check_x0(config.x0)
    loss: type[DeviationLoss] = SmoothK2Loss if config.name == "smooth-k2" else TranslatedReLULoss
    return loss(config.k, config.x0, reduction=reduction, boundary=config.boundary, low=scale.low, high=scale.high)


class PairObjective(Objective):
    """Per-example objective on graded pairs: loss(head(u, v), grade), both texts in one forward pass.

    Usable as the `loss` of any `SentenceTransformerTrainer`; `gradate.training` adds what that trainer leaves out
    (saving, resuming, clipping and synchronising the head).

    Args:
        model: The encoder, ending where the head reads: without a trailing `Normalize` for `features="raw"`.
        head: Pair head; `outputs` must be the number of grades for `cross-entropy`, else 1.
        config: Resolved objective.
        scale: Scale of the labels.

    Label contract: a float column with grades on `scale`, shape (B,), or (B, 2) with a weight of mean 1 beside it.
    """

    def __init__(self, model: SentenceTransformer, head: PairHead, config: ObjectiveConfig, scale: LabelScale) -> None:
        super().__init__(model, config)
        outputs = len(scale.values or ()) if config.name == "cross-entropy" else 1
        if outputs == 0:
            raise InputError(f"cross-entropy needs classes, the scale {scale} is continuous", where="objective.name")
        if head.outputs != outputs:
            raise InputError(
                f"{config.name} on the scale {scale} needs a head with {outputs} outputs, this one has {head.outputs}",
                where="head.outputs",
            )
        self.head = head
        self.scale = scale
        self.loss = build_loss(config, scale, reduction="none")

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Mean loss for embeddings u and v, each (B, dim), and grades (B,), or grades and weights (B, 2)."""
        u, v = embeddings
        assert labels is not None
        weights = None
        if labels.ndim == 2:
            labels, weights = labels[:, 0], labels[:, 1]
        values = self.loss(self.head(u, v), self.target(labels))
        weighted: Tensor = values if weights is None else values * weights
        return weighted.mean()

    def target(self, grades: Tensor) -> Tensor:
        """What the loss compares with: the grades, or their class index for `cross-entropy`."""
        if self.config.name != "cross-entropy":
            return grades.float()
        classes = torch.tensor(self.scale.values, device=grades.device, dtype=torch.float64)
        return (grades.double()[:, None] - classes).abs().argmin(dim=1)

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        buffered = self.config.name in BUFFERED
        extra = {"k": self.config.k, "x0": self.config.x0, "boundary": self.config.boundary} if buffered else {}
        return {"loss": self.config.name, "concatenation": self.head.concatenation, "scale": str(self.scale), **extra}
