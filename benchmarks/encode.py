"""Table `encode`: the distinct sentences of the seven STS sets, from texts to embeddings."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Results, System
from benchmarks.run import Run

STOCK, BEST, OURS = "sentence-transformers", "sentence-transformers, best", "gradate"
BATCH_SIZES = (16, 32, 64, 128, 256)
DEFAULT_BATCH_SIZE = 32
COMPILED = "bf16, compiled"
ROUNDS, WARM_UP, TRIED = 5, 512, 4096


def measure(run: Run) -> Results:
    """Choose the peer's best settings on a sample, then encode everything in turn."""
    from benchmarks import ours
    from benchmarks.peers import stock

    texts = run.inputs.sentences
    if run.quick:
        texts = texts[:: max(1, len(texts) // 512)][:512]
    warm_up = 32 if run.quick else WARM_UP
    tried = [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:TRIED]]
    settings = {"texts": len(texts), "warm_up": warm_up, "tried": len(tried)}
    with run.results(settings) as results, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        count_work(run, results, texts)
        plain = {"encoder": run.inputs.encoder, "warm_up": warm_up}
        if not run.quick and not run.only:
            sample = {**plain, "texts": tried, "folder": None, "bf16": True}
            candidates = [
                System(candidate_name(size), stock.build_encode, {**sample, "batch_size": size, "compiled": False})
                for size in BATCH_SIZES
            ]
            compiled = {**sample, "batch_size": DEFAULT_BATCH_SIZE, "compiled": True}
            run.interleave(results, "candidates", [*candidates, System(COMPILED, stock.build_encode, compiled)], 2)
        size, is_compiled = best_candidate(results.found)
        everything = {**plain, "texts": texts}
        default = {"bf16": False, "batch_size": DEFAULT_BATCH_SIZE, "compiled": False}
        best = {"bf16": True, "batch_size": size, "compiled": is_compiled}
        systems = [
            System(STOCK, stock.build_encode, {**everything, **default, "folder": folder / "stock"}),
            System(BEST, stock.build_encode, {**everything, **best, "folder": folder / "best"}),
            System(OURS, ours.build_encode, {**everything, "folder": folder / "ours"}),
        ]
        keep = _Judge(run, texts, folder / "stock" / "embeddings.npy")
        run.interleave(results, "rounds", systems, 1 if run.quick else ROUNDS, keep=keep)
    return results


def candidate_name(batch_size: int) -> str:
    """Name of the candidate with this batch size."""
    return f"bf16, batches of {batch_size}"


def best_candidate(found: dict[str, Any]) -> tuple[int, bool]:
    """Batch size, and whether compiled, of the candidate that would be done first, compilation included."""
    total, tried = found["settings"]["texts"], found["settings"]["tried"]
    seconds: dict[str, list[float]] = {}
    for m in found["measurements"]:
        if m["part"] == "candidates":
            # What goes before is a warm-up except where it compiles.
            before = m["before"] if m["system"] == COMPILED else 0.0
            seconds.setdefault(m["system"], []).append(before + m["seconds"] * total / tried)
    best = min(seconds, key=lambda name: statistics.median(seconds[name]), default="")
    sizes = {candidate_name(size): size for size in BATCH_SIZES}
    return sizes.get(best, DEFAULT_BATCH_SIZE), best == COMPILED


def count_work(run: Run, results: Results, texts: list[str]) -> None:
    """Note what a sentence costs, on average over these texts."""
    from benchmarks.flops import Work, token_lengths
    from benchmarks.peers.stock import open_stock

    encoder = open_stock(run.inputs.encoder)
    lengths = token_lengths(encoder, texts)
    results.record(
        flop_per_sentence=Work.of(encoder).forward(lengths) / len(lengths),
        tokens_per_sentence=sum(lengths) / len(lengths),
    )


class _Judge:
    """Replaces a file of embeddings by what they are worth: cosines to fp32's, and the seven values."""

    def __init__(self, run: Run, texts: list[str], reference: Path) -> None:
        self.run, self.texts, self.reference = run, texts, reference

    def __call__(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        embeddings = np.load(values.pop("embeddings")).astype(np.float64)
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        if self.reference.is_file():
            fp32 = np.load(self.reference).astype(np.float64)
            cosines = np.einsum("nd,nd->n", embeddings, fp32 / np.linalg.norm(fp32, axis=1, keepdims=True))
            values |= {"cosine_min": float(cosines.min()), "cosine_mean": float(cosines.mean())}
        if not self.run.quick:
            tasks = self._tasks(embeddings)
            values |= {"tasks": tasks, "average": statistics.fmean(tasks.values())}
        return values

    def _tasks(self, embeddings: np.ndarray) -> dict[str, float]:
        from gradate.evaluation.metrics import spearman

        rows = {text: row for row, text in enumerate(self.texts)}
        found = {}
        for name, task in self.run.inputs.benchmark.tasks.items():
            gold = np.concatenate([subset.gold for subset in task.subsets])
            left, right = zip(*((rows[a], rows[b]) for a, b in task.text_pairs()), strict=True)
            cosines = np.einsum("nd,nd->n", embeddings[list(left)], embeddings[list(right)])
            value = spearman(gold, cosines)
            assert value is not None
            found[name] = value
        return found
