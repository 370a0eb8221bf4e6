"""The recipe: stages and an evaluation, as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

import yaml

from gradate.errors import InputError
from gradate.models.concatenation import CONCATENATIONS
from gradate.models.template import template_text
from gradate.runs.schema import build, nearest, to_mapping
from gradate.training.stage import Stage

BENCHMARKS_OF = {
    "sts-corpus": ("STS-B", "SICK-R"),
    "sts-positives": ("STS-B", "SICK-R"),
    "stsb": ("STS-B",),
    "sickr": ("SICK-R",),
}
"""Sources that are the training parts of benchmarks among the seven, and which."""


@dataclass(frozen=True)
class HeadConfig:
    """Shape of the pair head."""

    concatenation: str = "u,v,|u-v|"
    """What the head reads of two embeddings u and v; see `gradate.models.concatenation.CONCATENATIONS`."""
    features: Literal["raw", "normalized"] = "raw"
    """`raw`: the state before a trailing Normalize module, as in the paper; `normalized`: scaled to length 1."""
    tied: bool = False
    """Give u and v the same weights, so that predict(a, b) = predict(b, a)."""

    def __post_init__(self) -> None:
        if self.concatenation not in CONCATENATIONS:
            raise InputError(
                f"unknown concatenation {self.concatenation!r}",
                where="concatenation",
                remedy=f"one of {'  '.join(CONCATENATIONS)}",
            )


@dataclass(frozen=True)
class EvaluationConfig:
    """What is measured before and after."""

    source: Literal["test", "seven-sts", "none"] = "test"
    """`test`: the run's test pairs; `seven-sts`: the seven STS benchmarks by the cosine; `none`: nothing, so that the
    tests stay closed while settings are chosen by the selection set."""
    aggregation: Literal["all", "mean", "wmean"] = "all"
    """How a year's subsets become one correlation; `all` concatenates them."""
    retrieval: tuple[str, ...] = ()
    """Retrieval sets whose nDCG@10 is measured beside it, before and after: `scifact`, `cranfield`, or one given as
    `--data beir/NAME=FOLDER`."""
    intervals: int = 1000
    """Bootstrap resamples of the intervals, 1 or more."""

    def __post_init__(self) -> None:
        if self.intervals < 1:
            raise InputError(f"intervals = {self.intervals} is out of range", where="intervals", remedy="1 or more")


@dataclass(frozen=True)
class Recipe:
    """An ordered list of stages and an evaluation; each published system is one."""

    stages: tuple[Stage, ...]
    """Training phases, in order."""
    description: str = ""
    """What the recipe is for, with its source."""
    encoder: str = "bundled"
    """`bundled`, a folder, a Hub name, or `shallow`: two layers over the bundled vocabulary, random by the seed."""
    pooling: Literal["own", "mean", "cls", "last-token"] = "own"
    """How tokens become one embedding: as the encoder does by itself, their mean, the first or the last one's."""
    template: str | None = None
    """What every text is put into, in training and ever after: `prompt-eol`, `prompt-sth`, `prompt-sum`, or a text of
    your own that holds `{text}` once; null: the encoder reads the text as it stands."""
    head: HeadConfig = field(default_factory=HeadConfig)
    """Shape of the pair head."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """What is measured."""
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """Precision of training; weights stay in float32."""
    seed: int = 1
    """Seed of order, dropout, split and a new head; 0 or more."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError("a recipe needs at least one stage", where="stages")
        if self.template is not None:
            template_text(self.template)
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed = {self.seed} is out of range", where="seed", remedy="0 to 4294967295")
        classifiers = {stage.objective.is_classifier for stage in self.stages if stage.objective.needs_head}
        if len(classifiers) > 1:
            raise InputError(
                "cross-entropy needs a head with one output per grade, the other losses one with a single output",
                where="stages",
                remedy="use one kind of loss in all stages",
            )

    @property
    def in_domain(self) -> tuple[str, ...]:
        """Benchmarks whose own training data is used: of the seven, and of the retrieval sets to be measured."""
        sources = [stage.source for stage in self.stages]
        sources += [task.source for stage in self.stages for task in stage.beside]
        trained = [benchmark for source in sources for benchmark in BENCHMARKS_OF.get(source, ())]
        trained += [source for source in sources if source in self.evaluation.retrieval]
        return tuple(dict.fromkeys(trained))

    @property
    def needs_pairs(self) -> bool:
        """Whether the recipe trains on the user's own pairs."""
        return any(stage.source == "pairs" for stage in self.stages)

    def to_yaml(self) -> str:
        """YAML that `parse_recipe` reads back to the same recipe."""
        return yaml.safe_dump(to_mapping(self), sort_keys=False, allow_unicode=True, width=110)


def parse_recipe(text: str, *, where: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from YAML, with `a.b=value` overrides applied; stages count from 1: `stages.2.epochs=1`.

    Raises:
        InputError: text that is no YAML, an unknown key, a value of the wrong type or out of range.
    """
    try:
        mapping = _StrictLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that is none, which safe_load lets through
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        raise InputError(f"not valid YAML: {getattr(error, 'problem', None) or error}", where=place) from None
    for override in overrides:
        _apply(mapping, override)
    return build(Recipe, mapping, where=where if not overrides else f"{where} with --set")


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """A shipped recipe by name, or a `.yaml` file.

    Raises:
        InputError: no such recipe, or what `parse_recipe` refuses.
    """
    return parse_recipe(recipe_text(name), where=name, overrides=overrides)


def list_recipes() -> dict[str, str]:
    """Shipped recipes: name → first sentence of the description."""
    found = {}
    for name, file in sorted(_shipped().items()):
        description = str(yaml.safe_load(file.read_text(encoding="utf-8")).get("description", ""))
        found[name] = description.split(". ")[0].strip().rstrip(".")
    return found


def recipe_text(name: str) -> str:
    """YAML text of a shipped recipe, comments included, or of a file."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the recipe: {error}", where=name) from None
    shipped = _shipped()
    if name not in shipped:
        remedy = f"{nearest(name, shipped)}; `gradate recipes list` shows all, a file must end in .yaml"
        raise InputError(f"no recipe is called {name!r}", remedy=remedy)
    return shipped[name].read_text(encoding="utf-8")


def copy_recipe(name: str, destination: str | Path) -> Path:
    """Write a shipped recipe to a file of yours; a folder gets `<recipe>.yaml`.

    Raises:
        InputError: no such recipe, or the file exists.
    """
    text = recipe_text(name)
    target = Path(destination)
    if target.is_dir():
        target = target / f"{name.replace('/', '-')}.yaml"
    if target.exists():
        raise InputError("the file exists", where=target, remedy="choose another name")
    if target.suffix not in (".yaml", ".yml"):
        raise InputError("a recipe file must end in .yaml", where=target)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=target) from None
    return target


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, which refuses a key that stands twice instead of taking the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _shipped() -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}

    def walk(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".yaml"):
                found[prefix + entry.name.removesuffix(".yaml")] = entry

    walk(resources.files("gradate.runs") / "recipes", "")
    return found


def _apply(mapping: Any, override: str) -> None:
    path, sign, value = override.partition("=")
    if not sign or not path.strip():
        raise InputError(f"cannot read {override!r}", where="--set", remedy="write key=value, e.g. stages.2.epochs=1")
    try:
        parsed = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):
        raise InputError(f"cannot read the value in {override!r}", where="--set") from None
    node, keys = mapping, path.strip().split(".")
    for i, key in enumerate(keys):
        last = i == len(keys) - 1
        if isinstance(node, list):
            if not key.isdigit() or not 1 <= int(key) <= len(node):
                where = ".".join(keys[: i + 1])
                raise InputError(f"there is no {where!r}", where="--set", remedy=f"1 to {len(node)}")
            index: Any = int(key) - 1
        elif isinstance(node, dict):
            index = key
        else:
            raise InputError(f"{'.'.join(keys[:i])!r} has no keys", where="--set")
        if last:
            node[index] = parsed
        else:
            node = node.setdefault(index, {}) if isinstance(node, dict) else node[index]
