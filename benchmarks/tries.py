"""Tries towards a recipe: what was changed, and what the selection set said of it; the tests stay closed.

    python -m benchmarks.tries best-small --data raw --data nli=nli.tsv.gz --data sentences=sentences.tsv.gz

Runs what `benchmarks/tries/NAME.yaml` lists and `results/tries/NAME.json` lacks, one after another; interrupt it,
start it again, and it goes on. A try may begin from the model of an earlier one (`after`).
"""

from __future__ import annotations

import argparse
import json
import shutil
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
    """Tries of a file, each with `name`, `recipe`, `set`, `after` and `seed`.

    Raises:
        SystemExit: a key that no try has, a name twice, or an `after` that does not come before.
    """
    tries: list[dict[str, Any]] = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        found = {"recipe": None, "set": [], "after": None, "seed": 1, **entry}
        names = [other["name"] for other in tries]
        if len(found) != 5 or found["recipe"] is None:
            raise SystemExit(f"{path}: {found.get('name')!r} must have name and recipe, and may have set, after, seed")
        if found["name"] in names or not (found["after"] is None or found["after"] in names):
            raise SystemExit(f"{path}: {found['name']!r} stands twice, or comes before what it begins from")
        tries.append(found)
    return tries


def run_tries(tries: Sequence[Mapping[str, Any]], results: Path, runs: Path, data: Sequence[str]) -> None:
    """Run what is missing, and write what it came to after every try.

    Args:
        tries: As `read_list` gives them.
        results: JSON file of what stands, grown here.
        runs: Folder of the runs.
        data: As `gradate`'s `--data`.
    """
    known = {entry["name"]: entry for entry in read_results(results)}
    for one in tries:
        if {key: known.get(one["name"], {}).get(key) for key in one} == dict(one):
            continue
        print(one["name"], flush=True)
        try:
            found = {**one, **_try(one, runs, data)}
        except GradateError as error:
            found = {**one, "failed": str(error)}
        known[one["name"]] = found
        listed = [known[other["name"]] for other in tries if other["name"] in known]
        results.parent.mkdir(parents=True, exist_ok=True)
        write_json(results, {"version": VERSION, "tries": listed})
        print(json.dumps(found), flush=True)


def _try(one: Mapping[str, Any], runs: Path, data: Sequence[str]) -> dict[str, Any]:
    folder = runs / _slug(one["name"])
    begin = [] if one["after"] is None else [f"encoder={runs / _slug(one['after']) / 'model'}"]
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
    """The tries as a Markdown table, in their order."""
    lines = ["| try | recipe, changes | selection set, start → after each stage | minutes |", "|---|---|---|---:|"]
    for one in tries:
        changes = [f"`{one['recipe']}`", *(f"`{change}`" for change in one["set"])]
        changes += [f"from “{one['after']}”"] if one["after"] else []
        path = " → ".join("–" if v is None else f"{v:.2f}" for v in (one.get("start"), *one.get("values", ())))
        shown = f"failed: {one['failed']}" if "failed" in one else path
        seed = "" if one["seed"] == 1 else f", seed {one['seed']}"
        cells = [one["name"] + seed, ", ".join(changes), shown, str(one.get("minutes", ""))]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower())


def main(words: Sequence[str] | None = None) -> None:
    """Run the tries of a list."""
    parser = argparse.ArgumentParser("python -m benchmarks.tries", description=__doc__)
    parser.add_argument("name", choices=sorted(path.stem for path in LISTS.glob("*.yaml")))
    parser.add_argument("--data", action="append", default=[], help="as gradate's --data")
    given = parser.parse_args(words)
    run_tries(read_list(LISTS / f"{given.name}.yaml"), RESULTS / f"{given.name}.json", RUNS / given.name, given.data)


if __name__ == "__main__":
    main()
