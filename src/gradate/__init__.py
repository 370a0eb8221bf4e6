"""gradate: embedding models whose similarity follows the grades."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradate.data.examples import Pairs
    from gradate.data.readers import read_pairs
    from gradate.errors import GradateError, InputError
    from gradate.evaluation.protocol import evaluate
    from gradate.losses.smooth_k2 import SmoothK2Loss
    from gradate.losses.translated_relu import TranslatedReLULoss
    from gradate.models.graded import GradedModel
    from gradate.models.head import PairHead
    from gradate.objectives.config import ObjectiveConfig
    from gradate.runs.recipe import Recipe
    from gradate.runs.run import train
    from gradate.scale import LabelScale
    from gradate.training.stage import Stage

__version__ = "0.1.0"

__all__ = [
    "GradateError",
    "GradedModel",
    "InputError",
    "LabelScale",
    "ObjectiveConfig",
    "PairHead",
    "Pairs",
    "Recipe",
    "SmoothK2Loss",
    "Stage",
    "TranslatedReLULoss",
    "__version__",
    "evaluate",
    "read_pairs",
    "train",
]

# Loaded on first use: torch takes seconds, and `gradate --help` must not wait for it.
_HOMES = {
    "GradateError": "gradate.errors",
    "GradedModel": "gradate.models.graded",
    "InputError": "gradate.errors",
    "LabelScale": "gradate.scale",
    "ObjectiveConfig": "gradate.objectives.config",
    "PairHead": "gradate.models.head",
    "Pairs": "gradate.data.examples",
    "Recipe": "gradate.runs.recipe",
    "SmoothK2Loss": "gradate.losses.smooth_k2",
    "Stage": "gradate.training.stage",
    "TranslatedReLULoss": "gradate.losses.translated_relu",
    "evaluate": "gradate.evaluation.protocol",
    "read_pairs": "gradate.data.readers",
    "train": "gradate.runs.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradate' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
