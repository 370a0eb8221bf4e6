"""From a configuration to its objective."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer

from gradate.errors import InputError
from gradate.models.head import PairHead
from gradate.objectives.base import Objective
from gradate.objectives.config import CONTRASTIVE, ON_COSINE, ObjectiveConfig
from gradate.objectives.contrastive import ContrastiveObjective
from gradate.objectives.cosine import CosineObjective
from gradate.objectives.mid_layer import MidLayerObjective
from gradate.objectives.pair import PairObjective
from gradate.objectives.sum import SumObjective
from gradate.scale import LabelScale


def build_objective(
    config: ObjectiveConfig, model: SentenceTransformer, head: PairHead | None, scale: LabelScale | None
) -> Objective:
    """The objective that a configuration names, around an encoder.

    Args:
        config: Resolved objective.
        model: The encoder, ending where the head reads.
        head: Pair head, for losses that read it.
        scale: Scale of the grades, for losses that read grades.

    Raises:
        InputError: a loss that reads grades without head or scale, or a head that does not fit it.
    """
    if config.name in CONTRASTIVE:
        return ContrastiveObjective(model, config)
    if scale is None:
        raise InputError(f"{config.name} needs graded pairs", where="objective.name")
    if config.name == "sum":
        return SumObjective(model, config, [build_objective(part, model, head, scale) for part in config.parts])
    if config.name in ON_COSINE:
        return CosineObjective(model, config, scale)
    if config.name == "mid-info-nce":
        return MidLayerObjective(model, config, scale)
    if head is None:
        raise InputError(f"{config.name} needs a head and graded pairs", where="objective.name")
    return PairObjective(model, head, config, scale)
