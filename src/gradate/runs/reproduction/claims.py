"""Claims judged: the rows they name, compared on the pairs that all of them scored."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradate.data.locations import RETRIEVAL_SETS
from gradate.evaluation.metrics import (
    Array,
    Statistic,
    accuracy_statistic,
    mae_statistic,
    mean_statistic,
    qwk_statistic,
)
from gradate.evaluation.significance import Resampled
from gradate.evaluation.systems import AVERAGE, Arena, Difference, System, seed_spread
from gradate.evaluation.verdict import judge
from gradate.runs.reproduction.cells import Cell
from gradate.runs.reproduction.memory import Peak, judge_memory
from gradate.runs.reproduction.source import GRADES_SOURCE, Source
from gradate.runs.reproduction.spec import REST, TASKS, TRAINED, Claim, Part

ON_TASKS = ("average", "trained", "rest")
"""Metrics on the seven sets; the others are of grades."""


def evidence(
    claims: Sequence[Claim],
    cells: Mapping[tuple[str, str], Cell],
    peaks: Mapping[tuple[str, str], Peak],
    *,
    resamples: int,
) -> str:
    """Fingerprint of what `judge_claims` judges: claims, data, and every score and grade of every row and seed."""
    digest = hashlib.sha256(repr((tuple(claims), resamples, sorted(peaks.items()))).encode())
    for row, cell in sorted(cells.items()):
        digest.update(repr((row, cell.key, cell.data["benchmark"], cell.data.get("grades"))).encode())
        for seed, result in cell.seeds.items():
            digest.update(repr((seed, list(result.scores))).encode())
            grades = [] if result.grades is None else [result.grades]
            for values in (*result.scores.values(), *grades, *(result.retrieval or {}).values()):
                digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]


def judge_claims(
    claims: Sequence[Claim],
    part: Part,
    cells: Mapping[tuple[str, str], Cell],
    peaks: Mapping[tuple[str, str], Peak],
    source: Source,
    *,
    resamples: int = 1000,
) -> tuple[dict[str, Any], ...]:
    """The verdict on each claim in each group that has its rows, as plain JSON.

    Args:
        claims: The claims.
        part: The table they are about.
        cells: What stands, by group and row.
        peaks: Peak memory of the rows that are steps, by group and row.
        source: The data the cells were measured on.
        resamples: Bootstrap resamples, 1 or more.
    """
    arenas = _Arenas(source, resamples)
    found = []
    for claim in claims:
        for group in part.groups:
            rows = {row.name for row in part.rows if row.group == group.name}
            wanted = (claim.of, *claim.others) if claim.kind == "flat" else (claim.of, claim.than)
            if (claim.groups and group.name not in claim.groups) or not rows.issuperset(wanted):
                continue
            standing = {row: cell for (name, row), cell in cells.items() if name == group.name}
            measured = {row: peak for (name, row), peak in peaks.items() if name == group.name}
            entry: dict[str, Any] = {
                "claim": claim.text,
                "source": claim.source,
                "group": group.title,
                "kind": claim.kind,
            }
            entry |= {"metric": claim.metric, "of": claim.of, "than": claim.than or list(claim.others)}
            if any(name not in standing and name not in measured for name in wanted):
                found.append({**entry, "verdict": "undecided", "reason": "not all of its rows stand yet"})
                continue
            if claim.kind == "less-memory":
                found.append({**entry, **judge_memory(claim, measured)})
                continue
            found.append({**entry, **_judge(claim, {name: standing[name] for name in wanted}, arenas)})
    return tuple(found)


class _Arenas:
    """Where cells meet, made when first needed."""

    def __init__(self, source: Source, resamples: int) -> None:
        self.source, self.resamples = source, resamples
        self._made: dict[str, Arena] = {}

    def of(self, metric: str) -> Arena:
        """The arena of a claim's metric; error counts negatively, so that more is better."""
        kind = "seven" if metric in ON_TASKS else metric
        if kind not in self._made:
            if kind == "seven":
                self._made[kind] = Arena(self.source.tasks(), resamples=self.resamples)
            elif kind in RETRIEVAL_SETS:
                task = self.source.retrieval_task(kind)
                self._made[kind] = Arena(task, statistic=mean_statistic, resamples=self.resamples)
            else:
                statistic = _of_grades(kind, self.source)
                self._made[kind] = Arena(self.source.graded_task(), statistic=statistic, resamples=self.resamples)
        return self._made[kind]


def _of_grades(metric: str, source: Source) -> Statistic:
    scale = source.grades.scale
    if metric == "mae":
        return lambda gold, score, counts: -mae_statistic(gold, np.asarray(scale.clamp(score)), counts)
    plain = (accuracy_statistic if metric == "accuracy" else qwk_statistic)(scale)
    return lambda gold, score, counts: 100 * plain(gold, np.asarray(scale.clamp(score)), counts)


def _judge(claim: Claim, cells: Mapping[str, Cell], arenas: _Arenas) -> dict[str, Any]:
    arena = arenas.of(claim.metric)
    results = [result for cell in cells.values() for result in cell.seeds.values()]
    if claim.metric in RETRIEVAL_SETS:
        if any(claim.metric not in (result.retrieval or {}) for result in results):
            return {"verdict": "undecided", "reason": f"{claim.metric} was not measured"}
    elif claim.metric not in ON_TASKS and any(result.grades is None for result in results):
        return {"verdict": "undecided", "reason": "grades were not measured"}
    systems = {name: _system(name, cell, claim.metric) for name, cell in cells.items()}
    if claim.kind == "flat":
        return _judge_flat(claim, arena, systems)
    differences = arena.difference(systems[claim.than], systems[claim.of])
    found: Difference = differences[AVERAGE]
    if claim.metric == "trained":
        found = _on_tasks(arena, systems[claim.than], systems[claim.of], TRAINED, less=REST)
    elif claim.metric == "rest":
        found = _on_tasks(arena, systems[claim.than], systems[claim.of], REST)
    word, reason = judge(found, margin=claim.margin)
    entry = {"verdict": word, "reason": reason, "difference": found.to_json(), "margin": claim.margin}
    if claim.metric == "average":
        entry["tasks"] = {name: d.to_json() for name, d in differences.items() if name != AVERAGE}
    return entry


def _judge_flat(claim: Claim, arena: Arena, systems: Mapping[str, System]) -> dict[str, Any]:
    resampled = [arena.resampled(system)[AVERAGE] for system in systems.values()]
    means = [r.value for r in resampled]
    if np.isnan(means).any():
        return {"verdict": "undecided", "reason": "a correlation is undefined"}
    spread = max(means) - min(means)
    draws = np.stack([r.draws for r in resampled])
    ranges = draws.max(axis=0) - draws.min(axis=0)
    high = float(np.nanquantile(ranges, 0.975))
    low = float(np.nanquantile(ranges, 0.025))
    by_seed = [statistics.stdev(arena.values(s)[AVERAGE].tolist()) for s in systems.values() if len(s.seeds) > 1]
    word = "holds" if high < claim.margin else "fails" if low > claim.margin else "undecided"
    reason = (
        f"the rows lie {spread:.2f} apart, 95 % of resamples from {low:.2f} to {high:.2f}; margin {claim.margin:g}"
    )
    if by_seed:
        reason += f"; seeds of one row spread by {statistics.fmean(by_seed):.2f}"
    return {"verdict": word, "reason": reason, "range": {"value": spread, "low": low, "high": high}}


def _on_tasks(
    arena: Arena, first: System, second: System, tasks: Sequence[str], *, less: Sequence[str] = ()
) -> Difference:
    """Second − first in the average of some tasks; with `less`, what these gained over what those did."""

    def averages(system: System, clusters: bool) -> Resampled:
        found = arena.resampled(system, clusters=clusters)
        high = Resampled.average([found[task] for task in tasks])
        if not less:
            return high
        low = Resampled.average([found[task] for task in less])
        return Resampled(high.value - low.value, high.draws - low.draws)

    def by_seed(system: System) -> Array:
        values = arena.values(system)
        high = np.mean([values[task] for task in tasks], axis=0)
        return np.asarray(high - np.mean([values[task] for task in less], axis=0) if less else high)

    pairs = averages(second, False).minus(averages(first, False))
    clusters = averages(second, True).minus(averages(first, True)) if arena.clustered else None
    return Difference(pairs, clusters, None, seed_spread(first.seeds, by_seed(first), second.seeds, by_seed(second)))


def _system(name: str, cell: Cell, metric: str) -> System:
    results = list(cell.seeds.values())
    seeds = () if list(cell.seeds) == [0] else tuple(cell.seeds)
    if metric in ON_TASKS:
        scores = {task: np.stack([result.scores[task] for result in results]) for task in TASKS}
    elif metric in RETRIEVAL_SETS:
        scores = {metric: np.stack([result.retrieval[metric] for result in results if result.retrieval is not None])}
    else:
        scores = {GRADES_SOURCE: np.stack([result.grades for result in results if result.grades is not None])}
    return System(f"{name} {cell.key}", scores, seeds)
