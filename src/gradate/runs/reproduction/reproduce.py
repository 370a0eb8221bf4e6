"""Reproducing a table: run what is missing, keep what is done, judge the claims, write it down."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradate.errors import GradateError, InputError, Interrupted
from gradate.evaluation.systems import AVERAGE
from gradate.runs.folder import read_json, write_json
from gradate.runs.recipe import Recipe
from gradate.runs.reproduction.cells import Cell, baseline_key, read_cell, recipe_key, write_cell
from gradate.runs.reproduction.claims import evidence, judge_claims
from gradate.runs.reproduction.memory import COMMAND, Peak, read_peaks
from gradate.runs.reproduction.source import Source, require_same_data
from gradate.runs.reproduction.spec import REST, TASKS, Part, Row, Scale, TableSpec, load_table, row_recipe
from gradate.training.callbacks.observer import Observer, SilentObserver

VERSION = 1
RUNS = Path("runs") / "reproduce"
"""Where runs lie while they last; git-ignored."""


@dataclass(frozen=True, eq=False)
class ShownRow:
    """A row as it stands."""

    row: Row
    cell: Cell | None
    """None for cited rows, and where nothing stands."""
    peak: Peak | None = None
    """Peak memory of a step."""

    @property
    def name(self) -> str:
        """Name in the table."""
        return self.row.name

    def cells(self) -> dict[str, dict[str, Any]]:
        """Mean, sample standard deviation and number of seeds, by column."""
        if self.peak is not None:
            return {"memory": {"mean": self.peak.gib, "sd": None, "n": 0 if self.peak.predicted else 1}}
        if self.cell is None:
            return {}
        seeds = list(self.cell.seeds.values())
        columns: dict[str, list[float | None]] = {task: [s.tasks[task] for s in seeds] for task in TASKS}
        columns[AVERAGE] = [s.average for s in seeds]
        columns["rest"] = [_spread([s.tasks[task] for task in REST])["mean"] for s in seeds]
        for name in seeds[0].retrieval or {}:
            columns[name] = [float(np.mean(s.retrieval[name])) if s.retrieval else None for s in seeds]
        return {name: _spread(values) for name, values in columns.items()}

    def paper(self) -> dict[str, float] | None:
        """The paper's figures by column; None where it has none."""
        if not self.row.paper:
            return None
        single = "memory" if self.row.step is not None else AVERAGE
        names = (single,) if len(self.row.paper) == 1 else (*TASKS, AVERAGE)
        return dict(zip(names, self.row.paper, strict=True))

    def kept_start(self) -> list[int]:
        """Seeds in which no checkpoint beat the start on the selection set, so that the start was kept."""
        seeds = {} if self.cell is None else self.cell.seeds
        return [
            seed for seed, result in seeds.items() if result.selection is not None and not result.selection["step"]
        ]

    def negatives(self) -> list[list[dict[str, Any]]]:
        """Looks at the hard negatives while training, for every seed."""
        return [] if self.cell is None else [[dict(look) for look in s.negatives] for s in self.cell.seeds.values()]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "name": self.name,
            "group": self.row.group,
            "cited": self.row.cited,
            "cells": self.cells(),
            "paper": self.paper(),
            "paper_name": self.row.paper_name or None,
            "key": None if self.cell is None else self.cell.key,
            "seeds": [] if self.cell is None else list(self.cell.seeds),
            "kept_start": self.kept_start(),
            "minutes": None if self.cell is None else _mean([s.minutes for s in self.cell.seeds.values()]),
            **({"negatives": looks} if any(looks := self.negatives()) else {}),
        }


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A table as it stands."""

    spec: TableSpec
    scale: Scale
    rows: tuple[ShownRow, ...]
    missing: tuple[dict[str, Any], ...]
    verdicts: tuple[dict[str, Any], ...]
    basis: str
    """Fingerprint of what the verdicts rest on, so that a table is judged again only where that has changed."""
    notes: tuple[str, ...] = ()
    failed: bool = False
    """Whether a run failed; the others were finished all the same."""

    @property
    def part(self) -> Part:
        """The table at this scale."""
        return self.spec.small if self.scale == "small" else self.spec.full

    def machines(self) -> list[str]:
        """Processors, threads, precision and versions that the runs had, each once."""
        cells = [row.cell for row in self.rows if row.cell is not None]
        return sorted({_machine(result.environment) for cell in cells for result in cell.seeds.values()})

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON, and what is committed."""
        return {
            "version": VERSION,
            "table": self.spec.name,
            "scale": self.scale,
            "rows": [row.to_json() for row in self.rows],
            "machines": self.machines(),
            "missing": list(self.missing),
            "basis": self.basis,
            "verdicts": list(self.verdicts),
        }


@dataclass
class _Job:
    spec: TableSpec
    part: Part
    scale: Scale
    seeds: tuple[int, ...]
    cells: Path
    source: Source
    resume: bool
    trust_remote_code: bool
    dry_run: bool
    observer: Observer
    missing: list[dict[str, Any]] = field(default_factory=list)
    failed: bool = False


def reproduce(
    table: str,
    *,
    scale: Scale = "small",
    seeds: Sequence[int] = (1, 2, 3),
    results: str | Path = "results",
    data: Sequence[str] = (),
    hub: bool = False,
    resume: bool = True,
    trust_remote_code: bool = False,
    dry_run: bool = False,
    resamples: int = 1000,
    observer: Observer | None = None,
) -> Reproduction:
    """Run what is missing of a table, and judge its claims.

    Finished cells come from `results/cells`, so that an interrupted table goes on where it stopped, run by run and,
    within a run, checkpoint by checkpoint. A row whose data is not at hand is listed as missing, and not trained.

    Args:
        table: `table-1`, … or another of `spec.table_names()`.
        scale: `small`, or the paper's own, `full`.
        seeds: Seeds of every trained row.
        results: Folder of results.
        data: Data folders or `NAME=PATH`; see `DataLocations.resolve`.
        hub: Fetch from the Hub what `data` does not name.
        resume: Go on with runs that stand half done; False begins them anew.
        trust_remote_code: Run Python code that comes with an encoder.
        dry_run: Run nothing: list what is missing, and judge what stands.
        resamples: Bootstrap resamples, 1 or more.
        observer: Who watches.

    Raises:
        InputError: no such table, a result of another version, or one that was measured on other data.
        Interrupted: Ctrl-C or SIGTERM; what was finished is kept.
    """
    spec = load_table(table)
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must differ, got {list(seeds)}", where="--seeds")
    part = spec.small if scale == "small" else spec.full
    source = Source(tuple(data), hub)
    folder = Path(results)
    job = _Job(
        spec,
        part,
        scale,
        tuple(seeds),
        folder / "cells",
        source,
        resume,
        trust_remote_code,
        dry_run,
        observer or SilentObserver(),
    )
    rows = tuple(_stand(job, row) for row in part.rows)
    kept = folder / "tables" / f"{table}.{scale}.json"
    notes: list[str] = []
    stands = any(row.cells() for row in rows)
    if stands and (spec.columns == "memory" or source.lacks(None, part) is None):
        cells = {(row.row.group, row.name): row.cell for row in rows if row.cell is not None}
        peaks = {(row.row.group, row.name): row.peak for row in rows if row.peak is not None}
        basis = evidence(spec.claims, cells, peaks, resamples=resamples)
        known = read_json(kept) or {}
        if known.get("version") == VERSION and known.get("basis") == basis:
            verdicts = tuple(known["verdicts"])
        else:
            verdicts = judge_claims(spec.claims, part, cells, peaks, source, resamples=resamples)
        found = Reproduction(spec, scale, rows, tuple(job.missing), verdicts, basis, failed=job.failed)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, found.to_json())
        return found
    stored = read_json(kept)
    if stored is not None and stored.get("version") != VERSION:
        what = f"is of version {stored.get('version')}, this gradate reads version {VERSION}"
        raise InputError(what, where=kept, remedy="judge it again with the data at hand")
    if stored is None and stands:
        notes.append("claims are judged with the data at hand: pass --data")
    stored = stored or {"verdicts": (), "basis": ""}
    verdicts = tuple(stored["verdicts"])
    return Reproduction(spec, scale, rows, tuple(job.missing), verdicts, stored["basis"], tuple(notes))


def _stand(job: _Job, row: Row) -> ShownRow:
    """A row with every seed it has, after running those it lacks."""
    if row.cited:
        return ShownRow(row, None)
    if row.step is not None:
        peak = read_peaks(job.cells.parent).get(row.step)
        if peak is None:
            reason = f"not measured: {COMMAND}"
            job.missing.append({"row": f"{row.group}: {row.name}", "seed": 0, "reason": reason})
        return ShownRow(row, None, peak)
    recipe = row_recipe(job.part, row)
    key = baseline_key(str(row.baseline), job.part.retrieval) if recipe is None else recipe_key(recipe)
    cell = read_cell(job.cells, key)
    wanted = job.seeds if recipe is not None or row.baseline == "shallow" else (0,)
    lacking = [seed for seed in wanted if cell is None or seed not in cell.seeds]
    lacks = job.source.lacks(recipe, job.part)
    if lacks is None and cell is not None:
        where = (job.spec.name, row.group, row.name)
        require_same_data(dict(cell.data), {"benchmark": job.source.benchmark.fingerprint()}, where)
    for number, seed in enumerate(lacking):
        entry = {"row": f"{row.group}: {row.name}", "seed": seed}
        if lacks is None and job.dry_run:
            lacks = "a run, and this is a dry one"
        if lacks is not None:
            job.missing += [{**entry, "seed": s, "reason": f"needs {lacks}"} for s in lacking[number:]]
            break
        job.observer.note(f"\n{job.spec.name}, {row.group}: {row.name}, seed {seed}")
        try:
            cell = _run(job, row, recipe, key, cell, seed)
        except Interrupted:
            raise
        except GradateError as error:
            job.observer.note(f"failed: {error}")
            job.missing.append({**entry, "reason": str(error)})
            job.failed = True
    return ShownRow(row, _only(cell, wanted))


def _run(job: _Job, row: Row, recipe: Recipe | None, key: str, cell: Cell | None, seed: int) -> Cell:
    from gradate.runs.reproduction import measure  # a table that is finished is shown without loading torch

    folder = RUNS / key / f"seed-{seed}"
    if recipe is None:
        assert row.baseline is not None
        result = measure.measure_baseline(row.baseline, seed, job.source, job.part)
        data: dict[str, Any] = {}
    else:
        result = measure.measure_recipe(
            recipe,
            seed,
            job.source,
            folder=folder,
            part=job.part,
            resume=job.resume,
            trust_remote_code=job.trust_remote_code,
            observer=job.observer,
        )
        stored = read_json(folder / "data.json")
        data = {"stages": stored["stages"], "selections": stored["selections"]}
    data["benchmark"] = job.source.benchmark.fingerprint()
    if result.grades is not None:
        data["grades"] = job.source.grades.fingerprint()
    if result.retrieval is not None:
        data["retrieval"] = {name: job.source.retrieval[name].fingerprint() for name in result.retrieval}
    text = "" if recipe is None else recipe.to_yaml()
    grown = (cell or Cell(key, f"{row.group} {row.name}", text, data)).with_seed(seed, result)
    write_cell(job.cells, grown)
    for heavy in ("model", "checkpoints"):  # log and plan stay; a table would leave gigabytes
        shutil.rmtree(folder / heavy, ignore_errors=True)
    kept = read_cell(job.cells, key)  # what is judged is what stands in the file
    assert kept is not None
    return kept


def _only(cell: Cell | None, seeds: Sequence[int]) -> Cell | None:
    """The cell with these seeds alone; None where it has none of them."""
    if cell is None:
        return None
    kept = {seed: result for seed, result in cell.seeds.items() if seed in seeds}
    return Cell(cell.key, cell.name, cell.recipe, cell.data, kept) if kept else None


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    defined = [value for value in values if value is not None]
    whole = len(defined) == len(values) and bool(values)
    return {
        "mean": statistics.fmean(defined) if whole else None,
        "sd": statistics.stdev(defined) if whole and len(defined) > 1 else None,
        "n": len(values),
    }


def _machine(environment: Mapping[str, Any]) -> str:
    packages = ", ".join(
        f"{k} {environment['packages'][k]}" for k in ("torch", "sentence-transformers", "transformers")
    )
    threads = environment["threads"]
    return (
        f"{environment['device_name']}, {threads} thread{'s' if threads != 1 else ''} of {environment['cores']} cores,"
        f" {environment['precision']}; {packages}"
    )


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return statistics.fmean(defined) if defined else None
