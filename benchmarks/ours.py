"""gradate as it comes: its stage, its encoding, nothing chosen for the benchmark."""

from __future__ import annotations

import copy
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.job import Clock, TrainingJob, epoch, segment
from benchmarks.machine import synchronize
from benchmarks.resident import MemoryClock, memory_now, reset_peak
from benchmarks.texts import filled_pairs, load_tokenizer
from gradate.data.examples import Pairs
from gradate.engine.encoding import encode_distinct
from gradate.engine.precision import resolve_precision
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.observer import SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import run_stage
from gradate.training.stage import Stage

NEVER = 1 << 30


class TickObserver(SilentObserver):
    """Ticks at the end of every step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        """The first report of a step counts; a second one brings its log record."""
        if step > self.clock.steps:
            self.clock.tick()


class GradateTrainer:
    """`run_stage` with the job's settings.

    Args:
        job: What to do.
        settings: Stage settings beyond the job's.
        precision: `auto` chooses.
        repeats: Whether it trains more than once, and so keeps a copy of the initial weights.
    """

    def __init__(
        self,
        job: TrainingJob,
        settings: Mapping[str, Any] | None = None,
        *,
        precision: str = "auto",
        repeats: bool = True,
    ) -> None:
        self.job = job
        self.model = GradedModel.from_pretrained(job.encoder, precision=precision)
        self.start = copy.deepcopy(self.model.encoder.state_dict()) if repeats else None
        self.stage = Stage(
            objective=objective(job),
            **{
                "trainable": "all",
                "epochs": 1,
                "batch_size": job.batch_size,
                "learning_rate": job.learning_rate,
                "warmup": job.warmup,
                "weight_decay": job.weight_decay,
                "clip": job.clip,
                "selection": None,
                "evaluate_every": NEVER,
                **(settings or {}),
            },
        )

    def train(self, pairs: Pairs, seed: int, clock: Clock) -> None:
        """One epoch, or the whole convex fit."""
        if self.start is not None:
            self.model.encoder.load_state_dict(self.start)
        self.model.head, _, _ = PairHead.load(self.job.head)
        self.model.head.to(self.model.encoder.device)
        self.model.scale = pairs.scale
        with tempfile.TemporaryDirectory() as folder:
            run_stage(
                self.stage,
                self.model,
                pairs,
                folder=Path(folder) / "checkpoints",
                log=RunLog(None),
                precision=self.model.precision,
                seed=seed,
                observer=TickObserver(clock),
            )

    def save(self, folder: Path) -> None:
        """The trained encoder and its head."""
        self.model.save(folder, overwrite=True)


def objective(job: TrainingJob) -> ObjectiveConfig:
    """Smooth K2 as the other contenders have it, without a boundary policy."""
    return ObjectiveConfig(name="smooth-k2", k=job.k, x0=job.x0, boundary="none")


def fit_initial_head(encoder: Path, pairs: Pairs, folder: Path, k: float, x0: float) -> None:
    """The head that every contender starts from: solved once by the convex stage over the frozen encoder, in fp32."""
    model = GradedModel.from_pretrained(encoder, precision="fp32")
    head = PairHead(model.encoder.get_embedding_dimension() or 0)
    head.save(folder, pairs.scale)
    job = TrainingJob(encoder, folder, pairs, k=k, x0=x0)
    trainer = GradateTrainer(job, {"trainable": "head"}, precision="fp32")
    trainer.train(pairs, 1, Clock())
    assert trainer.model.head is not None
    trainer.model.head.save(folder, pairs.scale)


def build_segment(job: TrainingJob, steps: int, skipped: int) -> Callable[[int], dict[str, Any]]:
    """Measures segments of steps."""
    return segment(GradateTrainer(job), job, steps, skipped)


def build_epoch(job: TrainingJob, folder: Path) -> Callable[[int], dict[str, Any]]:
    """Measures whole epochs."""
    return epoch(GradateTrainer(job), job, folder)


def build_encode(
    encoder: Path, texts: list[str], warm_up: int, folder: Path | None
) -> Callable[[int], dict[str, Any]]:
    """Measures `encode_distinct` with automatic precision."""
    model = GradedModel.from_pretrained(encoder).encoder
    precision = resolve_precision("auto", model.device)
    encode_distinct(model, texts[:warm_up], precision=precision)

    def measure(number: int) -> dict[str, Any]:
        synchronize()
        start = time.perf_counter()
        encoded = encode_distinct(model, texts, precision=precision)
        seconds = time.perf_counter() - start
        found = {"seconds": seconds, "texts": len(texts), "rate": len(texts) / seconds, "precision": precision.name}
        if folder is None:
            return found
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "embeddings.npy", encoded.embeddings[encoded.index])
        return found | {"embeddings": str(folder / "embeddings.npy")}

    return measure


def build_head_fit(job: TrainingJob, caches: Path, warm: bool) -> Callable[[int], dict[str, Any]]:
    """Measures the convex fit of the head from raw texts, with an empty or with a filled cache of features.

    Args:
        job: What to do; the pairs are the whole of NLI.
        caches: Folder for one cache per round; the warm contender finds there what the cold one left.
        warm: Which of the two this is.
    """
    trainer = GradateTrainer(job, {"trainable": "head"})

    def measure(number: int) -> dict[str, Any]:
        cache = caches / f"round-{number}"
        if not warm and cache.exists():
            raise RuntimeError(f"{cache} is not empty")
        os.environ["GRADATE_CACHE"] = str(cache)
        start = time.perf_counter()
        trainer.train(job.pairs, 1, Clock())
        seconds = time.perf_counter() - start
        head = trainer.model.head
        assert head is not None
        head.save(caches / ("warm" if warm else "cold"), job.pairs.scale)
        return {
            "seconds": seconds,
            "pairs": len(job.pairs),
            "rate": 2 * len(job.pairs) / seconds,
            "cached_bytes": sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()),
            "head": str(caches / ("warm" if warm else "cold")),
        }

    return measure


def build_memory(
    encoder: Path, length: int, batch: int, steps: int, settings: Mapping[str, Any], precision: str
) -> Callable[[int], dict[str, Any]]:
    """Measures the peak memory of training steps on pairs of texts of `length` tokens."""
    before = memory_now()
    reset_peak()
    pairs = filled_pairs(load_tokenizer(encoder), steps * batch, length, seed=length)

    def measure(number: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            job = TrainingJob(encoder, Path(folder), pairs, batch_size=batch)
            trainer = GradateTrainer(job, settings, precision=precision, repeats=False)
            PairHead(trainer.model.encoder.get_embedding_dimension() or 0).save(job.head, pairs.scale)
            clock = MemoryClock()
            trainer.train(pairs, 1, clock)
        return {"peak_bytes": clock.peak - before, "seconds": clock.seconds(1) / (steps - 1)}

    return measure
