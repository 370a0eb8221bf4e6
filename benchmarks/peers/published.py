"""The training procedure of the paper's published code: fp32, texts padded to 256, each side a forward of its own.

Written afresh from its description (Zhang & Li, 2024, and their scripts' settings): samples tokenised one at a time,
AdamW over groups with layer-wise learning rates, gradient clipping at 10, linear schedule with 20 % warm-up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import get_linear_schedule_with_warmup

from benchmarks.job import Clock, TrainingJob, segment
from benchmarks.machine import on_gpu
from benchmarks.peers.stock import open_stock
from gradate.data.examples import Pairs
from gradate.losses.smooth_k2 import SmoothK2Loss
from gradate.models.head import PairHead

MAX_LENGTH = 256
LAYER_DECAY = 0.95
CLIP = 10.0
WARMUP = 0.2
_LAYER = re.compile(r"\.layer\.(\d+)\.")


class PaddedPairs(Dataset[tuple[dict[str, Tensor], dict[str, Tensor], Tensor]]):
    """Pairs as tensors of MAX_LENGTH tokens, made when they are asked for."""

    def __init__(self, pairs: Pairs, tokenizer: Any, limit: int) -> None:
        self.pairs, self.tokenizer, self.limit = pairs, tokenizer, limit

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
        grade = torch.tensor(float(self.pairs.grades[i]))
        return self._tokens(self.pairs.text1[i]), self._tokens(self.pairs.text2[i]), grade

    def _tokens(self, text: str) -> dict[str, Tensor]:
        tokens = self.tokenizer(
            text, padding="max_length", max_length=self.limit, truncation=True, return_tensors="pt"
        )
        return {name: tokens[name][0] for name in ("input_ids", "attention_mask")}


class PublishedTrainer:
    """The loop itself."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.encoder = open_stock(job.encoder)
        self.transformer: nn.Module = self.encoder[0].model
        self.start = {name: value.clone() for name, value in self.transformer.state_dict().items()}
        limits = (MAX_LENGTH, self.encoder.max_seq_length)
        self.limit = min(limit for limit in limits if limit)

    def train(self, pairs: Pairs, seed: int, clock: Clock) -> None:
        """One epoch."""
        job, device = self.job, "cuda" if on_gpu() else "cpu"
        self.transformer.load_state_dict(self.start)
        head, _, _ = PairHead.load(job.head)
        dense, loss_of = head.linear.to(device), SmoothK2Loss(job.k, job.x0)
        torch.manual_seed(seed)
        loader = DataLoader(
            PaddedPairs(pairs, self.encoder.tokenizer, self.limit), batch_size=job.batch_size, shuffle=True
        )
        parameters = [*self.transformer.parameters(), *dense.parameters()]
        optimizer = torch.optim.AdamW(list(self._groups(dense)), lr=job.learning_rate)
        schedule = get_linear_schedule_with_warmup(optimizer, int(WARMUP * len(loader)), len(loader))
        self.transformer.train()
        for first, second, grades in loader:
            u, v = self._embed(first, device), self._embed(second, device)
            prediction = dense(torch.cat([u, v, (u - v).abs()], dim=1)).squeeze(1)
            loss = loss_of(prediction, grades.to(device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            schedule.step()
            loss.item()
            clock.tick()

    def save(self, folder: Path) -> None:
        """The trained encoder."""
        self.encoder.save_pretrained(str(folder), create_model_card=False)

    def _embed(self, tokens: dict[str, Tensor], device: str) -> Tensor:
        mask = tokens["attention_mask"].to(device)
        states = self.transformer(input_ids=tokens["input_ids"].to(device), attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)

    def _groups(self, dense: nn.Module) -> Iterator[dict[str, Any]]:
        named = list(self.transformer.named_parameters())
        layers = 1 + max((int(m.group(1)) for n, _ in named if (m := _LAYER.search(n))), default=-1)
        for name, parameter in [*named, *dense.named_parameters()]:
            layer = _LAYER.search(name)
            depth = layers - 1 - int(layer.group(1)) if layer else 0
            kept = name.endswith("bias") or "LayerNorm" in name
            rate = self.job.learning_rate * LAYER_DECAY**depth
            yield {"params": [parameter], "lr": rate, "weight_decay": 0.0 if kept else self.job.weight_decay}


def build_segment(job: TrainingJob, steps: int, skipped: int) -> Callable[[int], dict[str, Any]]:
    """Measures segments of steps."""
    return segment(PublishedTrainer(job), job, steps, skipped)
