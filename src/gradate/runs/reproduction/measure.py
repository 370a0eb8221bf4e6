"""Measuring a row: a recipe run with one seed, or a system that nobody trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.sources import load_source
from gradate.data.studies import draw
from gradate.errors import InputError
from gradate.evaluation.baseline import bag_of_words
from gradate.evaluation.clusters import sentence_clusters
from gradate.evaluation.metrics import Array, spearman
from gradate.evaluation.protocol import evaluate
from gradate.evaluation.systems import ScoredTask
from gradate.models.graded import GradedModel
from gradate.models.shallow import shallow_encoder
from gradate.runs.environment import environment
from gradate.runs.folder import read_json
from gradate.runs.recipe import Recipe
from gradate.runs.reproduction.cells import SeedResult
from gradate.runs.reproduction.spec import Baseline
from gradate.runs.results import Run
from gradate.runs.run import train
from gradate.training.callbacks.observer import Observer

GRADES_SOURCE, GRADES_PAIRS = "nli-dev", 5_000
"""Pairs on which predicted grades are compared: as many of the NLI dev pairs, drawn by lot."""
KNOWN = ("device_name", "cores", "threads", "precision", "python", "packages")


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

    def lacks(self, recipe: Recipe | None, *, grades: bool) -> str | None:
        """What is not at hand for a row, in words; None where everything is."""
        if self.hub:
            return None
        if self.locations.senteval is None:
            return "the STS sets: --data FOLDER in SentEval's layout"
        named, wanted = self.locations.named, {stage.source for stage in recipe.stages} if recipe else set()
        if wanted & {"nli", "nli-triplets"} or grades:
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


def measure_baseline(baseline: Baseline, seed: int, source: Source) -> SeedResult:
    """A system without training on the seven sets."""
    if baseline == "bag-of-words":
        scores = {name: bag_of_words(*zip(*t.text_pairs(), strict=True)) for name, t in source.benchmark.tasks.items()}
    else:
        model = GradedModel(shallow_encoder(seed)) if baseline == "shallow" else GradedModel.from_pretrained(baseline)
        scores = evaluate(model, source.benchmark).scores
    return _result(scores, source, selection=None, minutes=None, known=environment(), grades=None)


def measure_recipe(
    recipe: Recipe,
    seed: int,
    source: Source,
    *,
    folder: Path,
    grades: bool,
    resume: bool,
    trust_remote_code: bool,
    observer: Observer,
) -> SeedResult:
    """A recipe run with one seed.

    Args:
        recipe: The recipe; its own seed does not count.
        seed: Seed of the run.
        source: The data.
        folder: Run folder, of this recipe and seed alone.
        grades: Whether predicted grades are measured.
        resume: Go on with a run that stands there half done; else it is begun anew.
        trust_remote_code: Run Python code that comes with the encoder.
        observer: Who watches.
    """
    run = train(
        replace(recipe, seed=seed, evaluation=replace(recipe.evaluation, source="none")),
        out=folder,
        data=source.values,
        resume=resume or not folder.exists(),
        overwrite=not resume and folder.exists(),
        trust_remote_code=trust_remote_code,
        observer=observer,
    )
    assert isinstance(run, Run)
    model = GradedModel.from_pretrained(run.model, precision=recipe.precision, trust_remote_code=trust_remote_code)
    predicted = None
    if grades and model.head is not None and model.scale == source.grades.scale:
        predicted = model.predict(source.grades, clip=False)
    return _result(
        evaluate(model, source.benchmark).scores,
        source,
        selection=None if run.best is None else {**run.best, "start": run.stages[-1].start},
        minutes=sum(stage.seconds for stage in run.stages) / 60,
        known=read_json(folder / "env.json"),
        grades=predicted,
    )


def _result(
    scores: dict[str, Array],
    source: Source,
    *,
    selection: dict[str, Any] | None,
    minutes: float | None,
    known: dict[str, Any],
    grades: Array | None,
) -> SeedResult:
    golds = {name: task.gold for name, task in source.tasks().items()}
    tasks = {name: spearman(golds[name], scores[name]) for name in golds}
    defined = [value for value in tasks.values() if value is not None]
    average = float(np.mean(defined)) if len(defined) == len(tasks) else None
    return SeedResult(average, tasks, selection, minutes, {key: known[key] for key in KNOWN}, scores, grades)


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
