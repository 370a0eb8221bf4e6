"""Mining while training: negatives that have become easy give way to others of their pool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradate.engine.encoding import encode_distinct
from gradate.engine.modes import kept_mode
from gradate.engine.precision import Precision
from gradate.engine.search import unit_rows
from gradate.training.callbacks.run_log import RunLog
from gradate.training.hard_negatives import HardNegatives

FILE = "hard_negatives.json"


class MineNegativesCallback(TrainerCallback):
    """Looks at every query's negatives with the model of the moment, and logs their mean cosine.

    Args:
        negatives: What each query shows; changed in place.
        encoder: The encoder in training.
        precision: Precision of the encoding.
        log: The run's log.
        stage: Number of the stage, from 1.
        resumed: Checkpoint that the stage goes on from; None from the start.
    """

    def __init__(
        self,
        negatives: HardNegatives,
        encoder: SentenceTransformer,
        precision: Precision,
        log: RunLog,
        stage: int,
        resumed: Path | None,
    ) -> None:
        self.negatives, self.encoder, self.precision = negatives, encoder, precision
        self.log, self.stage = log, stage
        self._looked_at: int | None = None
        if resumed is not None:
            negatives.restore(json.loads((resumed / FILE).read_text(encoding="utf-8")))
            self._looked_at = int(resumed.name.rsplit("-", 1)[1])

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the first negatives."""
        if self._looked_at is None:
            self._look(state)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look again where it is time."""
        every = self.negatives.config.replace_every
        if every is not None and state.global_step % every == 0 and state.global_step != self._looked_at:
            self._look(state)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Keep what is shown with the checkpoint."""
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            (folder / FILE).write_text(json.dumps(self.negatives.state()), encoding="utf-8")

    def _look(self, state: TrainerState) -> None:
        self._looked_at = state.global_step
        rows = self.negatives.rows
        shown = [self.negatives.shown(row) for row in range(len(rows))]
        texts = [*rows.query, *(text for texts in shown for text in texts)]
        with kept_mode(self.encoder):
            encoded = encode_distinct(self.encoder, texts, precision=self.precision)
        vectors = unit_rows(encoded.embeddings)[encoded.index]
        queries, negatives = vectors[: len(rows)], vectors[len(rows) :].reshape(len(rows), -1, vectors.shape[1])
        means = np.einsum("qd,qnd->qn", queries, negatives).mean(axis=1).astype(np.float64)
        replaced = self.negatives.check(means)
        record = {"stage": self.stage, "step": state.global_step, "epoch": state.epoch}
        found = {"mean_cosine": float(means.mean()), "replaced": len(replaced), "queries": len(rows)}
        if state.is_world_process_zero:
            self.log.append(record | {"hard_negatives": found})
