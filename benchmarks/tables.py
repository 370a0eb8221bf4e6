"""Result tables: collect finished runs into `results/NAME.json`, render that into `docs/results/NAME.md`.

    python benchmarks/tables.py collect two-stage --run "two-stage=runs/two-stage" --run "the sketch=runs/sketch"
    python benchmarks/tables.py collect demo --run "starter=runs/starter"
    python benchmarks/tables.py render

A run folder here is one of several seeds (`gradate train … --seeds 1,2,3`). The JSON holds aggregates and intervals,
never a text or a gold score; rendering needs nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from gradate.evaluation.metrics import spearman_statistic

ROOT = Path(__file__).parents[1]
VERSION = 1
RESAMPLES = 2000
TRAINED_ON = ("STS-B", "SICK-R")


def collect(name: str, runs: dict[str, Path]) -> dict[str, Any]:
    """Aggregate runs by label; seeds of one label are pooled."""
    return {"version": VERSION, "table": name, "runs": {label: _collect_run(folder) for label, folder in runs.items()}}


def _collect_run(folder: Path) -> dict[str, Any]:
    seeds = sorted(folder.glob("seed-*"), key=lambda p: int(p.name.removeprefix("seed-")))
    if not seeds:
        raise SystemExit(f"{folder}: no seed-N folders; train with --seeds")
    metrics = [json.loads((seed / "metrics.json").read_text(encoding="utf-8")) for seed in seeds]
    environment = json.loads((seeds[0] / "env.json").read_text(encoding="utf-8"))
    data = json.loads((seeds[0] / "data.json").read_text(encoding="utf-8"))
    collected: dict[str, Any] = {
        "recipe": (seeds[0] / "resolved.yaml").read_text(encoding="utf-8"),
        "machine": {k: environment[k] for k in ("device_name", "cores", "threads", "precision", "packages")},
        "data": {"stages": data["stages"], "selections": data["selections"], "test": data["test"]},
        "before": _numbers(metrics[0]["before"]),
        "seeds": [
            {
                "seed": int(seed.name.removeprefix("seed-")),
                **_numbers(m["after"]),
                "selection": [{"start": s["start"], "best": s["best"], "step": s["step"]} for s in m["stages"]],
                "minutes": sum(s["seconds"] for s in m["stages"]) / 60,
                "pairs_per_second": m["stages"][-1]["pairs_per_second"],
            }
            for seed, m in zip(seeds, metrics, strict=True)
        ],
        "gain": _pooled_gain(seeds),
    }
    return collected


def _numbers(measured: dict[str, Any]) -> dict[str, Any]:
    if "tasks" not in measured:
        return {k: measured[k] for k in ("spearman_cosine", "spearman_head", "mae", "accuracy", "qwk", "n")}
    tasks = {task: found["spearman"] for task, found in measured["tasks"].items()}
    kept = [value for task, value in tasks.items() if task not in TRAINED_ON]
    return {"tasks": tasks, "average": measured["average"], "average_without": statistics.fmean(kept)}


def _pooled_gain(seeds: list[Path]) -> dict[str, float]:
    """Gain in Spearman of the cosine, averaged over tasks and seeds, with a paired bootstrap interval over pairs."""
    generator = np.random.default_rng(0)
    rounds, values = [], []
    for file in sorted((seeds[0] / "predictions").glob("*.parquet")):
        tables = [pq.read_table(seed / "predictions" / file.name) for seed in seeds]
        names = (
            ("gold", "before", "after")
            if "gold" in tables[0].column_names
            else ("grade", "similarity_before", "similarity_after")
        )
        gold, before = (tables[0][column].to_numpy() for column in names[:2])
        afters = [table[names[2]].to_numpy() for table in tables]
        one = np.ones((1, len(gold)))
        values.append(float(np.mean([_gain(gold, before, after, one)[0] for after in afters])))
        draws = []
        for _ in range(0, RESAMPLES, 100):
            counts = generator.multinomial(len(gold), np.full(len(gold), 1 / len(gold)), size=100).astype(np.float64)
            draws.append(np.mean([_gain(gold, before, after, counts) for after in afters], axis=0))
        rounds.append(np.concatenate(draws))
    low, high = np.quantile(np.mean(rounds, axis=0), [0.025, 0.975])
    return {"value": float(np.mean(values)), "low": float(low), "high": float(high)}


def _gain(gold: Any, before: Any, after: Any, counts: Any) -> Any:
    return spearman_statistic(gold, after, counts) - spearman_statistic(gold, before, counts)


def render(found: dict[str, Any]) -> str:
    """The table as Markdown, under the hand-written words of `benchmarks/words/NAME.md`."""
    words = (ROOT / "benchmarks" / "words" / f"{found['table']}.md").read_text(encoding="utf-8")
    first = next(iter(found["runs"].values()))
    table = _benchmark_table(found) if "tasks" in first["before"] else _pairs_table(found)
    machine = first["machine"]
    packages = ", ".join(f"{k} {machine['packages'][k]}" for k in ("torch", "sentence-transformers", "transformers"))
    foot = f"Machine: {machine['device_name']}, {machine['threads']} threads, {machine['precision']}; {packages}."
    return (
        f"<!-- generated by benchmarks/tables.py; edit benchmarks/words -->\n{words.rstrip()}\n\n{table}\n\n{foot}\n"
    )


def _benchmark_table(found: dict[str, Any]) -> str:
    runs = found["runs"]
    before = next(iter(runs.values()))["before"]
    tasks = list(before["tasks"])
    head = ["", *tasks, "average", "without STS-B, SICK-R", "gain [95 %]", "min/run"]
    rows = [
        [
            "before",
            *(f"{before['tasks'][t]:.2f}" for t in tasks),
            f"{before['average']:.2f}",
            f"{before['average_without']:.2f}",
            "",
            "",
        ]
    ]
    for label, run in runs.items():
        seeds = run["seeds"]
        rows.append(
            [
                f"{label}, mean of {len(seeds)} seeds",
                *(_spread([s["tasks"][t] for s in seeds]) for t in tasks),
                f"**{_spread([s['average'] for s in seeds])}**",
                _spread([s["average_without"] for s in seeds]),
                f"{run['gain']['value']:+.2f} [{run['gain']['low']:+.2f}, {run['gain']['high']:+.2f}]",
                f"{statistics.fmean(s['minutes'] for s in seeds):.0f}",
            ]
        )
        rows += [
            [
                f"&nbsp;&nbsp;seed {s['seed']}",
                *(f"{s['tasks'][t]:.2f}" for t in tasks),
                f"{s['average']:.2f}",
                f"{s['average_without']:.2f}",
                "",
                f"{s['minutes']:.0f}",
            ]
            for s in seeds
        ]
    return _markdown(head, rows)


def _pairs_table(found: dict[str, Any]) -> str:
    head = ["", "Spearman, cosine", "Spearman, head", "MAE", "accuracy", "QWK", "gain of the cosine [95 %]", "s/run"]
    keys = ("spearman_cosine", "spearman_head", "mae", "accuracy", "qwk")
    rows = []
    for label, run in found["runs"].items():
        before, seeds, gain = run["before"], run["seeds"], run["gain"]
        rows.append(["before", *("–" if before[k] is None else f"{before[k]:.2f}" for k in keys), "", ""])
        rows.append(
            [
                f"{label}, mean of {len(seeds)} seeds",
                *(_spread([s[k] for s in seeds]) for k in keys),
                f"{gain['value']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]",
                f"{60 * statistics.fmean(s['minutes'] for s in seeds):.0f}",
            ]
        )
        rows += [
            [f"&nbsp;&nbsp;seed {s['seed']}", *(f"{s[k]:.2f}" for k in keys), "", f"{60 * s['minutes']:.0f}"]
            for s in seeds
        ]
    return _markdown(head, rows)


def _spread(values: list[float]) -> str:
    mean = statistics.fmean(values)
    return f"{mean:.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Collect or render, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    collecting = verbs.add_parser("collect")
    collecting.add_argument("name")
    collecting.add_argument("--run", action="append", required=True, metavar="LABEL=FOLDER")
    verbs.add_parser("render")
    arguments = parser.parse_args()
    if arguments.verb == "collect":
        runs = {label: Path(folder) for label, _, folder in (run.partition("=") for run in arguments.run)}
        target = ROOT / "results" / f"{arguments.name}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(collect(arguments.name, runs), indent=1) + "\n", encoding="utf-8")
    for file in sorted((ROOT / "results").glob("*.json")):
        page = ROOT / "docs" / "results" / f"{file.stem}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
