"""Negatives ranked by the encoder that a stage begins with."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from gradate.data.examples import Examples
from gradate.data.locations import DataLocations
from gradate.data.ranked import Embeddings
from gradate.data.sources import is_retrieval
from gradate.engine.features import FeatureCache, cache_folder
from gradate.engine.modes import limited_length
from gradate.models.graded import GradedModel
from gradate.runs.resolve import stage_examples
from gradate.training.stage import Stage
from gradate.training.task import TaskConfig


def with_own_ranking(
    model: GradedModel, stage: Stage, examples: Examples, beside: Sequence[Examples], locations: DataLocations
) -> tuple[Examples, tuple[Examples, ...]]:
    """A stage's examples and its tasks', their negatives ranked by the model where `negatives.ranked_by` says so.

    Args:
        model: The model that the stage begins with.
        stage: Resolved stage.
        examples: Its own examples, as they were resolved.
        beside: Those of the tasks beside it.
        locations: Where the data lies.
    """

    def embed(texts: list[str]) -> Embeddings:
        encoded = FeatureCache(cache_folder()).encode(
            model.encoder, texts, precision=model.precision, prompt=stage.prompts, show_progress=sys.stderr.isatty()
        )
        return np.asarray(encoded.embeddings[encoded.index])

    def ranked(part: Stage | TaskConfig, found: Examples) -> Examples:
        by_encoder = part.negatives.ranked_by == "encoder" and is_retrieval(part.source)
        return stage_examples(part, locations, embed) if by_encoder else found

    with limited_length(model.encoder, stage.max_length):
        own = ranked(stage, examples)
        return own, tuple(ranked(task, found) for task, found in zip(stage.beside, beside, strict=True))
