"""`gradate reproduce`: the paper's tables, run and judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradate.cli.options import DataOption, JsonOption, QuietOption, TrustOption, parse_seeds
from gradate.cli.output import figure, open_output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradate.runs.reproduction.reproduce import Reproduction


def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="table-1, table-3, … or `list`.")],
    scale: Annotated[
        Literal["small", "full"], typer.Option(help="What two cores run, or the paper's own encoders and data.")
    ] = "small",
    seeds: Annotated[str, typer.Option(metavar="1,2,3", help="Seeds of every trained row.")] = "1,2,3",
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where finished results stand and new ones go.")] = Path(
        "results"
    ),
    docs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the page goes. Default: docs/results beside --results.")
    ] = None,
    data: DataOption = None,
    hub: Annotated[bool, typer.Option("--hub", help="Fetch from the Hub what --data does not name.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Go on with runs that stand half done, or begin them anew.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run nothing: list what is missing, and judge what stands.")
    ] = False,
    trust_remote_code: TrustOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce a table of the paper: run what is missing, show it beside the paper's figures, judge its claims."""
    with open_output(as_json, quiet=quiet) as output:
        from gradate.runs.reproduction.spec import load_table, table_names

        if name == "list":
            titles = {known: load_table(known).title for known in table_names()}
            output.result(titles, table(("table", "title"), list(titles.items())))
            return
        from gradate.cli.watch import Watcher
        from gradate.runs.reproduction.page import write_table_page
        from gradate.runs.reproduction.reproduce import reproduce as run_table

        with Watcher(output) as watcher:
            found = run_table(
                name,
                scale=scale,
                seeds=parse_seeds(seeds),
                results=results,
                data=data or (),
                hub=hub,
                resume=resume,
                trust_remote_code=trust_remote_code,
                dry_run=dry_run,
                observer=watcher,
            )
        if any(row.cells() for row in found.rows):
            page = write_table_page(results, docs or results.parent / "docs" / "results", name)
            output.note(f"page: {page}")
        output.note(*found.notes)
        output.result(found.to_json(), *_shown(found))
        if found.failed:
            raise typer.Exit(1)


def _shown(found: Reproduction) -> list[RenderableType]:
    rows = []
    for row in found.rows:
        cells, paper = row.cells(), row.paper() or {}
        column = "memory" if row.row.step is not None else "average"
        rows.append((row.row.group, row.name, _cell(cells.get(column)), paper.get(column)))
    head = ("group", "row", "peak, GiB" if found.spec.columns == "memory" else "average", "paper")
    shown: list[RenderableType] = [table(head, rows)]
    if found.missing:
        lacking = [(entry["row"], str(entry["seed"]), entry["reason"]) for entry in found.missing]
        shown += ["", table(("missing", "seed", "why"), lacking)]
    if found.verdicts:
        judged = [(v["verdict"], v["claim"], v["group"], _difference(v)) for v in found.verdicts]
        shown += ["", table(("verdict", "claim", "group", "difference"), judged)]
    return shown


def _cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None or cell["mean"] is None:
        return figure(None)
    return figure(cell["mean"]) + (f" ± {figure(cell['sd'])}" if cell["sd"] is not None else "")


def _difference(verdict: Mapping[str, Any]) -> str:
    found = verdict.get("difference")
    if found is None or found["difference"] is None:
        return figure(None)
    return f"{found['difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"
