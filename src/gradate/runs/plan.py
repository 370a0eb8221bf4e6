"""The plan: what a run would do, without doing it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradate.data.examples import Examples
from gradate.models.graded import GradedModel
from gradate.runs.resolve import Resolved, scale_of
from gradate.training.fit import to_dataset
from gradate.training.samplers import SeededBatchSampler, row_lengths
from gradate.training.stage import Stage


@dataclass(frozen=True)
class Plan:
    """A resolved recipe, its data in numbers, and the first batch of every stage."""

    recipe: str
    """Resolved recipe as YAML."""
    reasons: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    encoder: dict[str, Any]
    """Name, width, parameters, longest text and precision of the encoder as it was opened."""
    stages: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "dry_run": True,
            "recipe": self.recipe,
            "reasons": [{"key": key, "value": value, "reason": reason} for key, value, reason in self.reasons],
            "notes": list(self.notes),
            "encoder": self.encoder,
            "stages": list(self.stages),
        }


def plan(resolved: Resolved, seed: int, model: GradedModel) -> Plan:
    """Describe a run: its encoder, updates of each stage and the very rows its first batch will hold."""
    stages = []
    parts = zip(resolved.recipe.stages, resolved.stages, resolved.beside, resolved.selections, strict=True)
    for stage, examples, beside, selection in parts:
        scale = scale_of(examples)
        stages.append(
            {
                "source": examples.name,
                "pairs": len(examples),
                "scale": None if scale is None else str(scale),
                "trainable": stage.trainable,
                "objective": stage.objective.title,
                "beside": [
                    {"source": part.name, "examples": len(part), "objective": task.objective.title}
                    for task, part in zip(stage.beside, beside, strict=True)
                ],
                "updates": planned_updates(stage, examples, beside),
                "selection": {name: len(found) for name, found in selection.items()},
                "first_batch": _first_batch(stage, examples, seed),
            }
        )
    encoder = {
        "name": resolved.recipe.encoder,
        "dimension": model.encoder.get_embedding_dimension(),
        "parameters": sum(parameter.numel() for parameter in model.encoder.parameters()),
        "max_length": model.encoder.max_seq_length,
        "precision": model.precision.name,
    }
    return Plan(resolved.recipe.to_yaml(), resolved.reasons, resolved.notes, encoder, tuple(stages))


def planned_updates(stage: Stage, examples: Examples, beside: Sequence[Examples] = ()) -> int | None:
    """How many updates a stage makes; None where a solver fits it."""
    if stage.is_convex:
        return None
    batches = math.ceil(len(examples) / int(stage.batch_size))
    if stage.mix == "alternate":
        batches += sum(math.ceil(len(part) / task.batch_size) for task, part in zip(stage.beside, beside, strict=True))
    return math.ceil(math.ceil(batches / stage.accumulate) * stage.epochs)


def _first_batch(stage: Stage, examples: Examples, seed: int) -> list[dict[str, Any]]:
    dataset = to_dataset(examples, stage.objective, stage.label_cast)
    batch = list(range(min(int(stage.batch_size), len(examples))))
    if not stage.is_convex:
        lengths = row_lengths(dataset) if stage.is_bucketed else None
        batch = next(iter(SeededBatchSampler(dataset, batch_size=int(stage.batch_size), seed=seed, lengths=lengths)))
    return [dict(dataset[i]) for i in batch]
