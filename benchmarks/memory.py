"""Table `memory`: peak memory of a training step, contrastive at batch 512 against graded pairs at batch 16."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks import machine
from benchmarks.harness import Results, System, Worker, show
from benchmarks.run import Run
from benchmarks.summary import fit_line

LENGTHS = (32, 100, 256)
STEPS = 3
"""The first step has no optimiser state yet; the peak is read after the last."""
MARGIN = 0.8
"""Share of the free memory that a step may be predicted to take and still be run."""
MINI_BATCH = 8
"""Texts per forward pass of the cached route."""


@dataclass(frozen=True)
class Contender:
    """One way to train.

    Args:
        name: Key in the results.
        texts: Texts per example.
        batch: Examples per step in earnest.
        sizes: Smaller batches by text length, through which a line over tokens is fitted.
        settings: What its build function takes besides.
    """

    name: str
    texts: int
    batch: int
    sizes: dict[int, tuple[int, ...]]
    settings: dict[str, Any] = field(default_factory=dict)


_SMALL = {32: (16, 32, 64), 100: (8, 16, 32), 256: (4, 8, 16)}
_PAIRS = dict.fromkeys(LENGTHS, (4, 8))
SIMCSE, SIMCSE_BF16, FP32, OURS = "SimCSE, fp32", "SimCSE, bf16", "gradate, fp32", "gradate"
CHECKPOINTED, CACHED = "gradate, activation checkpointing", f"gradate, cached, {MINI_BATCH} texts at a time"
CONTENDERS = (
    Contender(SIMCSE, 3, 512, _SMALL, {"bf16": False}),
    Contender(SIMCSE_BF16, 3, 512, _SMALL, {"bf16": True}),
    Contender(FP32, 2, 16, _PAIRS, {"precision": "fp32", "settings": {}}),
    Contender(OURS, 2, 16, _PAIRS, {"precision": "auto", "settings": {}}),
    Contender(CHECKPOINTED, 2, 16, _PAIRS, {"precision": "auto", "settings": {"activation_checkpointing": True}}),
    Contender(CACHED, 2, 16, _PAIRS, {"precision": "auto", "settings": {"mini_batch_size": MINI_BATCH}}),
)


def measure(run: Run) -> Results:
    """A fresh process for every contender, length and batch; what would not fit is predicted and not run."""
    lengths = (32,) if run.quick else LENGTHS
    settings = {"lengths": list(lengths), "steps": STEPS}
    with run.results(settings) as results:
        for length in lengths:
            for contender in _wanted(run):
                sizes = (2, 4) if run.quick else (*contender.sizes[length], contender.batch)
                for batch in sizes:
                    _measure_one(run, results, contender, length, batch)
    return results


def predict(measurements: Iterable[dict[str, Any]], tokens: int) -> float | None:
    """Peak bytes for this many tokens by the line through smaller steps; None before there are two."""
    run = [m for m in measurements if not m["predicted"]]
    if len({m["tokens"] for m in run}) < 2:
        return None
    return fit_line([m["tokens"] for m in run], [m["peak_bytes"] for m in run]).at(tokens)


def _measure_one(run: Run, results: Results, contender: Contender, length: int, batch: int) -> None:
    name, tokens = f"{contender.name}, {length} tokens", contender.texts * batch * length
    if any(m["system"] == name and m["batch"] == batch for m in results.measurements("steps")):
        return
    values: dict[str, Any] = {"contender": contender.name, "length": length, "batch": batch, "tokens": tokens}
    predicted = predict((m for m in results.measurements("steps") if m["system"] == name), tokens)
    free = machine.available_memory()
    if predicted is not None and predicted > MARGIN * free and not machine.on_gpu():
        values |= {"peak_bytes": predicted, "predicted": True, "free_bytes": free}
    else:
        system = System(name, _build(contender), {**_arguments(run, contender), "length": length, "batch": batch})
        with Worker(system, isolate=run.isolate) as worker:
            values |= worker.measure(0) | {"predicted": False}
    show("steps", results.append("steps", name, batch, values))


def _wanted(run: Run) -> list[Contender]:
    from gradate.training.stage import Stage

    known = [c for c in CONTENDERS if all(key in Stage.__dataclass_fields__ for key in c.settings.get("settings", {}))]
    chosen = [c for c in known if not run.only or c.name in run.only]
    return [c for c in chosen if c.name in (SIMCSE, OURS)] if run.quick else chosen


def _build(contender: Contender) -> Any:
    from benchmarks import ours
    from benchmarks.peers import simcse

    return simcse.build_memory if contender.texts == simcse.TEXTS else ours.build_memory


def _arguments(run: Run, contender: Contender) -> dict[str, Any]:
    return {"encoder": run.inputs.encoder, "steps": STEPS, **contender.settings}
