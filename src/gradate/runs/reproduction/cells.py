"""Cells: what one recipe, or one untrained system, came to on the seven sets, seed by seed, as committed files.

A cell holds aggregates and the model's scores of every pair in official row order: never a text, never a gold score.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradate.errors import InputError
from gradate.evaluation.metrics import Array
from gradate.runs.folder import write_json
from gradate.runs.recipe import Recipe
from gradate.runs.schema import departures

VERSION = 1
DECIMALS = 5
"""Scores are kept to five decimals: finer differences say nothing, and files stay small."""
NEUTRAL = ("description", "seed")
"""Keys of a recipe that change no result, or differ between the seeds of a cell."""


@dataclass(frozen=True, eq=False)
class SeedResult:
    """One seed of a cell.

    Args:
        average: Average of the seven sets; None where one is undefined.
        tasks: Spearman × 100 by task.
        selection: Value of the selection set for the kept checkpoint, with metric, update and start; None untrained.
        minutes: Time of training; None untrained.
        environment: Processor, precision and versions.
        scores: Cosines by task.
        grades: Predicted grade values on the grades' pairs; None where there is no head, or they are not measured.
        retrieval: nDCG@10 × 100 of every query by retrieval set; None where it is not measured.
        negatives: Looks at the hard negatives while training: `step`, `mean_cosine`, `replaced` of `queries`.
    """

    average: float | None
    tasks: Mapping[str, float | None]
    selection: Mapping[str, Any] | None
    minutes: float | None
    environment: Mapping[str, Any]
    scores: Mapping[str, Array]
    grades: Array | None = None
    retrieval: Mapping[str, Array] | None = None
    negatives: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form, without the scores."""
        found = {name: np.round(values, 3).tolist() for name, values in (self.retrieval or {}).items()}
        return {
            **({"retrieval": found} if found else {}),
            **({"negatives": [dict(look) for look in self.negatives]} if self.negatives else {}),
            "average": self.average,
            "tasks": dict(self.tasks),
            "selection": None if self.selection is None else dict(self.selection),
            "minutes": self.minutes,
            "environment": dict(self.environment),
        }


@dataclass(frozen=True, eq=False)
class Cell:
    """What stands of one row.

    Args:
        key: Fingerprint of the recipe, or of the untrained system.
        name: Group and row that first asked for it.
        recipe: The recipe as YAML; empty for an untrained system.
        data: Fingerprints of what was read: `benchmark`, `stages`, `grades`.
        seeds: Results by seed; seed 0 alone for a system without training.
    """

    key: str
    name: str
    recipe: str
    data: Mapping[str, Any]
    seeds: Mapping[int, SeedResult] = field(default_factory=dict)

    def with_seed(self, seed: int, result: SeedResult) -> Cell:
        """The cell with one more seed."""
        return replace(self, seeds=dict(sorted({**self.seeds, seed: result}.items())))


def recipe_key(recipe: Recipe) -> str:
    """Twelve hex digits that name everything in a recipe that changes its results, but the seed.

    Keys at their defaults do not count, so that a key that recipes gain later leaves the results of older ones
    standing; a default that changes takes another `VERSION`.
    """
    mapping = {k: v for k, v in departures(recipe).items() if k not in NEUTRAL}
    mapping["evaluation"] = {k: v for k, v in mapping.get("evaluation", {}).items() if k != "intervals"}
    return _digest(json.dumps(mapping, sort_keys=True))


def baseline_key(name: str, retrieval: Sequence[str] = ()) -> str:
    """The same for a system without training, and the retrieval sets it is measured on."""
    return _digest(" ".join(("baseline", name, *retrieval)))


def read_cell(folder: Path, key: str) -> Cell | None:
    """The cell of a key; None where there is none.

    Raises:
        InputError: a file of another version, a broken one, or scores that do not belong to it.
    """
    files = sorted(folder.glob(f"*-{key}.json"))
    if not files:
        return None
    if len(files) > 1:
        raise InputError(f"two cells of one key, {files[0].name} and {files[1].name}", where=folder, remedy="keep one")
    path = files[0]
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"cannot be read as a result: {error}"
        raise InputError(what, where=path, remedy="restore it, or delete it to run it again") from None
    if version != VERSION:
        what = f"is of version {version}, this gradate reads version {VERSION}"
        raise InputError(what, where=path, remedy="take the gradate that wrote it, or delete it to run it again")
    if found["key"] != key:
        raise InputError(f"holds the key {found['key']}", where=path, remedy="restore its name, or delete it")
    scores, grades = _read_scores(path, list(found["tasks"]), found["sizes"], [int(s) for s in found["seeds"]])
    seeds = {
        int(seed): SeedResult(
            **{key: value for key, value in entry.items() if key != "retrieval"},
            scores=scores[int(seed)],
            grades=grades.get(int(seed)),
            retrieval={name: np.array(values) for name, values in entry.get("retrieval", {}).items()} or None,
        )
        for seed, entry in found["seeds"].items()
    }
    return Cell(key, found["name"], found["recipe"], found["data"], seeds)


def write_cell(folder: Path, cell: Cell) -> Path:
    """Write a cell's two or three files; returns that of the aggregates."""
    folder.mkdir(parents=True, exist_ok=True)
    stood = sorted(folder.glob(f"*-{cell.key}.json"))
    path = stood[0] if stood else folder / f"{_slug(cell.name)}-{cell.key}.json"
    first = next(iter(cell.seeds.values()))
    _write_scores(path, cell)
    write_json(
        path,
        {
            "version": VERSION,
            "key": cell.key,
            "name": cell.name,
            "data": dict(cell.data),
            "tasks": list(first.scores),
            "sizes": [len(scores) for scores in first.scores.values()],
            "seeds": {str(seed): result.to_json() for seed, result in cell.seeds.items()},
            "recipe": cell.recipe,
        },
    )
    return path


def _write_scores(path: Path, cell: Cell) -> None:
    columns = {
        f"seed_{seed}": _short(np.concatenate(list(result.scores.values()))) for seed, result in cell.seeds.items()
    }
    _write_table(path.with_suffix(".parquet"), columns)
    grades = {f"seed_{seed}": _short(r.grades) for seed, r in cell.seeds.items() if r.grades is not None}
    if grades:
        _write_table(path.with_suffix(".grades.parquet"), grades)


def _read_scores(
    path: Path, tasks: list[str], sizes: list[int], seeds: list[int]
) -> tuple[dict[int, dict[str, Array]], dict[int, Array]]:
    try:
        table = pq.read_table(path.with_suffix(".parquet"))
        columns = {seed: table[f"seed_{seed}"].to_numpy().astype(np.float64) for seed in seeds}
    except (OSError, KeyError, pa.ArrowException) as error:
        what = f"the scores beside it cannot be read: {str(error).splitlines()[0]}"
        raise InputError(what, where=path, remedy="restore them, or delete the cell to run it again") from None
    if any(len(column) != sum(sizes) for column in columns.values()):
        raise InputError("the scores beside it are of other pairs", where=path, remedy="restore them")
    cuts = np.cumsum(sizes)[:-1]
    scores = {seed: dict(zip(tasks, np.split(column, cuts), strict=True)) for seed, column in columns.items()}
    beside = path.with_suffix(".grades.parquet")
    grades: dict[int, Array] = {}
    if beside.is_file():
        kept = pq.read_table(beside)
        grades = {
            s: kept[f"seed_{s}"].to_numpy().astype(np.float64) for s in seeds if f"seed_{s}" in kept.column_names
        }
    return scores, grades


def _write_table(path: Path, columns: Mapping[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        pq.write_table(
            pa.table(dict(columns)), draft, compression="zstd", use_byte_stream_split=True, use_dictionary=False
        )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _short(values: Array) -> Any:
    return np.round(values, DECIMALS).astype(np.float32)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
