"""Stopping on Ctrl-C or SIGTERM with a checkpoint written."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class StopSignal:
    """Context in which SIGINT and SIGTERM are noted; a second one interrupts at once.

    Outside the main thread, where Python allows no handlers, it notes nothing.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self.patient = False
        """Whether a trainer runs that stops after its update; otherwise a signal interrupts at once."""
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None or not self.patient:
            self.received = signal.Signals(number).name
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name


class StopCallback(TrainerCallback):
    """Ends training after the update during which a signal arrived, with a checkpoint of that very update."""

    def __init__(self, stop: StopSignal) -> None:
        self.stop = stop

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for a checkpoint and the end."""
        if self.stop.received is not None:
            control.should_save = True
            control.should_evaluate = False
            control.should_training_stop = True
        return control
