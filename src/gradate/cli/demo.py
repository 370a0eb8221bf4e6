"""`gradate demo`: the main job on the embedded pairs, from tuning to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.gains import gains_table
from gradate.cli.options import JsonOption
from gradate.cli.output import facts, open_output


def demo(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run folder. Default: the next free runs/demo-N.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune the bundled model on the starter pairs and show what it gained on the test part."""
    with open_output(as_json) as output:
        from gradate.cli.watch import Watcher
        from gradate.runs.demo import demo as run_demo

        with Watcher(output) as watcher:
            found = run_demo(out, observer=watcher).to_json()
        shown = [gains_table(found), *(f"\n{facts(pair)}" for pair in found["new_pairs"])]
        places = {name: found[name] for name in ("seconds", "model", "report")}
        output.result(found, *shown, f"\n{facts(places)}")
