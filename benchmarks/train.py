"""Table `train`: one epoch over the 5,398 pairs, batch 16, whoever's trainer it is."""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Results, System
from benchmarks.run import Run, sample

STOCK, BEST, PUBLISHED, OURS = "sentence-transformers", "sentence-transformers, best", "published code", "gradate"
CANDIDATES: dict[str, dict[str, Any]] = {
    "bf16": {"bf16": True},
    "bf16, 2 loader workers": {"bf16": True, "dataloader_num_workers": 2},
    "bf16, torch.compile": {"bf16": True, "torch_compile": True},
}
"""Documented settings of the trainer that may speed it up; the fastest over an epoch is its best."""
COMPILE_SKIPPED = 24
SEGMENTS, SEEDS = 5, 3


def measure(run: Run) -> Results:
    """Choose the peer's best settings, then segments of steps in turn, then whole epochs in turn."""
    from benchmarks import ours
    from benchmarks.job import TrainingJob
    from benchmarks.peers import published, stock

    pairs = sample(run.inputs.corpus, 256 if run.quick else 1 << 40)
    steps, skipped, slow_steps, slow_skipped = (6, 2, 1, 0) if run.quick else (64, 8, 6, 1)
    batch = TrainingJob.batch_size
    settings = {
        "pairs": len(pairs),
        "fingerprint": pairs.fingerprint(),
        "batch_size": batch,
        "learning_rate": TrainingJob.learning_rate,
        "loss": f"SmoothK2(k={TrainingJob.k:g}, x0={TrainingJob.x0:g}), boundary none",
        "steps": steps,
        "skipped": skipped,
        "published_steps": slow_steps,
        "published_skipped": slow_skipped,
    }
    with run.results(settings) as results, tempfile.TemporaryDirectory() as folder:
        _count(run, results, pairs)
        head = Path(folder) / "head"
        ours.fit_initial_head(run.inputs.encoder, pairs, head, TrainingJob.k, TrainingJob.x0)
        job = TrainingJob(run.inputs.encoder, head, pairs)
        if not run.quick and not run.only:
            candidates = [
                System(
                    name,
                    stock.build_segment,
                    {
                        "job": job,
                        "arguments": arguments,
                        "steps": steps,
                        "skipped": COMPILE_SKIPPED if "torch_compile" in arguments else skipped,
                    },
                )
                for name, arguments in CANDIDATES.items()
            ]
            run.interleave(results, "candidates", candidates, 2)
        best = CANDIDATES[best_candidate(results.found)]
        plan = {"job": job, "steps": steps, "skipped": skipped}
        contenders = [
            System(STOCK, stock.build_segment, {**plan, "arguments": {}}),
            System(BEST, stock.build_segment, {**plan, "arguments": best}),
            System(OURS, ours.build_segment, plan),
            System(PUBLISHED, published.build_segment, {"job": job, "steps": slow_steps, "skipped": slow_skipped}),
        ]
        run.interleave(results, "segments", contenders, 1 if run.quick else SEGMENTS)
        if not run.quick:
            models = Path(folder)
            epochs = [
                System(STOCK, stock.build_epoch, {"job": job, "arguments": {}, "folder": models / "stock"}),
                System(BEST, stock.build_epoch, {"job": job, "arguments": best, "folder": models / "best"}),
                System(OURS, ours.build_epoch, {"job": job, "folder": models / "ours"}),
            ]
            run.interleave(results, "epochs", epochs, run.options.get("seeds", SEEDS), keep=_judge(run))
    return results


def best_candidate(found: dict[str, Any]) -> str:
    """The candidate whose epoch would end first, its preparation and compilation included."""
    batch, pairs = found["settings"]["batch_size"], found["settings"]["pairs"]
    steps = math.ceil(pairs / batch)
    seconds: dict[str, list[float]] = {}
    for m in found["measurements"]:
        if m["part"] == "candidates":
            skipped = COMPILE_SKIPPED if "compile" in m["system"] else found["settings"]["skipped"]
            rest = (steps - skipped) * m["seconds"] / m["steps"]
            seconds.setdefault(m["system"], []).append(m["before"] + rest)
    return min(seconds, key=lambda name: statistics.median(seconds[name]), default=next(iter(CANDIDATES)))


def _count(run: Run, results: Results, pairs: Any) -> None:
    from benchmarks.flops import Work, token_lengths
    from benchmarks.peers.stock import open_stock

    encoder = open_stock(run.inputs.encoder)
    lengths = token_lengths(encoder, [*pairs.text1, *pairs.text2])
    results.record(
        flop_per_sentence=Work.of(encoder).training(lengths) / len(lengths),
        tokens_per_sentence=sum(lengths) / len(lengths),
    )


def _judge(run: Run) -> Any:
    """Replaces a trained model's folder by its seven values, computed in fp32 for every contender."""

    def keep(name: str, values: dict[str, Any]) -> dict[str, Any]:
        from benchmarks.peers.stock import open_stock
        from gradate.evaluation.protocol import evaluate
        from gradate.models.graded import GradedModel

        folder = Path(values.pop("model"))
        found = evaluate(GradedModel(open_stock(folder), precision="fp32"), run.inputs.benchmark)
        shutil.rmtree(folder)
        tasks = {task: result.spearman for task, result in found.tasks.items()}
        return {**values, "average": found.average, "tasks": tasks}

    return keep
