"""The observer: what a run tells whoever watches it."""

from __future__ import annotations

from typing import Any, Protocol

from gradate.training.stage import Stage


class Observer(Protocol):
    """Receives a run's progress; the command line draws it, the library's default ignores it."""

    def note(self, text: str) -> None:
        """A decision or a fact, one line."""

    def stage_started(self, index: int, count: int, stage: Stage, steps: int | None) -> None:
        """A stage begins; `steps` updates will follow, None for one that is solved at once."""

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        """An update was made; `record` holds what was logged at it, often nothing."""

    def selected(self, step: int, metric: str, value: float, best: bool) -> None:
        """A checkpoint was judged."""

    def stage_finished(self, index: int, summary: dict[str, Any]) -> None:
        """A stage ended."""


class SilentObserver:
    """Ignores everything."""

    def note(self, text: str) -> None:
        """Ignore."""

    def stage_started(self, index: int, count: int, stage: Stage, steps: int | None) -> None:
        """Ignore."""

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        """Ignore."""

    def selected(self, step: int, metric: str, value: float, best: bool) -> None:
        """Ignore."""

    def stage_finished(self, index: int, summary: dict[str, Any]) -> None:
        """Ignore."""
