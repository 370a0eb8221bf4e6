"""The fusion: several runs made one model, with its head, beside the soups it is to be compared with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gradate.errors import InputError
from gradate.models.checkpoint import Checkpoint
from gradate.models.folders import whole_folder
from gradate.models.fusion import Deviations, Level, Rule, Weighting, write_fused
from gradate.models.head import CONFIG_FILE, HEAD_FOLDER, PairHead
from gradate.models.likeness import require_alike, text_length
from gradate.models.loading import check_folder, resolve_model
from gradate.runs.folder import STATUS, write_json
from gradate.runs.soups import Judge, Selection, judge_all, selection_sets
from gradate.scale import LabelScale

FusionRule: TypeAlias = Rule | Literal["greedy"]

FUSION_FILE = "fusion.json"


@dataclass(frozen=True)
class Fusion:
    """What `gradate fuse` wrote.

    Args:
        model: The folder, as it was named.
        base: Where the runs began.
        runs: The runs.
        rule: What was asked for: a rule of `Weighting`, or `greedy`.
        weighting: How the weights came about; those of a greedy soup are uniform over its runs.
        weights: Each run's weight, averaged over all numbers of the encoder.
        deviations: Root mean square of each run's difference from the base.
        selection: Values on the selection set; None where nothing was measured.
        value: That of the written model.
        notes: What became of the pair heads, and where runs differ in the length of texts.
    """

    model: Path
    base: str
    runs: tuple[str, ...]
    rule: FusionRule
    weighting: Weighting
    weights: tuple[float, ...]
    deviations: tuple[float, ...]
    selection: Selection | None = None
    value: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What was asked for, in a few words."""
        is_soup = self.rule in ("uniform", "greedy")
        kind = f"{self.rule} soup" if is_soup else f"{self.rule}, by {self.weighting.level}"
        share = self.weighting.pull_back
        return f"{kind}, pulled back {share:g}" if share else kind

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON; without `model` it also lies in the folder as fusion.json."""
        selection = None
        if self.selection is not None:
            selection = {**self.selection.to_json(self.runs), "fused": self.value}
        return {
            "model": str(self.model),
            "base": self.base,
            "runs": list(self.runs),
            "rule": self.rule,
            "level": self.weighting.level,
            "temperature": self.weighting.temperature,
            "pull_back": self.weighting.pull_back,
            "weights": dict(zip(self.runs, self.weights, strict=True)),
            "deviations": dict(zip(self.runs, self.deviations, strict=True)),
            "selection": selection,
            "notes": list(self.notes),
        }


def fuse(
    base: str,
    runs: Sequence[str],
    out: str | Path,
    *,
    rule: FusionRule = "proportional",
    level: Level = "tensor",
    temperature: float | None = None,
    pull_back: float = 0.0,
    select: str | None = None,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    precision: str = "auto",
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> Fusion:
    """Fuse runs that began from one model into one model folder, which appears whole or not at all.

    Args:
        base: Where the runs began: `bundled`, a model folder, a run folder or a Hub name.
        runs: Two or more of the same kinds.
        out: The folder to write: missing, empty or, with `overwrite`, an older model.
        rule: See `fusion_weights`; `greedy` averages the runs that raise the value on the selection set.
        level: See `Weighting`.
        temperature: See `Weighting`.
        pull_back: See `Weighting`.
        select: A file of pairs or a source, `sts-dev-clean` for instance, on which base, runs, soups and the fusion
            are measured; None measures nothing.
        scale: Scale of the file's grades; None infers one.
        columns: Columns of the file; see `read_pairs`.
        data: Data folders or `NAME=PATH`; see `DataLocations.resolve`.
        precision: `auto`, `fp32`, `tf32` or `bf16`, for what is measured.
        overwrite: Replace a model that stands at `out`.
        trust_remote_code: Run Python code that comes with the models, for what is measured.

    Raises:
        InputError: fewer than two runs, models that cannot be averaged, weights that are not finite, or a selection
            set that cannot be used.
        GradateError: the folder cannot be written.

    Source: Zhang et al. (2025), "CoDiEmb"; Wortsman et al. (2022), "Model soups".
    """
    weighting = Weighting("uniform" if rule == "greedy" else rule, level, temperature, pull_back)
    if rule == "greedy" and select is None:
        what = "a greedy soup is chosen by its value on pairs"
        raise InputError(what, where="--rule greedy", remedy="name some: --select FILE, or --select sts-dev-clean")
    start, candidates = _open(base), [_open(run) for run in runs]
    _require_several(candidates)
    require_alike(start, candidates)
    judge = None
    if select is not None:
        sets = selection_sets(select, scale=scale, columns=columns, data=data)
        judge = Judge(sets, precision, trust_remote_code)
    deviations = Deviations.measure(start, candidates)
    labels = _labels([base, *runs])
    with whole_folder(Path(out).expanduser().resolve(), overwrite=overwrite) as draft:
        selection = judge_all(start, candidates, judge) if judge is not None else None
        chosen = selection.chosen if selection is not None and rule == "greedy" else tuple(range(len(candidates)))
        used = [candidates[position] for position in chosen]
        used[0].copy_frame(draft)
        shares = write_fused(used, draft, weighting, base=start, deviations=deviations)
        names = [labels[1 + position] for position in chosen]
        notes = [*_length_notes(used, names), *_fuse_heads(start, used, names, draft, weighting)]
        weights = dict(zip(chosen, shares, strict=True))
        found = Fusion(
            model=Path(out),
            base=base,
            runs=tuple(runs),
            rule=rule,
            weighting=weighting,
            weights=tuple(weights.get(position, 0.0) for position in range(len(runs))),
            deviations=deviations.overall(),
            selection=selection,
            value=judge(draft) if judge is not None else None,
            notes=tuple(notes),
        )
        published = replace(found, base=labels[0], runs=tuple(labels[1:]))
        write_json(draft / FUSION_FILE, {key: value for key, value in published.to_json().items() if key != "model"})
        (draft / "README.md").write_text(_card(published), encoding="utf-8")
    return found


def _open(name: str) -> Checkpoint:
    run = Path(name).expanduser()
    is_run = (run / STATUS).is_file()
    if is_run and not (run / "model").is_dir():
        raise InputError("is no finished run", where=name, remedy="finish it with --resume")
    folder = run / "model" if is_run else resolve_model(name)
    if check_folder(folder, name):
        raise InputError("is an exported graph, which holds no weights", where=name, remedy="take the original model")
    return Checkpoint(folder, name)


def _require_several(runs: Sequence[Checkpoint]) -> None:
    if len(runs) < 2:
        remedy = "name two or more; several seeds of a run are RUN/seed-1 RUN/seed-2 …"
        raise InputError("a fusion needs at least two runs", remedy=remedy)
    names: dict[Path, str] = {}
    for run in runs:
        folder = run.folder.resolve()
        if folder in names:
            raise InputError(f"is the same model as {names[folder]}", where=run.name, remedy="name each once")
        names[folder] = run.name


def _length_notes(runs: Sequence[Checkpoint], labels: Sequence[str]) -> list[str]:
    """How many tokens of a text the fused model reads, where the runs differ in it."""
    lengths = [text_length(run) for run in runs]
    if len(set(lengths)) == 1:
        return []
    said = ", ".join(f"{label} {length or 'any number of'}" for label, length in zip(labels, lengths, strict=True))
    return [f"it reads as many tokens of a text as {labels[0]} does: {said}"]


def _fuse_heads(
    base: Checkpoint, runs: Sequence[Checkpoint], labels: Sequence[str], folder: Path, weighting: Weighting
) -> list[str]:
    """Write the pair head that the runs' heads make together, where they do; returns what became of them, and why."""
    places = [run.folder / HEAD_FOLDER for run in runs]
    having = [label for label, place in zip(labels, places, strict=True) if place.is_dir()]
    if not having:
        return []
    if len(having) < len(runs):
        return [f"no pair head: only {' and '.join(having)} of {len(runs)} runs brought one"]
    first, *others = (_describe(place) for place in places)
    for label, other in zip(labels[1:], others, strict=True):
        for key, value in first.items():
            if other[key] != value:
                return [f"no pair head: {labels[0]} has {key} {value}, {label} has {other[key]}"]
    heads = [Checkpoint(place, f"{run.name}, pair head") for run, place in zip(runs, places, strict=True)]
    start = None
    if (base.folder / HEAD_FOLDER).is_dir() and _describe(base.folder / HEAD_FOLDER) == first:
        start = Checkpoint(base.folder / HEAD_FOLDER, f"{base.name}, pair head")
    deviations = Deviations.measure(start, heads) if start is not None else None
    write_fused(heads, folder / HEAD_FOLDER, weighting, base=start, deviations=deviations)
    configs = [json.loads((place / CONFIG_FILE).read_text(encoding="utf-8")) for place in places]
    alike = all(config.get("objective") == configs[0].get("objective") for config in configs)
    write_json(folder / HEAD_FOLDER / CONFIG_FILE, configs[0] if alike else {**configs[0], "objective": None})
    if start is None and (weighting.rule != "uniform" or weighting.pull_back):
        return ["the base has no pair head to deviate from: the runs' heads are averaged with equal weights"]
    return []


def _describe(head_folder: Path) -> dict[str, Any]:
    head, scale, _ = PairHead.load(head_folder)
    return {**head.get_config_dict(), "scale": scale}


def _labels(names: Sequence[str]) -> list[str]:
    """The names as they were given, absolute paths without the folders they share: those are nobody's business.

    >>> _labels(["bundled", "runs/a", "/home/me/runs/b/model", "/home/me/runs/c/model"])
    ['bundled', 'runs/a', 'b/model', 'c/model']
    """
    paths = [Path(name).expanduser() for name in names]
    absolute = [path.parent for path in paths if path.is_absolute()]
    root = Path(os.path.commonpath(absolute)) if absolute else None
    return [
        path.relative_to(root).as_posix() if root is not None and path.is_absolute() else name
        for name, path in zip(names, paths, strict=True)
    ]


def _card(found: Fusion) -> str:
    shares = "\n".join(
        f"| `{run}` | {weight:.4f} | {deviation:.2e} |"
        for run, weight, deviation in zip(found.runs, found.weights, found.deviations, strict=True)
    )
    notes = "".join(f"- {note}\n" for note in found.notes) + "\n" * bool(found.notes)
    measured = ""
    if found.selection is not None:
        values = found.selection
        measured = (
            f"On the {values.pairs:,} pairs it was selected on ({', '.join(values.sets)}), which are no test, Spearman"
            f" × 100 of the cosine: {found.value:.2f}; the best run {max(values.runs):.2f}, the uniform soup"
            f" {values.uniform:.2f}, the greedy soup {values.greedy:.2f}, the base {values.base:.2f}.\n\n"
        )
    return (
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\n"
        "tags:\n- sentence-transformers\n- sentence-similarity\n- gradate\n- merge\n---\n\n"
        f"# {len(found.runs)} runs from `{found.base}`, fused ({found.title})\n\n"
        "Weights averaged with gradate, not trained further. Mean weight of each run, and the root mean square of its "
        f"difference from the base:\n\n| run | weight | difference |\n| --- | ---: | ---: |\n{shares}\n\n"
        f"{measured}{notes}All of it lies in `{FUSION_FILE}`.\n"
    )
