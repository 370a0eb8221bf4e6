"""Running one stage: from a model and pairs to a better model."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import EarlyStoppingCallback, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from gradate.data.examples import Pairs
from gradate.engine.encoding import encode_distinct, without_normalize
from gradate.engine.precision import Precision
from gradate.errors import InputError, Interrupted
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.pair import PairObjective
from gradate.training.callbacks.last_step import LastStepCallback
from gradate.training.callbacks.observer import Observer, SilentObserver
from gradate.training.callbacks.run_log import LogCallback, RunLog
from gradate.training.callbacks.stop_signal import StopCallback, StopSignal
from gradate.training.head_fit import PairFeatures, fit_head
from gradate.training.selection import SelectionEvaluator
from gradate.training.stage import Stage
from gradate.training.trainable import trainable
from gradate.training.trainer import GradedTrainer, last_checkpoint


@dataclass(frozen=True)
class StageResult:
    """What a stage came to."""

    metric: str | None
    start: float | None
    """Selection value before the stage."""
    best: float | None
    """Selection value of the kept checkpoint."""
    step: int
    """Update of the kept checkpoint."""
    steps: int
    seconds: float
    pairs_per_second: float
    head_fit: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


def run_stage(
    stage: Stage,
    model: GradedModel,
    pairs: Pairs,
    *,
    folder: Path,
    log: RunLog,
    index: int = 1,
    precision: Precision,
    seed: int = 1,
    selection: Mapping[str, Pairs] | None = None,
    observer: Observer | None = None,
    stop: StopSignal | None = None,
) -> StageResult:
    """Train `model` in place; its head must already lie on the pairs' scale (see `hand_over_head`).

    A complete checkpoint in `folder` is resumed: the weights then end bitwise as if nothing had happened, on the same
    machine with the same threads and precision.

    Args:
        stage: Resolved stage: nothing in it is `auto` any more.
        model: Encoder and head.
        pairs: Training pairs.
        folder: Where the stage's checkpoints go.
        log: The run's log.
        index: Number of the stage, from 1.
        precision: Precision of the encoder's arithmetic.
        seed: Seed of order, dropout and adapters.
        selection: Named sets that judge checkpoints; empty or None keeps the last.
        observer: Who watches.
        stop: Signals to heed.

    Raises:
        InputError: the stage does not fit the model or the pairs.
        TrainingStopped: loss or gradient became NaN.
        Interrupted: a signal came; a checkpoint of that update was written.
    """
    observer = observer or SilentObserver()
    head = model.head
    if head is None:
        raise InputError("the stage needs a model with a head", remedy="call hand_over_head first")
    evaluator = None
    if selection and stage.selection is not None:
        evaluator = SelectionEvaluator(selection, head, precision, stage.selection, stage.prompts)
    body = without_normalize(model.encoder)
    limit = body.max_seq_length
    if stage.max_length is not None:
        body.max_seq_length = min(stage.max_length, limit or stage.max_length)
    try:
        if stage.is_convex:
            return _solve(stage, model, head, pairs, log, index, precision, seed, evaluator, observer)
        return _train(
            stage, model, head, pairs, folder, log, index, precision, seed, evaluator, observer, stop or StopSignal()
        )
    finally:
        body.max_seq_length = limit
        model.encoder.eval()
        head.eval()


def hand_over_head(model: GradedModel, pairs: Pairs, head_factory: Any, *, rescale: bool, seed: int) -> None:
    """Give `model` a head on the scale of `pairs`: a new one, or its own re-expressed exactly.

    Args:
        model: Changed in place.
        pairs: The next stage's pairs.
        head_factory: Makes a new head, called where there is none.
        rescale: Whether a head from another scale is mapped (w ← s·w, b ← s·b + t); else it is taken as it is.
        seed: Seed of a new head's weights.
    """
    if model.head is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model.head = head_factory()
    elif rescale and model.scale is not None and model.scale != pairs.scale and model.head.outputs == 1:
        model.head.rescale(*model.scale.map_to(pairs.scale))
    model.scale = pairs.scale


def to_dataset(pairs: Pairs, stage: Stage) -> Dataset:
    """Columns that sentence-transformers' collator reads: both texts, and the grade with its weight, if any."""
    grades = np.trunc(pairs.grades) if stage.label_cast == "int" else pairs.grades
    columns: dict[str, Any] = {"sentence1": list(pairs.text1), "sentence2": list(pairs.text2)}
    weights = normalized_weights(pairs)
    columns["score"] = grades.tolist() if weights is None else np.stack([grades, weights], axis=1).tolist()
    return Dataset.from_dict(columns)


def normalized_weights(pairs: Pairs) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Pair weights with mean 1; None where there are none."""
    return None if pairs.weights is None else np.asarray(pairs.weights / pairs.weights.mean())


def _solve(
    stage: Stage,
    model: GradedModel,
    head: PairHead,
    pairs: Pairs,
    log: RunLog,
    index: int,
    precision: Precision,
    seed: int,
    evaluator: SelectionEvaluator | None,
    observer: Observer,
) -> StageResult:
    started = time.perf_counter()
    body = without_normalize(model.encoder)
    n = len(pairs)
    encoded = encode_distinct(
        body, [*pairs.text1, *pairs.text2], precision=precision, prompt=stage.prompts, show_progress=n > 20_000
    )
    rows = torch.from_numpy(encoded.index)
    features = PairFeatures(torch.from_numpy(encoded.embeddings), rows[:n], rows[n:], head)
    grades = np.trunc(pairs.grades) if stage.label_cast == "int" else pairs.grades
    fit = fit_head(
        head,
        features,
        grades,
        stage.objective,
        pairs.scale,
        weights=normalized_weights(pairs),
        l2=stage.l2,
        seed=seed,
    )
    seconds = time.perf_counter() - started
    value = None
    record: dict[str, Any] = {"stage": index, "step": fit.iterations, "epoch": 1.0, "loss": fit.objective}
    if evaluator is not None:
        metrics = evaluator(body)
        value = metrics[evaluator.metric]
        record |= {"selection": value, "metric": evaluator.metric, "metrics": metrics}
    log.append(record | {"head_fit": fit.to_json()})
    observer.stepped(fit.iterations, record)
    metric = evaluator.metric if evaluator is not None else None
    return StageResult(metric, None, value, fit.iterations, fit.iterations, seconds, n / seconds, fit.to_json())


def _train(
    stage: Stage,
    model: GradedModel,
    head: PairHead,
    pairs: Pairs,
    folder: Path,
    log: RunLog,
    index: int,
    precision: Precision,
    seed: int,
    evaluator: SelectionEvaluator | None,
    observer: Observer,
    stop: StopSignal,
) -> StageResult:
    body = without_normalize(model.encoder)
    checkpoint = _resume_point(folder)
    log.rewind(index, int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else -1)
    start_value = _start_value(log, index)
    if evaluator is not None and start_value is None:
        metrics = evaluator(body)
        start_value = metrics[evaluator.metric]
        chosen = {"selection": start_value, "metric": evaluator.metric, "metrics": metrics}
        log.append({"stage": index, "step": 0, "epoch": 0.0, **chosen})
        observer.selected(0, evaluator.metric, start_value, False)
    set_seed(seed)
    with trainable(body, head, stage):
        trainer = GradedTrainer(
            stage,
            PairObjective(body, head, stage.objective, pairs.scale),
            rows=pairs.rows,
            args=_arguments(stage, folder, precision, seed, evaluator, body.device),
            train_dataset=to_dataset(pairs, stage),
            evaluator=evaluator,
            callbacks=_callbacks(stage, log, index, evaluator, observer, stop),
        )
        for unwanted in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(unwanted)
        stop.patient = True
        try:
            output = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            stop.patient = False
        state = trainer.state
        if stop.received is not None and state.global_step < state.max_steps:
            raise Interrupted(f"stopped by {stop.received} at update {state.global_step} of {state.max_steps}")
    best = state.best_metric if evaluator is not None else None
    kept = state.best_global_step if evaluator is not None and state.best_global_step else state.global_step
    seconds = float(output.metrics["train_runtime"])
    rate = len(pairs) * float(state.epoch or 0) / seconds if seconds else 0.0
    metric = evaluator.metric if evaluator is not None else None
    return StageResult(metric, start_value, best, int(kept), state.global_step, seconds, rate)


def _resume_point(folder: Path) -> Path | None:
    checkpoint = last_checkpoint(folder)
    for path in folder.glob("checkpoint-*"):
        # A crash while writing leaves a folder without its last file; it would shadow the complete ones.
        if checkpoint is None or int(path.name.rsplit("-", 1)[1]) > int(checkpoint.name.rsplit("-", 1)[1]):
            shutil.rmtree(path)
    return checkpoint


def _start_value(log: RunLog, index: int) -> float | None:
    found = [r["selection"] for r in log.records() if r["stage"] == index and r["step"] == 0 and "selection" in r]
    return found[0] if found else None


def _callbacks(
    stage: Stage,
    log: RunLog,
    index: int,
    evaluator: SelectionEvaluator | None,
    observer: Observer,
    stop: StopSignal,
) -> list[TrainerCallback]:
    metric = evaluator.metric if evaluator is not None else None
    greater = evaluator.greater_is_better if evaluator is not None else True
    callbacks: list[TrainerCallback] = [LogCallback(log, index, metric, greater, observer)]
    callbacks += [LastStepCallback(), StopCallback(stop)]
    if evaluator is not None and stage.patience is not None:
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=stage.patience))
    return callbacks


def _arguments(
    stage: Stage,
    folder: Path,
    precision: Precision,
    seed: int,
    evaluator: SelectionEvaluator | None,
    device: torch.device,
) -> SentenceTransformerTrainingArguments:
    every = int(stage.evaluate_every)
    on_cpu = device.type == "cpu"
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=stage.epochs,
        per_device_train_batch_size=int(stage.batch_size),
        gradient_accumulation_steps=stage.accumulate,
        learning_rate=stage.learning_rate,
        lr_scheduler_type=stage.scheduler,
        warmup_steps=stage.warmup,
        weight_decay=stage.weight_decay,
        max_grad_norm=stage.clip if stage.clip is not None else math.inf,
        eval_strategy="steps" if evaluator is not None else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=1 if evaluator is None else 2,
        load_best_model_at_end=evaluator is not None,
        metric_for_best_model=f"eval_{evaluator.metric}" if evaluator is not None else None,
        greater_is_better=evaluator.greater_is_better if evaluator is not None else None,
        logging_strategy="steps",
        logging_steps=5,
        logging_nan_inf_filter=False,
        use_cpu=on_cpu,
        bf16=precision.name == "bf16",
        seed=seed,
        data_seed=seed,
        prompts=stage.prompts,
        activation_checkpointing=stage.activation_checkpointing,
        report_to=list(stage.report_to) or "none",
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
    )
