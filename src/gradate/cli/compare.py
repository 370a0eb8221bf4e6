"""`gradate compare`: which of several runs or models is better, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradate.cli.options import ColumnsOption, DataOption, JsonOption, PrecisionOption, ScaleOption, parse_scale
from gradate.cli.output import figure, open_output, table
from gradate.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradate.runs.systems import Contest


def compare(
    systems: Annotated[
        list[str], typer.Argument(metavar="A B …", help="Run folders, or models; the first is the reference.")
    ],
    benchmark: Annotated[
        str | None,
        typer.Option(help="`seven-sts`, the default without --pairs; `retrieval`, or one retrieval set, by nDCG@10."),
    ] = None,
    pairs: Annotated[Path | None, typer.Option(metavar="FILE", help="Graded pairs to measure all of them on.")] = None,
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    data: DataOption = None,
    precision: PrecisionOption = "auto",
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = 1000,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the differences: .svg, .png or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs or models on the same pairs: paired bootstrap over pairs and sentence clusters, Williams' test."""
    if benchmark is not None and pairs is not None:
        raise InputError("--benchmark and --pairs are two measurements", remedy="choose one")
    if plot is not None and plot.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"cannot draw {plot.suffix or 'a file without a suffix'}", where=plot, remedy="name it .svg")
    with open_output(as_json) as output:
        from gradate.runs.systems import compare_systems

        found = compare_systems(
            systems,
            benchmark=benchmark or "seven-sts",
            pairs=pairs,
            scale=parse_scale(scale),
            columns=columns,
            data=data,
            precision=precision,
            resamples=resamples,
        )
        if plot is not None:
            from gradate.report.contest_plot import contest_plot

            contest_plot(found.to_json()).savefig(plot)
            output.note(f"plot: {plot}")
        output.note(*found.notes)
        output.result(found.to_json(), *_shown(found))


def _shown(found: Contest) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for name, differences in found.differences.items():
        rows = []
        for task, difference in differences.items():
            entry = difference.to_json()
            clusters, williams = entry.get("clusters"), entry.get("williams")
            rows.append(
                (
                    task,
                    found.values[found.reference][task],
                    found.values[name][task],
                    _interval(entry),
                    "–" if clusters is None else _bounds(clusters),
                    _p(entry["p"]),
                    "–" if williams is None else _p(williams["p"]),
                )
            )
        head = (f"{name} − {found.reference}", "reference", "other", "difference", "clusters", "p", "Williams p")
        shown += [table(head, rows), ""]
    return shown


def _interval(entry: dict[str, float | None]) -> str:
    if entry["difference"] is None:
        return figure(None)
    return f"{entry['difference']:+.2f} {_bounds(entry)}"


def _bounds(entry: dict[str, float | None]) -> str:
    return figure(None) if entry["low"] is None else f"[{entry['low']:+.2f}, {entry['high']:+.2f}]"


def _p(value: float | None) -> str:
    return figure(None) if value is None else f"{value:.3f}"
