"""Supervised SimCSE as sentence-transformers does it: three texts per example, in-batch negatives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers.trainer_callback import PrinterCallback

from benchmarks.machine import on_gpu
from benchmarks.peers.stock import TickCallback, open_stock
from benchmarks.resident import MemoryClock, memory_now, reset_peak
from benchmarks.texts import filled_texts, load_tokenizer

TEXTS = 3


def build_memory(encoder: Path, length: int, batch: int, steps: int, bf16: bool) -> Callable[[int], dict[str, Any]]:
    """Measures the peak memory of training steps on triples of texts of `length` tokens."""
    before = memory_now()
    reset_peak()
    n = steps * batch
    texts = filled_texts(load_tokenizer(encoder), TEXTS * n, length, seed=length)
    columns = {name: texts[i * n : (i + 1) * n] for i, name in enumerate(("anchor", "positive", "negative"))}
    model = open_stock(encoder)

    def measure(number: int) -> dict[str, Any]:
        clock = MemoryClock()
        with tempfile.TemporaryDirectory() as folder:
            trainer = SentenceTransformerTrainer(
                model=model,
                args=SentenceTransformerTrainingArguments(
                    output_dir=folder,
                    num_train_epochs=1,
                    per_device_train_batch_size=batch,
                    bf16=bf16,
                    use_cpu=not on_gpu(),
                    dataloader_pin_memory=on_gpu(),
                    save_strategy="no",
                    report_to="none",
                    disable_tqdm=True,
                ),
                train_dataset=Dataset.from_dict(columns),
                loss=MultipleNegativesRankingLoss(model),
                callbacks=[TickCallback(clock)],
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return {"peak_bytes": clock.peak - before, "seconds": clock.seconds(1) / (steps - 1)}

    return measure
