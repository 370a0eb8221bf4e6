"""Measuring a row: a recipe run with one seed, or a system that nobody trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradate.evaluation.baseline import bag_of_words
from gradate.evaluation.metrics import Array, spearman
from gradate.evaluation.protocol import evaluate
from gradate.evaluation.retrieval import evaluate_retrieval
from gradate.models.graded import GradedModel
from gradate.models.shallow import shallow_encoder
from gradate.runs.environment import environment
from gradate.runs.folder import read_json
from gradate.runs.recipe import Recipe
from gradate.runs.reproduction.cells import SeedResult
from gradate.runs.reproduction.source import Source
from gradate.runs.reproduction.spec import Baseline, Part
from gradate.runs.results import Run
from gradate.runs.run import train
from gradate.training.callbacks.observer import Observer
from gradate.training.callbacks.run_log import RunLog, negative_looks

KNOWN = ("device_name", "cores", "threads", "precision", "python", "packages")


def measure_baseline(baseline: Baseline, seed: int, source: Source, part: Part) -> SeedResult:
    """A system without training on the seven sets, and on the table's retrieval sets."""
    found = None
    if baseline == "bag-of-words":
        scores = {name: bag_of_words(*zip(*t.text_pairs(), strict=True)) for name, t in source.benchmark.tasks.items()}
    else:
        model = GradedModel(shallow_encoder(seed)) if baseline == "shallow" else GradedModel.from_pretrained(baseline)
        scores = evaluate(model, source.benchmark).scores
        found = _retrieval(model, source, part)
    return _result(scores, source, selection=None, minutes=None, known=environment(), grades=None, retrieval=found)


def measure_recipe(
    recipe: Recipe,
    seed: int,
    source: Source,
    *,
    folder: Path,
    part: Part,
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
        part: The table: whether predicted grades are measured, and which retrieval sets.
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
    if part.grades and model.head is not None and model.scale == source.grades.scale:
        predicted = model.predict(source.grades, clip=False)
    return _result(
        evaluate(model, source.benchmark).scores,
        source,
        selection=None if run.best is None else {**run.best, "start": run.stages[-1].start},
        minutes=sum(stage.seconds for stage in run.stages) / 60,
        known=read_json(folder / "env.json"),
        grades=predicted,
        retrieval=_retrieval(model, source, part),
        negatives=negative_looks(RunLog(folder / "log.jsonl").records()),
    )


def _retrieval(model: GradedModel, source: Source, part: Part) -> dict[str, Array] | None:
    """nDCG@10 of every query of the table's retrieval sets; None where it has none."""
    sets = [source.retrieval[name] for name in part.retrieval]
    return {one.name: evaluate_retrieval(model, one).tasks[one.name].ndcg for one in sets} or None


def _result(
    scores: dict[str, Array],
    source: Source,
    *,
    selection: dict[str, Any] | None,
    minutes: float | None,
    known: dict[str, Any],
    grades: Array | None,
    retrieval: dict[str, Array] | None,
    negatives: Sequence[Mapping[str, Any]] = (),
) -> SeedResult:
    golds = {name: task.gold for name, task in source.tasks().items()}
    tasks = {name: spearman(golds[name], scores[name]) for name in golds}
    defined = [value for value in tasks.values() if value is not None]
    average = float(np.mean(defined)) if len(defined) == len(tasks) else None
    return SeedResult(
        average, tasks, selection, minutes, {key: known[key] for key in KNOWN}, scores, grades, retrieval, negatives
    )
