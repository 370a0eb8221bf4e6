"""sentence-transformers as it is documented: its trainer with a regression head, and its `encode`."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss
from sentence_transformers.sentence_transformer.modules import Normalize
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from benchmarks.job import Clock, TrainingJob, epoch, segment
from benchmarks.machine import on_gpu, synchronize
from gradate.data.examples import Pairs
from gradate.losses.smooth_k2 import SmoothK2Loss
from gradate.models.head import PairHead
from gradate.models.loading import quiet_progress


def open_stock(folder: Path, *, dtype: torch.dtype = torch.float32) -> SentenceTransformer:
    """The model as anybody opens it; nothing of gradate touches it."""
    with quiet_progress():
        encoder = SentenceTransformer(str(folder), local_files_only=True, model_kwargs={"dtype": dtype})
    encoder.model_card_data.local_files_only = True
    return encoder


def without_normalize(encoder: SentenceTransformer) -> SentenceTransformer:
    """The encoder up to a trailing Normalize module: where the head reads, in every contender."""
    modules = list(encoder.children())
    if not isinstance(modules[-1], Normalize):
        return encoder
    body = SentenceTransformer(modules=modules[:-1], device=str(encoder.device), local_files_only=True)
    body.model_card_data.local_files_only = True
    return body


class TickCallback(TrainerCallback):
    """Ticks at the end of every step."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.clock.tick()


class StockTrainer:
    """`SentenceTransformerTrainer` with `SoftmaxLoss(num_labels=1, loss_fct=…)`, its documented way to such a head.

    Args:
        job: What to do.
        arguments: Training arguments beyond the job's.
        frozen: Train the head alone.
    """

    def __init__(self, job: TrainingJob, arguments: dict[str, Any] | None = None, *, frozen: bool = False) -> None:
        self.job, self.arguments = job, arguments or {}
        self.encoder = without_normalize(open_stock(job.encoder))
        self.start = copy.deepcopy(self.encoder.state_dict())
        self.encoder.requires_grad_(not frozen)
        self.loss: SoftmaxLoss | None = None

    def train(self, pairs: Pairs, seed: int, clock: Clock) -> None:
        """One epoch."""
        job = self.job
        self.encoder.load_state_dict(self.start)
        self.loss = self._loss()
        with tempfile.TemporaryDirectory() as folder:
            settings: dict[str, Any] = {
                "output_dir": folder,
                "num_train_epochs": 1,
                "per_device_train_batch_size": job.batch_size,
                "learning_rate": job.learning_rate,
                "warmup_steps": job.warmup,
                "weight_decay": job.weight_decay,
                "max_grad_norm": job.clip,
                "seed": seed,
                "use_cpu": not on_gpu(),
                "dataloader_pin_memory": on_gpu(),
                "save_strategy": "no",
                "report_to": "none",
                "disable_tqdm": True,
            }
            trainer = SentenceTransformerTrainer(
                model=self.encoder,
                args=SentenceTransformerTrainingArguments(**settings | self.arguments),
                train_dataset=Dataset.from_dict(
                    {"sentence1": list(pairs.text1), "sentence2": list(pairs.text2), "score": pairs.grades.tolist()}
                ),
                loss=self.loss,
                callbacks=[TickCallback(clock)],
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()

    def save(self, folder: Path) -> None:
        """The trained encoder."""
        self.encoder.save_pretrained(str(folder), create_model_card=False)

    def _loss(self) -> SoftmaxLoss:
        job = self.job
        head, _, _ = PairHead.load(job.head)
        loss = SoftmaxLoss(self.encoder, head.dim, num_labels=1, loss_fct=SmoothK2Loss(job.k, job.x0))
        with torch.no_grad():
            loss.classifier.weight.copy_(head.linear.weight)
            loss.classifier.bias.copy_(head.linear.bias)
        return loss


def build_segment(
    job: TrainingJob, arguments: dict[str, Any], steps: int, skipped: int, frozen: bool = False
) -> Callable[[int], dict[str, Any]]:
    """Measures segments of steps."""
    return segment(StockTrainer(job, arguments, frozen=frozen), job, steps, skipped)


def build_epoch(job: TrainingJob, arguments: dict[str, Any], folder: Path) -> Callable[[int], dict[str, Any]]:
    """Measures whole epochs."""
    return epoch(StockTrainer(job, arguments), job, folder)


def build_frozen_epoch(job: TrainingJob, folder: Path) -> Callable[[int], dict[str, Any]]:
    """Measures one epoch of the head alone and keeps the head."""
    trainer = StockTrainer(job, frozen=True)

    def measure(number: int) -> dict[str, Any]:
        clock = Clock()
        trainer.train(job.pairs, number + 1, clock)
        seconds = clock.seconds()
        head, scale, _ = PairHead.load(job.head)
        assert trainer.loss is not None
        with torch.no_grad():
            head.linear.weight.copy_(trainer.loss.classifier.weight)
            head.linear.bias.copy_(trainer.loss.classifier.bias)
        head.save(folder, scale)
        return {
            "seconds": seconds,
            "pairs": len(job.pairs),
            "rate": 2 * len(job.pairs) / seconds,
            "head": str(folder),
        }

    return measure


def build_encode(
    encoder: Path, texts: list[str], warm_up: int, folder: Path | None, *, bf16: bool, batch_size: int, compiled: bool
) -> Callable[[int], dict[str, Any]]:
    """Measures `SentenceTransformer.encode`, which sorts by length itself.

    Args:
        encoder: Folder of the encoder.
        texts: What is encoded.
        warm_up: Texts encoded before the first measurement.
        folder: Where the embeddings of the last round go; None keeps none.
        bf16: Weights in bfloat16, as its documentation recommends for speed.
        batch_size: Its default is 32.
        compiled: `model.compile(dynamic=True)`.
    """
    model = open_stock(encoder, dtype=torch.bfloat16 if bf16 else torch.float32)
    if compiled:
        model.compile(dynamic=True)
    start = time.perf_counter()
    model.encode(texts[:warm_up], batch_size=batch_size, convert_to_tensor=True)
    preparation = time.perf_counter() - start

    def measure(number: int) -> dict[str, Any]:
        synchronize()
        start = time.perf_counter()
        embeddings = model.encode(texts, batch_size=batch_size, convert_to_tensor=True)
        synchronize()
        seconds = time.perf_counter() - start
        found = {"seconds": seconds, "texts": len(texts), "rate": len(texts) / seconds, "before": preparation}
        if folder is None:
            return found
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "embeddings.npy", embeddings.float().cpu().numpy())
        return found | {"embeddings": str(folder / "embeddings.npy")}

    return measure
