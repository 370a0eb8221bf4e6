"""The run log: one JSON line for every logged update and every selection."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradate.training.callbacks.observer import Observer


class RunLog:
    """`log.jsonl` of a run, appended to line by line; without a path (on all ranks but one) it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Write one record."""
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def records(self) -> list[dict[str, Any]]:
        """All complete records; a line cut off by a crash is left out."""
        if self.path is None or not self.path.exists():
            return []
        records = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
        return records

    def rewind(self, stage: int, step: int) -> None:
        """Forget what lies after an update of a stage, so that a resumed run does not log it twice."""
        if self.path is None:
            return
        kept = [r for r in self.records() if (r["stage"], r.get("step", 0)) <= (stage, step)]
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept)
        self.path.write_text(text, encoding="utf-8")

    def seconds(self, stage: int) -> float:
        """Time of training that the log holds of a stage: what a resumed run spent before it was stopped."""
        return max((float(r.get("seconds", 0.0)) for r in self.records() if r["stage"] == stage), default=0.0)


def negative_looks(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every look at the hard negatives in a log: its update, and what `MineNegativesCallback` found.

    >>> found = {"mean_cosine": 0.5, "replaced": 0, "queries": 9}
    >>> negative_looks([{"step": 0, "hard_negatives": found}, {"step": 5, "loss": 0.1}])
    [{'step': 0, 'mean_cosine': 0.5, 'replaced': 0, 'queries': 9}]
    """
    return [{"step": r["step"], **r["hard_negatives"]} for r in records if "hard_negatives" in r]


class LogCallback(TrainerCallback):
    """Writes the trainer's records to the run log and passes them to the observer.

    Args:
        log: The run's log.
        stage: Number of the stage, from 1.
        metric: Name of the selection metric; None where nothing is selected.
        greater_is_better: Whether the larger value of the metric wins.
        observer: Who watches.
    """

    def __init__(
        self, log: RunLog, stage: int, metric: str | None, greater_is_better: bool, observer: Observer
    ) -> None:
        self.log, self.stage, self.metric, self.observer = log, stage, metric, observer
        self.greater_is_better = greater_is_better
        self.earlier, self.started = log.seconds(stage), time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Tell the observer."""
        self.observer.stepped(state.global_step, {})

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record loss, learning rate and gradient norm."""
        kept = {k: v for k, v in (logs or {}).items() if k in ("loss", "learning_rate", "grad_norm")}
        if kept and state.is_world_process_zero:
            seconds = round(self.earlier + time.perf_counter() - self.started, 3)
            record = {"stage": self.stage, "step": state.global_step, "epoch": state.epoch, **kept, "seconds": seconds}
            self.log.append(record)
            self.observer.stepped(state.global_step, record)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record the selection's metrics."""
        if self.metric is None or metrics is None or not state.is_world_process_zero:
            return
        values = {k.removeprefix("eval_"): v for k, v in metrics.items()}
        chosen = {k: v for k, v in values.items() if isinstance(v, float) and not k.endswith(("_second", "runtime"))}
        value, best = values[self.metric], state.best_metric
        improved = best is None or (value > best if self.greater_is_better else value < best)
        self.log.append(
            {
                "stage": self.stage,
                "step": state.global_step,
                "epoch": state.epoch,
                "selection": value,
                "metric": self.metric,
                "metrics": chosen,
            }
        )
        self.observer.selected(state.global_step, self.metric, value, improved)
