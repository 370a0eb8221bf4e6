"""Systems to compare: finished runs, several seeds pooled, or models measured now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from gradate.data.benchmarks import SEVEN_STS, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.locations import RETRIEVAL_PREFIX, DataLocations
from gradate.data.readers import read_pairs
from gradate.data.sts_files import STS_YEARS
from gradate.errors import InputError
from gradate.evaluation.clusters import sentence_clusters
from gradate.evaluation.metrics import Array, mean_statistic, spearman_statistic, undefined_reason
from gradate.evaluation.protocol import evaluate
from gradate.evaluation.retrieval import BENCHMARK as RETRIEVAL
from gradate.evaluation.retrieval import evaluate_retrieval
from gradate.evaluation.systems import AVERAGE, Arena, Difference, ScoredTask, System
from gradate.runs.folder import RETRIEVAL_FOLDER, STATUS
from gradate.scale import LabelScale


@dataclass(frozen=True, eq=False)
class Contest:
    """Systems against a reference.

    Args:
        reference: Name of the first system.
        differences: What each other system has over it, by task and on the average.
        values: Each system's metric by task and on the average, mean over seeds; None where undefined.
        seeds: Seeds of each system; 0 for one without.
        resamples: Bootstrap resamples.
        metric: `spearman` or `ndcg@10`, × 100.
        notes: Undefined correlations, and why.
    """

    reference: str
    differences: dict[str, dict[str, Difference]]
    values: dict[str, dict[str, float | None]]
    seeds: dict[str, int]
    resamples: int
    metric: str = "spearman"
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON; with two systems, their comparison itself."""
        found = [
            {
                "model": name,
                "tasks": {task: d.to_json() for task, d in differences.items() if task != AVERAGE},
                "average": differences[AVERAGE].to_json(),
            }
            for name, differences in self.differences.items()
        ]
        common = {
            "reference": self.reference,
            "metric": self.metric,
            "values": self.values,
            "seeds": self.seeds,
            "resamples": self.resamples,
            "notes": list(self.notes),
        }
        return {**common, **found[0]} if len(found) == 1 else {**common, "comparisons": found}


def compare_systems(
    names: Sequence[str],
    *,
    benchmark: str = "seven-sts",
    pairs: str | Path | Pairs | None = None,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    precision: str = "auto",
    resamples: int = 1000,
) -> Contest:
    """Compare finished runs or models on the same pairs, or on the queries of the same retrieval sets.

    A run folder brings the scores it wrote down, those of several seeds pooled. Anything else is a model, measured now
    on `pairs`, on the test pairs of the runs beside it, or on the benchmark.

    Args:
        names: The reference first; two or more.
        benchmark: `seven-sts`, `retrieval` or one retrieval set; a run measured on pairs of its own keeps to these.
        pairs: Graded pairs to measure all of them on, runs too.
        scale: Scale of the grades in a file of pairs; None infers one.
        columns: Columns of a file of pairs; see `read_pairs`.
        data: Data folders or `NAME=PATH`; see `DataLocations.resolve`.
        precision: `auto`, `fp32`, `tf32` or `bf16`, for what is measured now.
        resamples: Bootstrap resamples, 1 or more.

    Raises:
        InputError: fewer than two systems, a run that is not finished, or systems measured on different pairs.
    """
    if len(names) < 2:
        raise InputError("a comparison needs at least two systems", remedy="name two runs or models")
    if len(set(names)) < len(names):
        raise InputError("the same system stands twice", remedy="name each once")
    if pairs is not None and not isinstance(pairs, Pairs):
        pairs = read_pairs(pairs, scale=scale, columns=columns)
    runs = {name: Path(name).expanduser() for name in names if (Path(name).expanduser() / STATUS).is_file()}
    by_query = benchmark != "seven-sts" and pairs is None
    if by_query:
        loaded = {name: found for name in runs if (found := _read_retrieval(name, runs[name], benchmark)) is not None}
    else:
        loaded = {name: _read_run(name, folder) for name, folder in runs.items()} if pairs is None else {}
    own = pairs or next((found.pairs for found in loaded.values() if found.pairs is not None), None)
    for name in names:
        if name not in loaded:
            models = _models(runs[name]) if name in runs else {0: name}
            if by_query:
                loaded[name] = _measure_retrieval(name, models, benchmark, data, precision)
            else:
                loaded[name] = _measure(name, models, own, data, precision)
    reference = loaded[names[0]]
    for name in names[1:]:
        _require_same(names[0], reference, name, loaded[name])
    known = {
        task: next((f.tasks[task] for f in loaded.values() if f.tasks[task].clusters is not None), scored)
        for task, scored in reference.tasks.items()
    }
    arena = Arena(known, statistic=mean_statistic if by_query else spearman_statistic, resamples=resamples)
    systems = {name: loaded[name].system for name in names}
    differences = {name: arena.difference(systems[names[0]], systems[name]) for name in names[1:]}
    values = {
        name: {task: _defined(float(np.mean(found))) for task, found in arena.values(system).items()}
        for name, system in systems.items()
    }
    seeds = {name: len(system.seeds) for name, system in systems.items()}
    notes = () if by_query else tuple(_undefined(systems, known))
    return Contest(names[0], differences, values, seeds, resamples, "ndcg@10" if by_query else "spearman", notes)


@dataclass(frozen=True, eq=False)
class _Loaded:
    system: System
    tasks: dict[str, ScoredTask]
    pairs: Pairs | None = None
    """A run's own test pairs, where it was measured on some."""
    queries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the queries that were ranked, by retrieval set."""


def _seed_folders(folder: Path) -> dict[int, Path]:
    """Folder of each seed; the run itself, as seed 0, where there is one only."""
    seeds = {int(path.name.removeprefix("seed-")): path for path in folder.glob("seed-*")}
    return dict(sorted(seeds.items())) or {0: folder}


def _models(folder: Path) -> dict[int, str]:
    return {seed: str(path / "model") for seed, path in _seed_folders(folder).items()}


def _read_run(name: str, folder: Path) -> _Loaded:
    folders = _seed_folders(folder)
    tables: list[dict[str, Any]] = []
    for place in folders.values():
        files = sorted((place / "predictions").glob("*.parquet"))
        if not files or not (place / "metrics.json").is_file():
            raise InputError("is no finished run that was measured", where=place, remedy="finish it with --resume")
        tables.append({file.stem: pq.read_table(file) for file in files})
    order = [task for task in SEVEN_STS if task in tables[0]] or list(tables[0])
    scores: dict[str, Array] = {}
    tasks: dict[str, ScoredTask] = {}
    pairs = None
    for task in order:
        if any(task not in table for table in tables):
            raise InputError(f"not all of its seeds were measured on {task}", where=folder)
        first = tables[0][task]
        own = "text1" in first.column_names
        gold = first["grade" if own else "gold"].to_numpy()
        scores[task] = np.stack([t[task]["similarity_after" if own else "after"].to_numpy() for t in tables])
        clusters = None
        if own:
            text1, text2 = first["text1"].to_pylist(), first["text2"].to_pylist()
            scale = LabelScale.continuous(float(gold.min()), float(gold.max()))
            pairs = Pairs(text1, text2, gold, scale, name=task)
            clusters = sentence_clusters(zip(text1, text2, strict=True))
        sizes = tuple(STS_YEARS[task].values()) if task in STS_YEARS else None
        tasks[task] = ScoredTask(gold, sizes if sizes and sum(sizes) == len(gold) else None, clusters)
    seeds = () if list(folders) == [0] else tuple(folders)
    return _Loaded(System(name, scores, seeds), tasks, pairs)


def _read_retrieval(name: str, folder: Path, benchmark: str) -> _Loaded | None:
    """nDCG@10 by query that a run wrote down; None where it was not measured on the benchmark."""
    folders = _seed_folders(folder)
    tables = [
        {file.stem: pq.read_table(file) for file in sorted((place / RETRIEVAL_FOLDER).glob("*.parquet"))}
        for place in folders.values()
    ]
    names = tables[0] if benchmark == RETRIEVAL else (benchmark.removeprefix(RETRIEVAL_PREFIX),)
    wanted = [task for task in names if all(task in table for table in tables)]
    if not wanted:
        return None
    scores = {task: np.stack([table[task]["after"].to_numpy() for table in tables]) for task in wanted}
    queries = {task: tuple(tables[0][task]["query"].to_pylist()) for task in wanted}
    return _ranked(name, scores, queries, () if list(folders) == [0] else tuple(folders))


def _measure_retrieval(
    name: str, models: Mapping[int, str], benchmark: str, data: Sequence[str] | None, precision: str
) -> _Loaded:
    found = [evaluate_retrieval(model, benchmark, data=data, precision=precision).tasks for model in models.values()]
    scores = {task: np.stack([tasks[task].ndcg for tasks in found]) for task in found[0]}
    queries = {task: result.queries for task, result in found[0].items()}
    return _ranked(name, scores, queries, () if list(models) == [0] else tuple(models))


def _ranked(
    name: str, scores: dict[str, Array], queries: dict[str, tuple[str, ...]], seeds: tuple[int, ...]
) -> _Loaded:
    tasks = {task: ScoredTask(np.zeros(len(ids))) for task, ids in queries.items()}
    return _Loaded(System(name, scores, seeds), tasks, queries=queries)


def _measure(
    name: str, models: Mapping[int, str], pairs: Pairs | None, data: Sequence[str] | None, precision: str
) -> _Loaded:
    if pairs is None:
        benchmark = load_seven_sts(DataLocations.resolve(data))
        texts = benchmark.text_pairs()
        found = [evaluate(model, benchmark, precision=precision) for model in models.values()]
    else:
        texts = {pairs.name: list(zip(pairs.text1, pairs.text2, strict=True))}
        found = [evaluate(model, pairs=pairs, precision=precision) for model in models.values()]
    scores = {task: np.stack([f.tasks[task].cosine for f in found]) for task in found[0].tasks}
    tasks = {
        task: ScoredTask(result.gold, tuple(size for _, size in result.subsets), sentence_clusters(texts[task]))
        for task, result in found[0].tasks.items()
    }
    return _Loaded(System(name, scores, () if list(models) == [0] else tuple(models)), tasks)


def _require_same(reference: str, first: _Loaded, name: str, second: _Loaded) -> None:
    for task in [*first.tasks, *(t for t in second.tasks if t not in first.tasks)]:
        if task not in first.tasks or task not in second.tasks:
            having, lacking = (reference, name) if task in first.tasks else (name, reference)
            what = f"was not measured on {task}, {having} was"
            raise InputError(what, where=lacking, remedy="measure both on the same sets")
        if not np.array_equal(first.tasks[task].gold, second.tasks[task].gold):
            what = f"was measured on other pairs of {task} than {reference}"
            raise InputError(what, where=name, remedy="measure both on the same pairs: --pairs FILE")
        if first.queries.get(task) != second.queries.get(task):
            what = f"was measured on other queries of {task} than {reference}"
            raise InputError(what, where=name, remedy="measure both on the same files")


def _undefined(systems: dict[str, System], tasks: dict[str, ScoredTask]) -> list[str]:
    notes = []
    for name, system in systems.items():
        for task, scored in tasks.items():
            reasons = [undefined_reason(scored.gold, row) for row in system.scores[task]]
            why = next((reason for reason in reasons if reason is not None), None)
            if why is not None:
                notes.append(f"{name}, {task}: no correlation, {why}")
    return notes


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else value
