"""A run as it is seen on the terminal: decisions, a progress bar, a table of losses and selection scores."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradate.cli.output import Output, figure
from gradate.training.stage import Stage

ROW = "{:>8}  {:>7}  {:>10}  {:>16}  {}"


class Watcher:
    """Draws what a run reports, on stderr; the bar only on a terminal. Use it as a context.

    Args:
        output: Where to draw.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bar: Progress | None = None
        self._latest: dict[str, Any] = {}
        self._solved = False

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def note(self, text: str) -> None:
        """Print a decision or a fact."""
        self._output.note(text)

    def stage_started(self, index: int, count: int, stage: Stage, steps: int | None) -> None:
        """Name the stage; open its bar and the head of its table."""
        self._latest, self._solved = {}, steps is None
        length = "solved to the optimum" if steps is None else f"{steps:,} updates"
        objective = stage.objective.title
        self._output.note("", f"stage {index}/{count}: {stage.trainable} on {stage.source}, {objective}, {length}")
        if steps is None:
            return
        metric = stage.selection.metric if stage.selection is not None else ""
        self._output.note(ROW.format("update", "epoch", "loss", metric, "").rstrip())
        if self._output.progress:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("loss {task.fields[loss]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._output.notes, transient=True)
            self._bar.add_task("", total=steps, loss="–")
            self._bar.start()

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        """Move the bar, and remember what was logged for the next row."""
        self._latest |= record
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=step, loss=self._loss())

    def selected(self, step: int, metric: str, value: float, best: bool) -> None:
        """Print a row; a star marks the best so far."""
        epoch = f"{self._latest.get('epoch', 0.0):.2f}"
        self._output.note(ROW.format(step, epoch, self._loss(), figure(value), "*" if best else "").rstrip())

    def stage_finished(self, index: int, summary: dict[str, Any]) -> None:
        """Close the bar, and say what was kept."""
        self._close_bar()
        kept = f"{'solved in iterations:' if self._solved else 'kept update'} {summary['step']:,}"
        if summary["metric"] is not None and summary["best"] is not None:
            kept += f", {summary['metric']} {figure(summary['best'])}"
        self._output.note(f"{kept}; {summary['seconds']:.1f} s, {summary['pairs_per_second']:,.0f} pairs/s")

    def _loss(self) -> str:
        loss = self._latest.get("loss")
        return "–" if loss is None else f"{loss:.4f}"

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
