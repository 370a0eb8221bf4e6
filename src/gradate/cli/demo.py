"""`gradate demo`: the main job on the embedded pairs, from tuning to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradate.cli.options import JsonOption
from gradate.cli.output import open_output


def demo(
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder. Default: a fresh one in runs/.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune the bundled model on the starter pairs and show what it gained on the test part."""
    with open_output(as_json) as output:
        from gradate.cli.scores import comparison
        from gradate.runs.demo import demo as run_demo

        result = run_demo(out)
        shown = result.to_json()
        output.result(shown, comparison(shown))
