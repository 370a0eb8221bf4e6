"""Running one stage: from a model and pairs to a better model."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import EarlyStoppingCallback, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from gradate.data.examples import Examples, Pairs
from gradate.data.ranked import RankedRows
from gradate.engine.allocator import give_back_freed_memory
from gradate.engine.encoding import count_truncated, without_normalize
from gradate.engine.features import FeatureCache, cache_folder
from gradate.engine.modes import limited_length
from gradate.engine.precision import Precision
from gradate.errors import InputError, Interrupted
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.build import build_objective
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.last_step import LastStepCallback
from gradate.training.callbacks.mine_negatives import MineNegativesCallback
from gradate.training.callbacks.observer import Observer, SilentObserver
from gradate.training.callbacks.run_log import LogCallback, RunLog
from gradate.training.callbacks.stop_signal import StopCallback, StopSignal
from gradate.training.compilation import training_passes
from gradate.training.hard_negatives import HardNegatives, ShowingNegatives
from gradate.training.head_fit import fit_head
from gradate.training.pair_features import PairFeatures
from gradate.training.selection import SelectionEvaluator
from gradate.training.stage import Stage
from gradate.training.trainable import trainable
from gradate.training.trainer import OWN, GradedTrainer, last_checkpoint, task_names

SHOW_ENCODING_FROM = 20_000
"""Pairs from which on encoding them for the head shows a progress bar."""
LOG_EVERY = 5
"""Updates between two records of loss, learning rate and gradient norm."""


@dataclass(frozen=True)
class StageResult:
    """What a stage came to."""

    metric: str | None
    start: float | None
    """Selection value before the stage."""
    best: float | None
    """Selection value of the kept checkpoint."""
    step: int
    """Update of the kept checkpoint; 0 where none beat the start, which is then kept."""
    steps: int
    seconds: float
    pairs_per_second: float
    head_fit: dict[str, Any] | None = None
    truncated: int = 0
    """Distinct training texts longer than the encoder reads in this stage."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


def run_stage(
    stage: Stage,
    model: GradedModel,
    examples: Examples,
    *,
    folder: Path,
    log: RunLog,
    index: int = 1,
    precision: Precision,
    seed: int = 1,
    selection: Mapping[str, Pairs] | None = None,
    beside: Sequence[Examples] = (),
    observer: Observer | None = None,
    stop: StopSignal | None = None,
) -> StageResult:
    """Train `model` in place; a head that trains must already lie on the pairs' scale (see `hand_over_head`).

    A complete checkpoint in `folder` is resumed: the weights then end bitwise as if nothing had happened, on the same
    machine with the same threads and precision.

    Args:
        stage: Resolved stage: nothing in it is `auto` any more.
        model: Encoder and head.
        examples: Training examples: graded pairs where the objective reads grades.
        folder: Where the stage's checkpoints go.
        log: The run's log.
        index: Number of the stage, from 1.
        precision: Precision of the encoder's arithmetic.
        seed: Seed of order, dropout and adapters.
        selection: Named sets that judge checkpoints; empty or None keeps the last.
        beside: Examples of the tasks beside the stage, in the order of `stage.beside`.
        observer: Who watches.
        stop: Signals to heed.

    Raises:
        InputError: the stage does not fit the model or the pairs.
        TrainingStopped: loss or gradient became NaN.
        Interrupted: a signal came; a checkpoint of that update was written.
    """
    observer = observer or SilentObserver()
    head = model.head if stage.objective.needs_head else None
    if head is None and stage.objective.needs_head:
        raise InputError("the stage needs a model with a head", remedy="call hand_over_head first")
    evaluator = None
    if selection and stage.selection is not None:
        evaluator = SelectionEvaluator(selection, head, precision, stage.selection, stage.prompts)
    body = without_normalize(model.encoder)
    job = _Job(stage, body, head, examples, tuple(beside), folder, log, index, precision, seed, evaluator, observer)
    try:
        with limited_length(body, stage.max_length):
            truncated = _note_truncated(job)
            result = _solve(job) if stage.is_convex else _train(job, stop or StopSignal())
        return replace(result, truncated=truncated)
    finally:
        model.encoder.eval()
        if head is not None:
            head.eval()
        give_back_freed_memory()


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


def to_dataset(
    examples: Examples, objective: ObjectiveConfig, label_cast: Literal["float", "int"] = "float"
) -> Dataset:
    """Columns that sentence-transformers' collator reads: the texts, and the grade with its weight, if they count."""
    columns: dict[str, Any] = dict(examples.columns())
    if objective.reads_grades and isinstance(examples, Pairs):
        grades = np.trunc(examples.grades) if label_cast == "int" else examples.grades
        weights = normalized_weights(examples)
        columns["score"] = grades.tolist() if weights is None else np.stack([grades, weights], axis=1).tolist()
    return Dataset.from_dict(columns)


def _training_data(job: _Job) -> Dataset | dict[str, Dataset]:
    stage = job.stage
    own = to_dataset(job.examples, stage.objective, stage.label_cast)
    if not stage.beside:
        return own
    others = [to_dataset(part, task.objective) for task, part in zip(stage.beside, job.beside, strict=True)]
    return dict(zip(task_names(stage), (own, *others), strict=True))


def normalized_weights(pairs: Pairs) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Pair weights with mean 1; None where there are none."""
    return None if pairs.weights is None else np.asarray(pairs.weights / pairs.weights.mean())


@dataclass(frozen=True)
class _Job:
    stage: Stage
    body: SentenceTransformer
    """The encoder up to where the head reads."""
    head: PairHead | None
    """What reads the grades; None where none are read."""
    examples: Examples
    beside: tuple[Examples, ...]
    folder: Path
    log: RunLog
    index: int
    precision: Precision
    seed: int
    evaluator: SelectionEvaluator | None
    observer: Observer

    @property
    def metric(self) -> str | None:
        return self.evaluator.metric if self.evaluator is not None else None


def _note_truncated(job: _Job) -> int:
    """Tell how many texts lose their end; returns how many of the stage's own do."""
    counts = [count_truncated(job.body, part.texts()) for part in (job.examples, *job.beside)]
    for part, count in zip((job.examples, *job.beside), counts, strict=True):
        if count:
            limit = job.body.max_seq_length
            job.observer.note(f"{count:,} distinct texts of {part.name} lose their end after {limit} tokens")
    return counts[0]


def _solve(job: _Job) -> StageResult:
    started = time.perf_counter()
    pairs, head, n = job.examples, job.head, len(job.examples)
    assert isinstance(pairs, Pairs) and head is not None
    encoded = FeatureCache(cache_folder()).encode(
        job.body,
        [*pairs.text1, *pairs.text2],
        precision=job.precision,
        prompt=job.stage.prompts,
        show_progress=n > SHOW_ENCODING_FROM and sys.stderr.isatty(),
    )
    for note in encoded.notes:
        job.observer.note(note)
    rows = torch.from_numpy(encoded.index)
    features = PairFeatures(torch.from_numpy(encoded.embeddings), rows[:n], rows[n:], head)
    fit = fit_head(
        head,
        features,
        np.trunc(pairs.grades) if job.stage.label_cast == "int" else pairs.grades,
        job.stage.objective,
        pairs.scale,
        weights=normalized_weights(pairs),
        l2=job.stage.l2,
        seed=0,  # the folds; a convex stage must not differ between the seeds of a run
    )
    seconds = time.perf_counter() - started
    record: dict[str, Any] = {"stage": job.index, "step": fit.iterations, "epoch": 1.0, "loss": fit.objective}
    value = None
    if job.evaluator is not None:
        metrics = job.evaluator(job.body)
        value = metrics[job.evaluator.metric]
        record |= {"selection": value, "metric": job.metric, "metrics": metrics}
    job.log.append(record | {"head_fit": fit.to_json()})
    job.observer.stepped(fit.iterations, record)
    return StageResult(
        metric=job.metric,
        start=None,
        best=value,
        step=fit.iterations,
        steps=fit.iterations,
        seconds=seconds,
        pairs_per_second=n / seconds,
        head_fit=fit.to_json(),
    )


def _train(job: _Job, stop: StopSignal) -> StageResult:
    stage, evaluator = job.stage, job.evaluator
    checkpoint = _resume_point(job.folder)
    job.log.rewind(job.index, int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else -1)
    earlier = job.log.seconds(job.index)
    start_value = _start_value(job)
    set_seed(job.seed)
    with trainable(job.body, job.head, stage):
        trainer = GradedTrainer(
            stage,
            build_objective(stage.objective, job.body, job.head, getattr(job.examples, "scale", None)),
            beside=[
                build_objective(task.objective, job.body, None, getattr(examples, "scale", None))
                for task, examples in zip(stage.beside, job.beside, strict=True)
            ],
            rows=getattr(job.examples, "rows", None),
            args=_arguments(job),
            train_dataset=_training_data(job),
            evaluator=evaluator,
            callbacks=_callbacks(job, stop),
        )
        _replace_negatives(job, trainer, checkpoint)
        for unwanted in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(unwanted)
        start_state = trainer.trained_state() if start_value is not None else {}
        with training_passes(trainer, job.precision, job.folder, job.observer):
            stop.patient = True
            try:
                output = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            finally:
                stop.patient = False
        state = trainer.state
        if stop.received is not None and state.global_step < state.max_steps:
            raise Interrupted(f"stopped by {stop.received} at update {state.global_step} of {state.max_steps}")
        best, step = None, state.global_step
        if evaluator is not None and state.best_global_step and state.best_metric is not None:
            best, step = float(state.best_metric), int(state.best_global_step)
            sign = 1 if evaluator.greater_is_better else -1
            if start_value is not None and sign * start_value > sign * best:
                trainer.restore(start_state)
                best, step = start_value, 0
                job.observer.note(f"no checkpoint beat the start ({job.metric} {start_value:.2f}): the start is kept")
    seconds = earlier + float(output.metrics["train_runtime"])
    return StageResult(
        metric=job.metric,
        start=start_value,
        best=best,
        step=step,
        steps=state.global_step,
        seconds=seconds,
        pairs_per_second=len(job.examples) * float(state.epoch or 0) / seconds if seconds else 0.0,
    )


def _replace_negatives(job: _Job, trainer: GradedTrainer, resumed: Path | None) -> None:
    config = job.stage.negatives
    if config.replace_every is None or not isinstance(job.examples, RankedRows):
        return
    negatives = HardNegatives(job.examples, config)
    trainer.data_collator = ShowingNegatives(trainer.data_collator, negatives, OWN)  # type: ignore[assignment]
    trainer.add_callback(MineNegativesCallback(negatives, job.body, job.precision, job.log, job.index, resumed))


def _resume_point(folder: Path) -> Path | None:
    checkpoint = last_checkpoint(folder)
    for path in folder.glob("checkpoint-*"):
        # A crash while writing leaves a folder without its last file; it would shadow the complete ones.
        if checkpoint is None or int(path.name.rsplit("-", 1)[1]) > int(checkpoint.name.rsplit("-", 1)[1]):
            shutil.rmtree(path)
    return checkpoint


def _start_value(job: _Job) -> float | None:
    """Selection value before the first update: read from the log of a resumed stage, else measured."""
    if job.evaluator is None:
        return None
    for record in job.log.records():
        if record["stage"] == job.index and record["step"] == 0 and "selection" in record:
            return float(record["selection"])
    metrics = job.evaluator(job.body)
    value = metrics[job.evaluator.metric]
    job.log.append(
        {"stage": job.index, "step": 0, "epoch": 0.0, "selection": value, "metric": job.metric, "metrics": metrics}
    )
    job.observer.selected(0, job.evaluator.metric, value, False)
    return value


def _callbacks(job: _Job, stop: StopSignal) -> list[TrainerCallback]:
    greater = job.evaluator.greater_is_better if job.evaluator is not None else True
    callbacks: list[TrainerCallback] = [
        LogCallback(job.log, job.index, job.metric, greater, job.observer),
        LastStepCallback(),
        StopCallback(stop),
    ]
    if job.evaluator is not None and job.stage.patience is not None:
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=job.stage.patience))
    return callbacks


def _arguments(job: _Job) -> SentenceTransformerTrainingArguments:
    stage, judged = job.stage, job.evaluator is not None
    every = int(stage.evaluate_every)
    on_cpu = job.body.device.type == "cpu"
    return SentenceTransformerTrainingArguments(
        output_dir=str(job.folder),
        num_train_epochs=stage.epochs,
        per_device_train_batch_size=int(stage.batch_size),
        gradient_accumulation_steps=stage.steps_an_update,
        learning_rate=stage.learning_rate,
        lr_scheduler_type=stage.scheduler,
        warmup_steps=stage.warmup,
        weight_decay=stage.weight_decay,
        max_grad_norm=stage.clip if stage.clip is not None else math.inf,
        eval_strategy="steps" if judged else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2 if judged else 1,
        load_best_model_at_end=judged,
        metric_for_best_model=f"eval_{job.metric}" if judged else None,
        greater_is_better=job.evaluator.greater_is_better if job.evaluator is not None else None,
        logging_strategy="steps",
        logging_steps=LOG_EVERY,
        logging_nan_inf_filter=False,
        use_cpu=on_cpu,
        bf16=job.precision.name == "bf16",
        tf32=True if job.precision.name == "tf32" else None,
        seed=job.seed,
        data_seed=job.seed,
        prompts=stage.prompts,
        activation_checkpointing=stage.activation_checkpointing,
        report_to=list(stage.report_to) or "none",
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
    )
