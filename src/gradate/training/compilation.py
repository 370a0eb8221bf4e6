"""Compilation: `torch.compile` around the encoder's training passes, where it pays back over the stage."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sentence_transformers import SentenceTransformer
from torch import nn

from gradate.engine.acceleration import accelerated
from gradate.engine.layer_tap import LAYER
from gradate.engine.modes import kept_mode
from gradate.engine.precision import Precision
from gradate.training.callbacks.observer import Observer
from gradate.training.trainer import GradedTrainer

SECONDS_PER_LAYER = 11.0
"""Compilation per transformer layer: 60 to 70 s of one core for the six of the bundled encoder (torch 2.13, bf16)."""
SPEEDUP = {"cpu": 0.92}
"""Time of a plain training pass over that of the compiled one, by device, expected before it is measured.

Measured on the bundled encoder, batch 16, bf16, dropout 0.1, 60 steps in turn on one core with avx512_bf16, torch
2.13: median 0.92, the middle 80 % from 0.85 to 0.97. Compiled code is slower there, and `auto` leaves it alone.
"""
SPEEDUP_ELSEWHERE = 1.3
"""The same on other devices: a guess, which the first compiled passes check."""
PROBES = 4
"""Batches of the stage that are timed, after one that warms up."""
FILE = "compile.json"


@dataclass(frozen=True)
class Decision:
    """Whether a stage's passes are compiled; kept beside its checkpoints, so that a resumed stage agrees."""

    compiled: bool
    reason: str
    """In words."""
    uncompiled_ms: float | None = None
    """An accelerated pass, where it was measured."""
    compiled_ms: float | None = None
    """A compiled pass, where there was one."""
    seconds: float | None = None
    """What compilation took."""

    def __str__(self) -> str:
        return f"compile: {'yes' if self.compiled else 'no'}, {self.reason}"


@contextmanager
def training_passes(
    trainer: GradedTrainer, precision: Precision, folder: Path, observer: Observer
) -> Iterator[Decision]:
    """Compute a stage's training passes the fastest way there is: accelerated, or compiled where its `compile` allows.

    `auto` predicts. The cost is a constant per layer. The saving is the time of an accelerated pass, measured on the
    stage's first batches, less that of a plain one over an expected speed-up, times the passes of the stage. Where
    compiled passes then turn out no faster than accelerated ones, they are dropped. The observer hears the prediction,
    the decision, and the seconds that compilation really took. Measuring leaves parameters, buffers, gradients and
    random states as they were.

    Args:
        trainer: Of the stage, before it trains.
        precision: Precision of the encoder's arithmetic.
        folder: The stage's; a decision that stands there is taken again.
        observer: Who watches.
    """
    stage, encoder = trainer.stage, trainer.objective.model
    stood = _read(folder) if stage.compile != "never" else None
    decision = _agreed(stood or _predict(trainer, precision))
    if stage.compile != "never":
        observer.note(str(decision) if stood is None else f"{decision} (as before the interruption)")
    if decision.compiled:
        with compiled(encoder, replayed=stage.mini_batch_size is not None):
            # A resumed stage compiles for the same first batches: other lengths could give other code.
            decision = _agreed(_compile(trainer, precision, decision, may_drop=stood is None))
            observer.note(decision.reason)
            if decision.compiled:
                _write(folder, decision)
                yield decision
                return
    if stage.compile != "never":
        _write(folder, decision)
    with accelerated(encoder, precision):
        yield decision


@contextmanager
def compiled(encoder: SentenceTransformer, *, replayed: bool = False) -> Iterator[None]:
    """Compile the passes that train `encoder`'s transformer; those without gradients stay as they are.

    Its parameters keep their names and values.

    Args:
        encoder: Its transformer is compiled at the first training pass.
        replayed: Whether a pass without gradients is repeated with them (gradient caching): dropout then draws the
            numbers that it draws uncompiled.
    """
    target = _transformer(encoder)
    plain, own = target.forward, vars(target).get("forward")
    fast = torch.compile(plain, dynamic=True, options={"fallback_random": True} if replayed else None)

    @functools.wraps(plain)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return (fast if target.training and torch.is_grad_enabled() else plain)(*args, **kwargs)

    target.forward = forward
    try:
        yield
    finally:
        del target.forward
        if own is not None:
            target.forward = own
        # Code compiled for this encoder would count towards the limit of the next one's.
        torch.compiler.reset()


def missing_compiler(device: torch.device) -> str | None:
    """What `torch.compile` lacks on a device, in words; None where it has all it needs."""
    if device.type == "cuda":
        return None if importlib.util.find_spec("triton") is not None else "Triton is not installed"
    wanted = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return None if shutil.which(wanted) is not None else f"there is no C++ compiler ({wanted})"


def _predict(trainer: GradedTrainer, precision: Precision) -> Decision:
    stage, encoder = trainer.stage, trainer.objective.model
    if stage.compile == "never":
        return Decision(False, "not asked for")
    lacking = missing_compiler(encoder.device)
    if lacking is not None:
        return Decision(False, lacking)
    layers = {match.group(1) for name, _ in encoder.named_parameters() if (match := LAYER.search(name))}
    cost = SECONDS_PER_LAYER * max(1, len(layers))
    if stage.compile == "always":
        return Decision(True, f"asked for; about {cost:.0f} s to compile")
    with accelerated(encoder, precision):
        fast = _typical(_time_passes(trainer, precision))
    plain = _typical(_time_passes(trainer, precision))
    sampler = trainer.get_batch_sampler(trainer.train_dataset, trainer.args.train_batch_size, False)
    passes = math.ceil(stage.epochs * len(sampler) / sampler.world_size)
    expected = plain / SPEEDUP.get(encoder.device.type, SPEEDUP_ELSEWHERE)
    saving = max(0.0, passes * (fast - expected))
    words = f"about {cost:.0f} s to compile against {saving:.0f} s saved over {passes:,} passes"
    return Decision(saving > cost, words, uncompiled_ms=1000 * fast)


def _compile(trainer: GradedTrainer, precision: Precision, decision: Decision, *, may_drop: bool) -> Decision:
    """Run the first batches through the compiler, and hold the passes against what was decided on."""
    try:
        times = _time_passes(trainer, precision)
    except Exception as error:  # whatever a compiler says, training can go on without it
        first = (str(error).splitlines() or [""])[0]
        return replace(decision, compiled=False, reason=f"compilation failed, the stage goes on without: {first}")
    usual = _typical(times)
    words = f"compiled in {max(0.0, times[0] - usual):.0f} s; a pass takes {1000 * usual:.0f} ms"
    before = decision.uncompiled_ms
    if before is not None:
        words += f", uncompiled {before:.0f} ms"
    kept = not (may_drop and before is not None and 1000 * usual >= before)
    if not kept:
        words += ": dropped"
    return replace(decision, compiled=kept, reason=words, compiled_ms=1000 * usual, seconds=times[0] - usual)


def _typical(times: list[float]) -> float:
    return statistics.median(times[1:] or times)


def _time_passes(trainer: GradedTrainer, precision: Precision) -> list[float]:
    """Seconds of forward and backward passes over the stage's first batches, which leave no trace."""
    objective, device = trainer.objective, trainer.objective.model.device
    loss: Any = trainer.loss
    gradients = [(p, p.grad) for p in objective.parameters()]
    buffers = [(b, b.clone()) for b in objective.buffers()]
    times = []
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), kept_mode(objective):
            objective.train()
            for inputs in _first_inputs(trainer):
                features, labels = trainer.collect_features(inputs)
                for parameter, _ in gradients:
                    parameter.grad = None
                started = time.perf_counter()
                with precision.autocast(device.type):
                    loss(features, labels).backward()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                times.append(time.perf_counter() - started)
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for buffer, value in buffers:
            buffer.copy_(value)
    return times


def _first_inputs(trainer: GradedTrainer) -> Iterator[dict[str, Any]]:
    data: Any = trainer.train_dataset
    for rows in islice(trainer.get_batch_sampler(data, trainer.args.train_batch_size, False), 1 + PROBES):
        yield trainer._prepare_inputs(trainer.data_collator([data[i] for i in rows]))


def _transformer(encoder: SentenceTransformer) -> nn.Module:
    first = next(iter(encoder.children()))
    model = getattr(first, "model", first)
    return model if isinstance(model, nn.Module) else first


def _agreed(decision: Decision) -> Decision:
    """The first process's decision, in all of them: clocks differ, and what one computes the others wait for."""
    if not (dist.is_available() and dist.is_initialized()):
        return decision
    shared = [decision]
    dist.broadcast_object_list(shared, src=0)
    return shared[0]


def _read(folder: Path) -> Decision | None:
    try:
        return Decision(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: Path, decision: Decision) -> None:
    if dist.is_available() and dist.is_initialized() and dist.get_rank() != 0:
        return
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{FILE}.partial"
    partial.write_text(json.dumps(asdict(decision)), encoding="utf-8")
    partial.replace(folder / FILE)
