"""Table `scaling`: what encoding and scoring cost as the pairs become many and the texts long."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Results, System, Worker, show
from benchmarks.run import Run

OURS = "gradate"
LENGTHS, SIZES = (10, 50, 250), (1_000, 10_000, 100_000)
ROUNDS, BUDGET = 3, 1200.0


def measure(run: Run) -> Results:
    """Every length and number of pairs in turn, round by round, as far as the time allowed for a cell reaches."""
    lengths = (10, 50) if run.quick else LENGTHS
    sizes = (50, 100, 200) if run.quick else SIZES
    rounds = 1 if run.quick else run.rounds or ROUNDS
    budget = float(run.options.get("budget") or BUDGET)
    cells = [(length, pairs) for pairs in sizes for length in lengths]
    with run.results({"lengths": list(lengths), "sizes": list(sizes)}) as results:
        results.record(budget=budget)
        system = System(OURS, build, {"encoder": run.inputs.encoder, "cells": cells})
        with Worker(system, isolate=run.isolate) as worker:
            for number in range(rounds * len(cells)):
                length, pairs = cells[number % len(cells)]
                done = results.measurements("cells")
                if any(m["round"] == number for m in done) or not affordable(
                    done, length, pairs, budget, number // len(cells)
                ):
                    continue
                show("cells", results.append("cells", OURS, number, worker.measure(number)))
    return results


def affordable(done: Sequence[dict[str, Any]], length: int, pairs: int, budget: float, repetition: int) -> bool:
    """Whether a cell is predicted to end within its budget, all repetitions so far together.

    The prediction is linear from the largest smaller cell of that length; without one the cell is measured.
    """
    smaller = [m for m in done if m["length"] == length and m["pairs"] <= pairs]
    if not smaller:
        return True
    largest = max(smaller, key=lambda m: m["pairs"])
    return largest["seconds"] * pairs / largest["pairs"] * (repetition + 1) <= budget


def build(encoder: Path, cells: Sequence[tuple[int, int]]) -> Callable[[int], dict[str, Any]]:
    """Measures a cell, chosen by its number: scoring made-up pairs, encoding included."""
    from benchmarks.machine import synchronize
    from benchmarks.texts import filled_pairs, load_tokenizer
    from gradate.models.graded import GradedModel

    model, tokenizer = GradedModel.from_pretrained(encoder), load_tokenizer(encoder)
    model.score(filled_pairs(tokenizer, 64, min(length for length, _ in cells), seed=0))

    def measure(number: int) -> dict[str, Any]:
        length, count = cells[number % len(cells)]
        pairs = filled_pairs(tokenizer, count, length, seed=number)
        synchronize()
        start = time.perf_counter()
        model.score(pairs)
        synchronize()
        seconds = time.perf_counter() - start
        return {"length": length, "pairs": count, "seconds": seconds, "rate": count / seconds}

    return measure
