"""Where a table's data lies, and what is read of it more than once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.locations import RETRIEVAL_PREFIX, RETRIEVAL_SETS, DataLocations
from gradate.data.retrieval import RetrievalSet, load_retrieval
from gradate.data.sources import load_source
from gradate.data.studies import draw
from gradate.errors import InputError
from gradate.evaluation.clusters import sentence_clusters
from gradate.evaluation.systems import ScoredTask
from gradate.runs.recipe import Recipe
from gradate.runs.reproduction.spec import Part

GRADES_SOURCE, GRADES_PAIRS = "nli-dev", 5_000
"""Pairs on which predicted grades are compared: as many of the NLI dev pairs, drawn by lot."""


@dataclass(frozen=True)
class Source:
    """Where data lies, and what is read of it more than once.

    Args:
        values: `--data` values.
        hub: Whether what is missing may be fetched from the Hub.
    """

    values: tuple[str, ...] = ()
    hub: bool = False

    @cached_property
    def locations(self) -> DataLocations:
        """The places."""
        return DataLocations.resolve(self.values)

    @cached_property
    def benchmark(self) -> Benchmark:
        """The seven STS test sets."""
        return load_seven_sts(self.locations)

    @cached_property
    def grades(self) -> Pairs:
        """Pairs whose predicted grades are compared."""
        return draw(load_source(GRADES_SOURCE, self.locations), GRADES_PAIRS)

    @cached_property
    def retrieval(self) -> dict[str, RetrievalSet]:
        """The retrieval sets that are at hand, their test parts."""
        given = [name for name in RETRIEVAL_SETS if f"{RETRIEVAL_PREFIX}{name}" in self.locations.named]
        return {name: load_retrieval(name, self.locations) for name in given}

    def lacks(self, recipe: Recipe | None, part: Part) -> str | None:
        """What is not at hand for a row of a table, in words; None where everything is."""
        for name in part.retrieval:
            if f"{RETRIEVAL_PREFIX}{name}" not in self.locations.named:
                return f"the retrieval set {name}: --data beir/{name}=FOLDER"
        if self.hub:
            return None
        if self.locations.senteval is None:
            return "the STS sets: --data FOLDER in SentEval's layout"
        named, stages = self.locations.named, recipe.stages if recipe else ()
        wanted = {stage.source for stage in stages} | {task.source for stage in stages for task in stage.beside}
        if wanted & {"nli", "nli-triplets"} or part.grades:
            if "nli" not in named and not (wanted <= {"nli-triplets"} and "nli-triplets" in named):
                return "the NLI pairs: --data nli=FILE"
        if "sentences" in wanted and "sentences" not in named:
            return "unlabelled sentences: --data sentences=FILE"
        return None

    def tasks(self) -> dict[str, ScoredTask]:
        """What scores of the seven sets are held against."""
        found = {}
        for name, task in self.benchmark.tasks.items():
            gold = np.concatenate([np.asarray(subset.gold, dtype=np.float64) for subset in task.subsets])
            clusters = sentence_clusters(task.text_pairs())
            found[name] = ScoredTask(gold, tuple(len(subset) for subset in task.subsets), clusters)
        return found

    def graded_task(self) -> dict[str, ScoredTask]:
        """What predicted grades are held against."""
        pairs = self.grades
        clusters = sentence_clusters(zip(pairs.text1, pairs.text2, strict=True))
        return {GRADES_SOURCE: ScoredTask(pairs.grades, clusters=clusters)}

    def retrieval_task(self, name: str) -> dict[str, ScoredTask]:
        """The queries of a retrieval set; what is compared is a measure of each, held against nothing."""
        return {name: ScoredTask(np.zeros(len(self.retrieval[name])))}


def require_same_data(stored: dict[str, Any], now: dict[str, Any], where: Sequence[object]) -> None:
    """Refuse a cell that was measured on other data.

    Raises:
        InputError: a fingerprint differs.
    """
    for key, value in now.items():
        if key in stored and stored[key] != value:
            raise InputError(
                f"was measured on other data ({key} {stored[key]}, here {value})",
                where=" ".join(map(str, where)),
                remedy="use the data it was measured on, or delete the cell to run it again",
            )
