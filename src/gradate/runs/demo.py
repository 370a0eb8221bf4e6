"""The demo: the main job on the embedded pairs and the embedded encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradate.models.graded import GradedModel
from gradate.runs.results import Run
from gradate.runs.run import train
from gradate.training.callbacks.observer import Observer

NEW_PAIRS = (
    (
        "My discount code expired yesterday, can you still apply it?",
        "The voucher ran out last night, will you honour it?",
    ),
    ("My discount code expired yesterday, can you still apply it?", "How do I reset the code on my safe?"),
)
"""Two pairs that stand in no part of the starter set."""


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows."""

    run: Run
    new_pairs: tuple[dict[str, Any], ...]
    """Text1, text2, prediction, grade and similarity of two pairs the model has never seen."""

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON."""
        return {
            **self.run.metrics,
            "new_pairs": list(self.new_pairs),
            "model": str(self.run.model),
            "report": str(self.run.report),
            "seconds": self.run.seconds,
        }


def demo(out: str | Path | None = None, *, observer: Observer | None = None) -> DemoResult:
    """Tune the bundled encoder on the starter pairs, measure it on their test part, and score two new pairs.

    Args:
        out: Run folder, empty or new; None takes the next free `runs/demo-N`.
        observer: Who watches.

    Raises:
        InputError: the folder is in the way, or the bundled encoder is not installed.
    """
    run = train("starter", out=out if out is not None else _free_folder(), observer=observer)
    assert isinstance(run, Run)
    model = GradedModel.from_pretrained(run.model)
    predictions, similarities = model.predict(NEW_PAIRS), model.similarity(NEW_PAIRS)
    scored = tuple(
        {"text1": a, "text2": b, "prediction": float(p), "grade": grade, "similarity": float(s)}
        for (a, b), p, grade, s in zip(NEW_PAIRS, predictions, model.classify(NEW_PAIRS), similarities, strict=True)
    )
    return DemoResult(run, scored)


def _free_folder() -> Path:
    number = 1
    while Path("runs", f"demo-{number}").exists():
        number += 1
    return Path("runs", f"demo-{number}")
