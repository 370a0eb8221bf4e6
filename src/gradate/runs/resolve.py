"""Resolving a recipe against its data: every source loaded, every `auto` replaced, every choice with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gradate.data.examples import Examples, Pairs
from gradate.data.leakage import find_leaks
from gradate.data.locations import DataLocations
from gradate.data.ranked import Embeddings, RankedRows
from gradate.data.readers import read_pairs
from gradate.data.sources import is_retrieval, load_dev_clean, load_examples, load_ranked, load_source
from gradate.data.split import split_pairs
from gradate.data.studies import draw, with_noise
from gradate.errors import InputError
from gradate.objectives.config import BUFFERED, ObjectiveConfig
from gradate.runs.recipe import Recipe
from gradate.scale import LabelScale
from gradate.training.stage import Stage
from gradate.training.task import TaskConfig

SMALLEST_INTERVAL = 20


@dataclass(frozen=True)
class PairFiles:
    """The user's own pairs, and how to read them."""

    pairs: str | Path | Pairs | None = None
    dev: str | Path | Pairs | None = None
    test: str | Path | Pairs | None = None
    scale: LabelScale | None = None
    columns: str | Sequence[str] | None = None


@dataclass(frozen=True)
class Resolved:
    """A recipe with nothing left to choose, and its data."""

    recipe: Recipe
    stages: tuple[Examples, ...]
    """Training examples of each stage."""
    beside: tuple[tuple[Examples, ...], ...]
    """Training examples of the tasks beside each stage."""
    selections: tuple[Mapping[str, Pairs], ...]
    """Sets that judge each stage's checkpoints, on the stage's scale; empty where nothing is judged."""
    test: Pairs | None
    reasons: tuple[tuple[str, str, str], ...]
    """(key, value, reason) of every choice."""
    notes: tuple[str, ...]
    """What reading the data decided or found."""


def resolve(recipe: Recipe, files: PairFiles, locations: DataLocations) -> Resolved:
    """Load everything a recipe names and settle its `auto` values.

    Raises:
        InputError: data that is missing or does not fit, or a value the data's scale does not allow.
    """
    parts, notes = _user_parts(recipe, files)
    training = [
        _prepared(stage, parts["train"]) if stage.source == "pairs" else stage_examples(stage, locations)
        for stage in recipe.stages
    ]
    if recipe.needs_pairs:
        test: Pairs | None = parts["test"]
    else:
        test = load_source("starter-test", locations) if recipe.stages[-1].source == "starter" else None
    if recipe.evaluation.source != "test":
        test = None
    stages, selections, reasons, beside = [], [], [], []
    for i, (stage, examples) in enumerate(zip(recipe.stages, training, strict=True), start=1):
        tasks = [stage_examples(task, locations) for task in stage.beside]
        beside.append(tuple(tasks))
        notes += [f"{part.name}: {note}" for part in tasks for note in part.notes]
        try:
            settled, why = settle_stage(stage, examples, tasks)
        except InputError as error:
            raise InputError(error.what, where=f"stages.{i}, {error.where}", remedy=error.remedy) from None
        stages.append(settled)
        reasons += [(f"stages.{i}.{key}", value, reason) for key, value, reason in why]
        selections.append(_selection(stage, scale_of(examples), parts, locations))
        if stage.source != "pairs" or stage.limit or stage.noise:
            notes += [f"{examples.name}: {note}" for note in examples.notes]
    last = training[-1]
    if test is not None and isinstance(last, Pairs):
        if test.scale != last.scale:
            raise InputError(f"is on the scale {test.scale}, the training pairs on {last.scale}", where=test.name)
        notes += _leak_notes(last, test)
    return Resolved(
        replace(recipe, stages=tuple(stages)),
        tuple(training),
        tuple(beside),
        tuple(selections),
        test,
        tuple(reasons),
        tuple(dict.fromkeys(notes)),
    )


def scale_of(examples: Examples) -> LabelScale | None:
    """The scale of graded pairs; None for examples without grades."""
    return examples.scale if isinstance(examples, Pairs) else None


def stage_examples(
    part: Stage | TaskConfig, locations: DataLocations, embed: Callable[[list[str]], Embeddings] | None = None
) -> Examples:
    """What a stage whose source is not the user's pairs, or a task beside one, trains on.

    Args:
        part: The stage or task.
        locations: Where the data lies.
        embed: Embeddings (n, dim) of n texts, which rank its negatives; None: TF-IDF does.
    """
    return _prepared(part, _load(part, locations, embed))


def _prepared(part: Stage | TaskConfig, examples: Examples) -> Examples:
    if part.limit is not None:
        examples = draw(examples, part.limit)
    noise = part.noise if isinstance(part, Stage) else 0.0
    return with_noise(examples, noise) if noise and isinstance(examples, Pairs) else examples


def _load(
    part: Stage | TaskConfig, locations: DataLocations, embed: Callable[[list[str]], Embeddings] | None
) -> Examples:
    if not is_retrieval(part.source):
        return load_examples(part.source, locations)
    negatives = part.negatives
    return load_ranked(
        part.source,
        locations,
        shown=(part.objective.positives, negatives.count),
        pool=negatives.pool,
        skip=negatives.skip,
        nearest=negatives.choice == "nearest",
        embed=embed,
    )


def settle_stage(
    stage: Stage, examples: Examples, beside: Sequence[Examples] = ()
) -> tuple[Stage, list[tuple[str, str, str]]]:
    """Replace a stage's `auto` values; returns it with (key, value, reason) of each choice.

    Args:
        stage: The stage as the recipe has it.
        examples: Its own examples.
        beside: Examples of the tasks beside it.

    Raises:
        InputError: x0 beyond d/2 on the pairs' scale, all grades equal, a classifier on a continuous scale, or a loss
            that reads grades on examples that have none.
    """
    n = len(examples)
    if stage.negatives.replace_every is not None and not isinstance(examples, RankedRows):
        what = f"{examples.name} has no pool of negatives"
        raise InputError(what, where="negatives.replace_every", remedy="name a retrieval set as the source")
    reasons: list[tuple[str, str, str]] = []
    objective = _fitting_objective(stage.objective, examples, reasons)
    tasks = tuple(
        replace(
            task,
            objective=_fitting_objective(task.objective, part, reasons),
            batch_size=min(task.batch_size, len(part)),
        )
        for task, part in zip(stage.beside, beside, strict=True)
    )
    if stage.batch_size == "auto":
        batch = min(16, max(1, n // 4))
        reasons.append(("batch_size", str(batch), "16 as in the paper" if batch == 16 else f"only {n} pairs"))
    else:
        batch = min(stage.batch_size, n)
        if batch < stage.batch_size:
            reason = f"there are only {n} pairs, fewer than the {stage.batch_size} asked for"
            reasons.append(("batch_size", str(batch), reason))
    batching = stage.batching
    if batching == "auto":
        batching = "bucketed" if stage.is_bucketed else "random"
        what = "is a sum over pairs: like lengths may meet" if stage.is_bucketed else "judges a batch as a whole"
        reasons.append(("batching", batching, f"{objective.title} {what}"))
    batches = math.ceil(n / batch)
    if stage.mix == "alternate":
        batches += sum(math.ceil(len(part) / task.batch_size) for task, part in zip(tasks, beside, strict=True))
    per_epoch = math.ceil(batches / stage.accumulate)
    every = stage.evaluate_every
    if every == "auto":
        every = max(min(SMALLEST_INTERVAL, per_epoch), per_epoch // 4)
        reasons.append(("evaluate_every", str(every), f"an epoch has {per_epoch} updates; about four times an epoch"))
    if stage.is_convex:
        # Batches and intervals mean nothing to a solver; their reasons would only be noise.
        reasons = [reason for reason in reasons if reason[0] not in ("batch_size", "batching", "evaluate_every")]
    settled = replace(
        stage, objective=objective, beside=tasks, batch_size=batch, batching=batching, evaluate_every=every
    )
    return settled, reasons


def _fitting_objective(
    objective: ObjectiveConfig, examples: Examples, reasons: list[tuple[str, str, str]]
) -> ObjectiveConfig:
    """The objective with its `auto` values settled, if these examples have what it reads."""
    n = len(examples)
    if n == 0:
        raise InputError("there are no examples", where=examples.name, remedy="give some")
    if not objective.reads_grades:
        return objective
    if not isinstance(examples, Pairs):
        what = f"{objective.title} reads grades, and {examples.name} has none"
        raise InputError(what, where="source", remedy="name graded pairs, or objective.name info-nce")
    if np.unique(examples.grades).size < 2:
        what = f"all {n} grades are {examples.grades[0]:g}: nothing to order"
        raise InputError(what, where=examples.name, remedy="give pairs of at least two grades")
    if examples.weights is not None and not objective.per_example:
        what = f"{examples.name} has weights, and {objective.title} is no mean over pairs that could be weighted"
        raise InputError(what, where="objective.name", remedy="leave the weights out, or take another loss")
    return _settle_objective(objective, examples.scale, reasons)


def _settle_objective(
    objective: ObjectiveConfig, scale: LabelScale, reasons: list[tuple[str, str, str]]
) -> ObjectiveConfig:
    if objective.name == "sum":
        parts = tuple(_settle_objective(part, scale, reasons) for part in objective.parts)
        return replace(objective, parts=parts)
    if objective.name == "cross-entropy" and scale.is_continuous:
        raise InputError(
            f"cross-entropy needs classes, the scale {scale} is continuous",
            where="objective.name",
            remedy="declare grades with --scale a,b,c or choose another loss",
        )
    if objective.name not in BUFFERED:
        return objective
    # On a continuous scale a fifth of the range stands in for the spacing, as 1 does on 0..5 in the paper.
    spacing = scale.d if scale.d is not None else (scale.high - scale.low) / 5
    origin = f"spacing d = {spacing:g}" if scale.d is not None else f"a fifth of the range {scale} stands in for d"
    k, x0 = objective.k, objective.x0
    if k == "auto":
        k = 2 / spacing**2 if objective.name == "smooth-k2" else 2.5 / spacing
        power = "2/d²" if objective.name == "smooth-k2" else "2.5/d"
        reasons.append(("objective.k", f"{k:g}", f"{power}, the paper's value for d = 1; {origin}"))
    if x0 == "auto":
        x0 = spacing / 4 if scale.d is not None else spacing / 5
        power = "d/4" if scale.d is not None else "d/5"
        reasons.append(("objective.x0", f"{x0:g}", f"{power}, the paper's value for such a scale; {origin}"))
    scale.check_x0(x0)
    return replace(objective, k=k, x0=x0)


def _user_parts(recipe: Recipe, files: PairFiles) -> tuple[dict[str, Pairs], list[str]]:
    if not recipe.needs_pairs:
        if files.pairs is not None or files.dev is not None or files.test is not None:
            raise InputError(
                "this recipe brings its own data", where="--pairs", remedy="leave --pairs/--dev/--test out"
            )
        return {}, []
    if files.pairs is None:
        raise InputError("this recipe trains on your pairs", where="--pairs", remedy="pass --pairs FILE")
    given = _read(files.pairs, files, files.scale)
    notes = [f"{given.name}: {note}" for note in given.notes]
    parts = {
        name: _read(part, files, given.scale)
        for name, part in (("dev", files.dev), ("test", files.test))
        if part is not None
    }
    missing = [name for name in ("dev", "test") if name not in parts]
    if not missing:
        return {"train": given, **parts}, notes
    split = split_pairs(given, seed=recipe.seed)
    found = {"dev": split.dev, "test": split.test}
    train = split.train
    for name in parts:
        train = replace(Pairs.concatenate([train, found[name]], given.name), notes=given.notes)
        notes.append(f"the {name} part of the split goes to training, since --{name} brings its own")
    return {"train": train, **{name: found[name] for name in missing}, **parts}, [*notes, *split.notes]


def _read(part: str | Path | Pairs, files: PairFiles, scale: LabelScale | None) -> Pairs:
    return part if isinstance(part, Pairs) else read_pairs(part, scale=scale, columns=files.columns)


def _selection(
    stage: Stage, scale: LabelScale | None, parts: Mapping[str, Pairs], locations: DataLocations
) -> Mapping[str, Pairs]:
    if stage.selection is None:
        return {}
    source = stage.selection.source
    if source == "dev":
        if "dev" not in parts:
            raise InputError(
                "there are no dev pairs to select on", where="selection.source", remedy="name a source, or null"
            )
        sets: Mapping[str, Pairs] = {"dev": parts["dev"]}
    else:
        sets = load_dev_clean(locations) if source == "sts-dev-clean" else {source: load_source(source, locations)}
    return {name: _on_scale(pairs, scale) for name, pairs in sets.items()}


def _on_scale(pairs: Pairs, scale: LabelScale | None) -> Pairs:
    if scale is None or pairs.scale == scale:
        return pairs
    return replace(
        pairs, grades=pairs.scale.rescale(pairs.grades, scale), scale=LabelScale.continuous(scale.low, scale.high)
    )


def _leak_notes(train: Pairs, test: Pairs) -> list[str]:
    leaks = find_leaks(train, {test.name: test})
    total = leaks.exact + leaks.swapped + leaks.folded
    if not total:
        return []
    kinds = f"{leaks.exact} exact, {leaks.swapped} swapped, {leaks.folded} after case and space folding"
    return [f"warning: {total} training pairs also stand in {test.name} ({kinds}); the test flatters the model"]
