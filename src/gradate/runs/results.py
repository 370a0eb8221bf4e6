"""What a run returns."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradate.training.fit import StageResult


@dataclass(frozen=True)
class Run:
    """One finished run and where it lies."""

    folder: Path
    recipe: str
    seed: int
    stages: tuple[StageResult, ...]
    metrics: dict[str, Any]
    """`before`, `after`, `difference` of the evaluation; see `metrics.json`."""
    seconds: float

    @property
    def model(self) -> Path:
        """Folder of the tuned model."""
        return self.folder / "model"

    @property
    def report(self) -> Path:
        """The report, a self-contained page."""
        return self.folder / "report.html"

    @property
    def best(self) -> dict[str, Any] | None:
        """Selection metric, value and update of the kept checkpoint of the last stage that was judged."""
        for stage in reversed(self.stages):
            if stage.best is not None:
                return {"metric": stage.metric, "value": stage.best, "step": stage.step}
        return None

    @property
    def headline(self) -> float | None:
        """The one number of the run: the seven sets' average, or the Spearman of the cosine on the test pairs."""
        after = self.metrics.get("after") or {}
        value = after.get("average", after.get("spearman_cosine"))
        return None if value is None else float(value)

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON."""
        return {
            "run": str(self.folder),
            "model": str(self.model),
            "report": str(self.report),
            "recipe": self.recipe,
            "seed": self.seed,
            "best": self.best,
            "seconds": self.seconds,
            "pairs_per_second": self.stages[-1].pairs_per_second,
            "stages": [stage.to_json() for stage in self.stages],
            **self.metrics,
        }


@dataclass(frozen=True)
class Runs:
    """Runs of one recipe over several seeds."""

    folder: Path
    runs: tuple[Run, ...]

    @property
    def chosen(self) -> Run:
        """The run whose kept checkpoint the selection set likes best; the first where nothing was judged."""
        judged = [run for run in self.runs if run.best is not None]
        if not judged:
            return self.runs[0]
        lower = judged[0].best is not None and judged[0].best["metric"] == "mae_head"
        return (min if lower else max)(judged, key=lambda run: run.best["value"] if run.best else 0.0)

    @property
    def model(self) -> Path:
        """Folder of the chosen run's model."""
        return self.folder / "model"

    @property
    def report(self) -> Path:
        """Report of the chosen run."""
        return self.chosen.report

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON: every run, mean and sample standard deviation of the headline."""
        values = [run.headline for run in self.runs if run.headline is not None]
        return {
            "runs": [run.to_json() for run in self.runs],
            "mean": statistics.fmean(values) if values else None,
            "sd": statistics.stdev(values) if len(values) > 1 else None,
            "model": str(self.model),
            "chosen": self.chosen.seed,
        }
