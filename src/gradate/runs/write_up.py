"""Writing a run down: model with its card, predictions, plots and report."""

from __future__ import annotations

from typing import Any

from gradate.models.graded import GradedModel
from gradate.runs.resolve import Resolved
from gradate.runs.results import Run


def write_up(run: Run, model: GradedModel, resolved: Resolved, before: Any, after: Any) -> None:
    model.save(run.model, overwrite=True)
