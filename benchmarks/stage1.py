"""Table `stage1`: the head alone, on NLI with the encoder frozen; one epoch of a trainer against the convex fit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Results, System
from benchmarks.run import Run, sample

STOCK, COLD, WARM = "sentence-transformers, head alone", "gradate, empty cache", "gradate, filled cache"
ROUNDS = 3
EPOCH = "epoch"
"""Option: run the trainer to the end of its epoch once, so that its head can be judged too."""


def measure(run: Run) -> Results:
    """The trainer's segment, the fit with an empty cache of features, the fit with the cache that it left."""
    from benchmarks import ours
    from benchmarks.job import TrainingJob
    from benchmarks.peers import stock

    pairs = sample(run.inputs.nli, 400 if run.quick else 1 << 40)
    steps, skipped = (4, 2) if run.quick else (200, 8)
    settings = {
        "pairs": len(pairs),
        "fingerprint": pairs.fingerprint(),
        "batch_size": TrainingJob.batch_size,
        "loss": "SmoothK2(k=2, x0=0.25), boundary none",
        "steps": steps,
        "skipped": skipped,
    }
    with run.results(settings) as results, tempfile.TemporaryDirectory() as scratch:
        head, caches = Path(scratch) / "head", Path(scratch) / "caches"
        _new_head(run, pairs, head)
        job = TrainingJob(run.inputs.encoder, head, pairs, learning_rate=1e-3, k=2.0, x0=0.25)
        results.record(texts=len(pairs.texts()))
        systems = [
            System(
                STOCK,
                stock.build_segment,
                {"job": job, "arguments": {}, "steps": steps, "skipped": skipped, "frozen": True},
            ),
            System(COLD, ours.build_head_fit, {"job": job, "caches": caches, "warm": False}),
            System(WARM, ours.build_head_fit, {"job": job, "caches": caches, "warm": True}),
        ]
        run.interleave(results, "rounds", systems, 1 if run.quick else ROUNDS, keep=_Judge(run, pairs, job))
        if run.options.get(EPOCH):
            epoch = System(STOCK, stock.build_frozen_epoch, {"job": job, "folder": Path(scratch) / "trained"})
            run.interleave(results, "epoch", [epoch], 1, keep=_Judge(run, pairs, job))
    return results


def _new_head(run: Run, pairs: Any, folder: Path) -> None:
    import torch

    from benchmarks.peers.stock import open_stock
    from gradate.models.head import PairHead

    dim = open_stock(run.inputs.encoder).get_embedding_dimension()
    assert dim is not None
    torch.manual_seed(0)
    PairHead(dim).save(folder, pairs.scale)


class _Judge:
    """Replaces a head's folder by its mean loss on all pairs, over features computed once."""

    def __init__(self, run: Run, pairs: Any, job: Any) -> None:
        self.run, self.pairs, self.job = run, pairs, job
        self.encoded: Any = None

    def __call__(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        if "head" in values:
            values["loss"] = self._loss(Path(values.pop("head")))
        if "steps" in values:
            # A segment stands for the epoch it would be part of.
            values["measured_seconds"] = values["seconds"]
            values["seconds"] = 2 * len(self.pairs) / values["rate"]
        return values

    def _loss(self, folder: Path) -> float:
        import torch

        from benchmarks.peers.stock import open_stock, without_normalize
        from gradate.engine.encoding import encode_distinct
        from gradate.engine.precision import resolve_precision
        from gradate.losses.smooth_k2 import SmoothK2Loss
        from gradate.models.head import PairHead

        n = len(self.pairs)
        if self.encoded is None:
            encoder = without_normalize(open_stock(self.run.inputs.encoder))
            texts = [*self.pairs.text1, *self.pairs.text2]
            self.encoded = encode_distinct(encoder, texts, precision=resolve_precision("auto", encoder.device))
        head, _, _ = PairHead.load(folder)
        loss_of = SmoothK2Loss(self.job.k, self.job.x0, reduction="sum")
        embeddings, index = self.encoded.embeddings, self.encoded.index
        total = 0.0
        with torch.no_grad():
            for first in range(0, n, 16_384):
                rows = slice(first, min(first + 16_384, n))
                u = torch.from_numpy(embeddings[index[:n][rows]])
                v = torch.from_numpy(embeddings[index[n:][rows]])
                total += float(loss_of(head(u, v), torch.from_numpy(self.pairs.grades[rows])))
        return total / n
