"""From a configuration to its objective."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer

from gradate.errors import InputError
from gradate.models.head import PairHead
from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.contrastive import ContrastiveObjective
from gradate.objectives.pair import PairObjective
from gradate.scale import LabelScale


def build_objective(
    config: ObjectiveConfig, model: SentenceTransformer, head: PairHead | None, scale: LabelScale | None
) -> Objective:
    """The objective that a configuration names, around an encoder.

    Args:
        config: Resolved objective.
        model: The encoder, ending where the head reads.
        head: Pair head, for losses that read grades.
        scale: Scale of the grades, for the same.

    Raises:
        InputError: a loss that reads grades without head or scale, or a head that does not fit it.
    """
    if not config.reads_grades:
        return ContrastiveObjective(model, config)
    if head is None or scale is None:
        raise InputError(f"{config.name} needs a head and graded pairs", where="objective.name")
    return PairObjective(model, head, config, scale)
