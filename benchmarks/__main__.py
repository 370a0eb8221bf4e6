"""Measure, or render what was measured.

    python -m benchmarks train --data raw
    python -m benchmarks encode --data raw
    python -m benchmarks evaluate --data raw --mteb PYTHON
    python -m benchmarks stage1 --data raw --data nli=nli.tsv.gz
    python -m benchmarks memory
    python -m benchmarks scaling
    python -m benchmarks profile --data raw
    python -m benchmarks render

A full run writes results/performance/TABLE.json after every measurement and goes on where it was stopped; --fresh
begins anew. --quick takes less than a minute and writes to the git-ignored runs/performance.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence
from typing import Any

from benchmarks import guide, page
from benchmarks.evaluate import ENVIRONMENT
from benchmarks.report import section
from benchmarks.run import Inputs, Run
from gradate.data.locations import DataLocations


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = whole.add_subparsers(dest="table", required=True)
    for name in page.TABLES:
        verb = verbs.add_parser(name, help=importlib.import_module(f"benchmarks.{name}").__doc__)
        verb.add_argument("--data", action="append", default=[], help="as gradate's --data")
        verb.add_argument("--encoder", default="bundled", help="as gradate's MODEL")
        verb.add_argument("--quick", action="store_true", help="a minute's trial of everything; no measurement")
        verb.add_argument("--rounds", type=int, help="how often each contender is measured")
        verb.add_argument("--only", action="append", default=[], metavar="NAME", help="measure this contender alone")
        verb.add_argument("--fresh", action="store_true", help="forget what was measured before")
        if name == "train":
            verb.add_argument("--seeds", type=int, default=3, help="whole epochs of each contender")
        if name == "evaluate":
            verb.add_argument("--mteb", metavar="PYTHON", help="interpreter of an environment with mteb and gradate")
        if name == "stage1":
            verb.add_argument("--epoch", action="store_true", help="run the trainer's epoch to its end, once")
        if name == "scaling":
            verb.add_argument("--budget", type=float, help="seconds that a cell may take")
    verbs.add_parser("render", help="write docs/results/performance.md and the guides of docs from results")
    return whole


def main(words: Sequence[str] | None = None) -> None:
    """Measure a table and print it, or render the page."""
    given = vars(parser().parse_args(words))
    if given["table"] == "render":
        page.write()
        guide.write()
        return
    os.environ |= ENVIRONMENT
    run = Run(
        table=given.pop("table"),
        inputs=Inputs(DataLocations.resolve(given.pop("data")), given.pop("encoder")),
        only=tuple(given.pop("only")),
        quick=given.pop("quick"),
        rounds=given.pop("rounds"),
        fresh=given.pop("fresh"),
        options={key: value for key, value in given.items() if value},
    )
    run = Run(**{**run.__dict__, "command": shown_command(run)})
    results = importlib.import_module(f"benchmarks.{run.table}").measure(run)
    print(section(results.found).markdown)
    print(f"\n{page.foot(results.found)}\n\nresults: {results.path}")
    if not run.quick:
        page.write()


def shown_command(run: Run) -> str:
    """The command line to print beside the figures, without this machine's folders."""
    words = ["python -m benchmarks", run.table]
    locations = run.inputs.locations
    if locations.senteval is not None:
        words.append("--data raw")
    if "nli" in locations.named:
        words.append("--data nli=nli.tsv.gz")
    values: dict[str, Any] = {"rounds": run.rounds, **run.options}
    for key, value in values.items():
        if value is True:
            words.append(f"--{key}")
        elif value is not None and not (key == "seeds" and value == 3):
            words.append(f"--{key} {'PYTHON' if key == 'mteb' else value}")
    return " ".join(words)


if __name__ == "__main__":
    main()
