"""A table as YAML: its rows, the recipes behind them, the paper's figures, and the claims it is to judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

import yaml

from gradate.errors import InputError
from gradate.runs.recipe import Recipe, load_recipe
from gradate.runs.schema import build, nearest

Scale: TypeAlias = Literal["small", "full"]
Baseline: TypeAlias = Literal["bundled", "shallow", "bag-of-words"]
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
TRAINED = ("STS-B", "SICK-R")
"""Tasks whose own training data the corpus holds."""
REST = tuple(task for task in TASKS if task not in TRAINED)


@dataclass(frozen=True)
class Group:
    """Rows that compare with each other: one encoder, one kind of training."""

    name: str
    """What its rows name it by."""
    title: str
    """What the page calls it."""
    recipe: str | None = None
    """Recipe of its rows, by name."""
    set: tuple[str, ...] = ()
    """Changes to the recipe, before those of a row."""
    limitation: str = ""
    """What the page says beside the group: how it departs from the paper."""


@dataclass(frozen=True)
class Step:
    """A training step whose peak memory the benchmark `memory` measures."""

    contender: str
    """Its name there."""
    length: int
    """Tokens of every text."""
    batch: int
    """Examples."""


@dataclass(frozen=True)
class Row:
    """One row: a recipe over seeds, a system that nobody trains, or figures cited from the paper."""

    name: str
    """Its name within the group."""
    group: str
    """The group it belongs to."""
    recipe: str | None = None
    """Recipe by name; null: the group's."""
    set: tuple[str, ...] = ()
    """Changes to the recipe."""
    baseline: Baseline | None = None
    """A system without training; no recipe then."""
    step: Step | None = None
    """A step of training whose memory was measured; no recipe then."""
    cited: bool = False
    """Figures of the paper only, not run."""
    paper: tuple[float, ...] = ()
    """The paper's figures, one a column, or the average alone."""
    paper_name: str = ""
    """What the paper calls the row."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the comparison that judges it, in every group that has its rows."""

    text: str
    """The claim."""
    source: str
    """Where the paper says so."""
    kind: Literal["better", "no-worse", "flat", "less-memory"] = "better"
    """`better`: `of` above `than`; `no-worse`: not below it by more than `margin`; `flat`: the rows `of` and `others`
    differ by less than `margin`; `less-memory`: a step of `of` takes less than one of `than`."""
    of: str = ""
    """The row that the claim calls better."""
    than: str = ""
    """The row it is held against."""
    others: tuple[str, ...] = ()
    """For `flat`: the other rows."""
    groups: tuple[str, ...] = ()
    """Groups to judge it in; empty: all that have the rows."""
    metric: Literal["average", "rest", "trained", "accuracy", "mae", "qwk", "scifact", "cranfield"] = "average"
    """`average` of the seven sets; `rest`: of the five but STS-B and SICK-R; `trained`: what these two have over it;
    `accuracy`, `mae`, `qwk` of grades on NLI dev pairs; `scifact`, `cranfield`: mean nDCG@10."""
    margin: float = 0.0
    """See `kind`."""


@dataclass(frozen=True)
class Part:
    """A table at one scale."""

    groups: tuple[Group, ...]
    """Groups, in order."""
    rows: tuple[Row, ...]
    """Rows, in order."""
    grades: bool = False
    """Whether grades on NLI dev pairs are measured beside the seven sets."""
    retrieval: tuple[str, ...] = ()
    """Retrieval sets whose nDCG@10 is measured beside them."""

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        for row in self.rows:
            if row.group not in names:
                raise InputError(f"row {row.name!r}: no group {row.group!r}", remedy=nearest(row.group, names))
            if row.recipe is not None and self.recipe_of(row) is None:
                raise InputError(f"row {row.name!r} has a recipe that nobody would run")

    def group(self, name: str) -> Group:
        """A group by name."""
        return next(group for group in self.groups if group.name == name)

    def recipe_of(self, row: Row) -> str | None:
        """Name of the recipe behind a row; None where nothing is trained."""
        if row.baseline is not None or row.step is not None or row.cited:
            return None
        return row.recipe or self.group(row.group).recipe


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper, or of what the paper did not ask."""

    title: str
    """Its title."""
    source: str
    """The paper's table or section."""
    small: Part
    """At a scale that two cores run."""
    full: Part
    """At the paper's scale."""
    claims: tuple[Claim, ...] = ()
    """What it judges."""
    words: str = ""
    """What a reader must know first."""
    columns: Literal["tasks", "rest", "average", "memory"] = "tasks"
    """Whether the page shows every task; these and the average without STS-B and SICK-R; the average alone; or the
    peak memory of steps."""
    name: str = field(default="", metadata={"given": True})
    """Its name; the file's."""


@cache
def load_table(name: str) -> TableSpec:
    """A table by name.

    Raises:
        InputError: no such table.
    """
    names = table_names()
    if name not in names:
        raise InputError(f"no table is called {name!r}", remedy=nearest(name, names))
    text = (_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    mapping: dict[str, Any] = yaml.safe_load(text)
    return build(TableSpec, {**mapping, "name": name}, where=f"{name}.yaml")


def table_names() -> list[str]:
    """Names of all tables."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def row_recipe(part: Part, row: Row) -> Recipe | None:
    """The recipe behind a row, its changes applied; None where nothing is trained."""
    name = part.recipe_of(row)
    return None if name is None else load_recipe(name, (*part.group(row.group).set, *row.set))


def _folder() -> Any:
    return resources.files("gradate.runs.reproduction") / "tables"
