"""Judging the last update too, when the evaluation interval does not divide the number of updates."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class LastStepCallback(TrainerCallback):
    """Asks for a selection and a checkpoint at the last update."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for both."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = args.eval_strategy != "no"
            control.should_save = True
        return control
