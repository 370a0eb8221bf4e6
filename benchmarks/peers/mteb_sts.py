"""mteb on the seven STS sets from local files, as a process of its own: `python -m benchmarks.peers.mteb_sts …`.

Its own tasks and its own evaluation with its defaults; only the data set of a task is built in memory instead of being
downloaded, from the same rows that every other contender reads (its SICK-R from the Hub would hold 9,927 pairs of all
parts; here it holds the 4,927 of the test).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.locations import DataLocations

NAMES = {"STS-B": "STSBenchmark"}
"""Names of the tasks in mteb, where they differ."""


def local_task(name: str, benchmark: Benchmark) -> Any:
    """mteb's task of this name, its data set in memory."""
    task = mteb.get_task(NAMES.get(name, name), eval_splits=["test"])
    pairs = benchmark.tasks[name].text_pairs()
    gold = np.concatenate([subset.gold for subset in benchmark.tasks[name].subsets])
    columns = {"sentence1": [a for a, _ in pairs], "sentence2": [b for _, b in pairs], "score": gold.tolist()}
    task.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
    task.data_loaded = True
    return task


def evaluate(encoder: SentenceTransformer, benchmark: Benchmark) -> dict[str, float]:
    """Spearman × 100 of each task."""
    tasks = {name: local_task(name, benchmark) for name in benchmark.tasks}
    result = mteb.evaluate(encoder, list(tasks.values()), cache=None, show_progress_bar=False)
    scores = {found.task_name: 100 * float(found.get_score()) for found in result.task_results}
    return {name: scores[task.metadata.name] for name, task in tasks.items()}


def main() -> None:
    """Print the seven values as JSON."""
    encoder, data = Path(sys.argv[1]), sys.argv[2]
    benchmark = load_seven_sts(DataLocations.resolve([data], {}))
    found = evaluate(SentenceTransformer(str(encoder), local_files_only=True), benchmark)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
