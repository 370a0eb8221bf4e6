"""Tries towards a recipe: what was changed, and what the selection set said of it; the tests stay closed.

    python -m benchmarks.tries best-small --data raw --data nli=nli.tsv.gz --data sentences=sentences.tsv.gz

Runs what `benchmarks/tries/NAME.yaml` lists and `results/tries/NAME.json` lacks, one after another; interrupt it,
start it again, and it goes on. A try may begin from the model of an earlier one (`after`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gradate.errors import GradateError
from gradate.runs.environment import environment
from gradate.runs.folder import write_json
from gradate.runs.results import Run
from gradate.runs.run import train

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "benchmarks" / "tries"
RESULTS = ROOT / "results" / "tries"
RUNS = ROOT / "runs" / "tries"
"""Git-ignored."""
VERSION = 1


def read_list(path: Path) -> list[dict[str, Any]]:
    """Tries of a file, one for each of its `seeds`, with `name`, `recipe`, `set`, `after` and `seed`.

    Raises:
        SystemExit: a key that no try has, a name twice, or an `after` that does not come before with the same seed.
    """
    tries: list[dict[str, Any]] = []
    names: list[str] = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        found = {"recipe": None, "set": [], "after": None, "seeds": [1], **entry}
        name, seeds = found.get("name"), found.pop("seeds")
        if len(found) != 4 or found["recipe"] is None:
            raise SystemExit(f"{path}: {name!r} must have name and recipe, and may have set, after, seeds")
        known = {(other["name"], other["seed"]) for other in tries}
        if name in names or not (found["after"] is None or all((found["after"], seed) in known for seed in seeds)):
            raise SystemExit(f"{path}: {name!r} stands twice, or comes before what it begins from")
        names.append(name)
        tries += [{**found, "seed": seed} for seed in seeds]
    return tries


def run_tries(tries: Sequence[Mapping[str, Any]], results: Path, runs: Path, data: Sequence[str]) -> None:
    """Run what is missing, and write what it came to after every try.

    Args:
        tries: As `read_list` gives them.
        results: JSON file of what stands, grown here.
        runs: Folder of the runs.
        data: As `gradate`'s `--data`.
    """
    known = {_key(entry): entry for entry in read_results(results)}
    for one in tries:
        if {key: known.get(_key(one), {}).get(key) for key in one} == dict(one):
            continue
        print(f"{one['name']}, seed {one['seed']}", flush=True)
        try:
            found = {**one, **_try(one, runs, data)}
        except GradateError as error:
            found = {**one, "failed": str(error)}
        known[_key(one)] = found
        listed = [known[_key(other)] for other in tries if _key(other) in known]
        results.parent.mkdir(parents=True, exist_ok=True)
        write_json(results, {"version": VERSION, "tries": listed})
        print(json.dumps(found), flush=True)


def _try(one: Mapping[str, Any], runs: Path, data: Sequence[str]) -> dict[str, Any]:
    folder = runs / _slug(one["name"], one["seed"])
    begin = [] if one["after"] is None else [f"encoder={runs / _slug(one['after'], one['seed']) / 'model'}"]
    run = train(
        one["recipe"],
        out=folder,
        data=data,
        overrides=[*begin, *one["set"], f"seed={one['seed']}", "evaluation.source=none", "evaluation.retrieval=[]"],
        resume=folder.exists(),
    )
    assert isinstance(run, Run)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    known = environment()
    judged = [stage for stage in run.stages if stage.metric is not None]
    return {
        "metric": judged[-1].metric,
        "start": judged[0].start,
        "values": [stage.best for stage in judged],
        "minutes": round(sum(stage.seconds for stage in run.stages) / 60, 1),
        "machine": {key: known[key] for key in ("device_name", "cores", "threads", "precision")},
    }


def read_results(path: Path) -> list[dict[str, Any]]:
    """What stands; nothing where there is no file."""
    if not path.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["tries"]
    return found


def tries_table(tries: Sequence[Mapping[str, Any]]) -> str:
    """The tries as a Markdown table, in their order: mean ± standard deviation where a try has several seeds."""
    lines = [
        "| try | recipe, changes | selection set, start → after each stage | seeds | min/run | on |",
        "|---|---|---|---|---:|---|",
    ]
    for name in dict.fromkeys(one["name"] for one in tries):
        seeds = [one for one in tries if one["name"] == name]
        one = seeds[0]
        changes = [f"`{one['recipe']}`", *(f"`{change}`" for change in one["set"])]
        changes += [f"from “{one['after']}”"] if one["after"] else []
        failed = next((f"failed: {other['failed']}" for other in seeds if "failed" in other), None)
        paths = [] if failed else list(zip(*((other["start"], *other["values"]) for other in seeds), strict=True))
        shown = failed or " → ".join(_spread(values) for values in paths)
        minutes = "" if failed else f"{statistics.fmean(other['minutes'] for other in seeds):.1f}"
        machine = "" if failed else one["machine"]["device_name"]
        cells = [name, ", ".join(changes), shown, ", ".join(str(other["seed"]) for other in seeds), minutes, machine]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float | None]) -> str:
    defined = [value for value in values if value is not None]
    if len(defined) < len(values):
        return "–"
    spread = statistics.stdev(defined) if len(defined) > 1 else 0.0
    return f"{statistics.fmean(defined):.2f}" + (f" ± {spread:.2f}" if spread else "")


def _key(one: Mapping[str, Any]) -> tuple[str, int]:
    return one["name"], one["seed"]


def _slug(name: str, seed: int) -> str:
    return "".join(c if c.isalnum() else "-" for c in f"{name} {seed}".lower())


def main(words: Sequence[str] | None = None) -> None:
    """Run the tries of a list."""
    parser = argparse.ArgumentParser("python -m benchmarks.tries", description=__doc__)
    parser.add_argument("name", choices=sorted(path.stem for path in LISTS.glob("*.yaml")))
    parser.add_argument("--data", action="append", default=[], help="as gradate's --data")
    given = parser.parse_args(words)
    run_tries(read_list(LISTS / f"{given.name}.yaml"), RESULTS / f"{given.name}.json", RUNS / given.name, given.data)


if __name__ == "__main__":
    main()
