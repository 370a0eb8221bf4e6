"""A SentEval-style evaluation of STS, as a process of its own: `python -m benchmarks.peers.senteval ENCODER DATA`.

As SimCSE's copy of SentEval does it: each subset's pairs sorted by length, in batches of 128, each side apart, padded
to the longest of the batch, fp32, a sentence that occurs again encoded again; cosine; one Spearman per year.
Only the test parts of STS-B and SICK-R are encoded (its copy encodes the training and dev parts too).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers import AutoModel, AutoTokenizer

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.locations import DataLocations

BATCH_SIZE = 128


class Batcher:
    """Texts to mean-pooled embeddings."""

    def __init__(self, encoder: Path, limit: int = 256) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(encoder, local_files_only=True)
        self.model = AutoModel.from_pretrained(encoder, local_files_only=True, dtype=torch.float32).eval()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model.to(self.device)
        self.limit = limit

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        words = [" ".join(text.split()) for text in texts]
        tokens = self.tokenizer(words, return_tensors="pt", padding=True, truncation=True, max_length=self.limit)
        tokens = tokens.to(self.device)
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        return ((states * mask).sum(dim=1) / mask.sum(dim=1)).cpu().numpy()


def evaluate(embed: Any, benchmark: Benchmark) -> dict[str, float]:
    """Spearman × 100 of each task."""
    found = {}
    for name, task in benchmark.tasks.items():
        golds, cosines = [], []
        for subset in task.subsets:
            rows = sorted(
                zip(subset.text1, subset.text2, subset.gold, strict=True),
                key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]),
            )
            for first in range(0, len(rows), BATCH_SIZE):
                left, right, gold = zip(*rows[first : first + BATCH_SIZE], strict=True)
                u, v = embed(left), embed(right)
                lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
                cosines.append(np.nan_to_num((u * v).sum(axis=1) / lengths))
                golds.append(np.array(gold))
        found[name] = 100 * float(spearmanr(np.concatenate(golds), np.concatenate(cosines)).statistic)
    return found


def main() -> None:
    """Print the seven values as JSON."""
    encoder, data = Path(sys.argv[1]), sys.argv[2]
    print(json.dumps(evaluate(Batcher(encoder), load_seven_sts(DataLocations.resolve([data], {})))))


if __name__ == "__main__":
    main()
