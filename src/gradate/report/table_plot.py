"""The plot of a reproduced table: where its rows stand, and what its claims rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradate.report.style import BLUE, GREEN, INK, LINE, MUTED, ORANGE, new_figure, plain_text, quiet_axes

_ROW = 0.24
_COLOURS = {"holds": GREEN, "fails": ORANGE, "undecided": MUTED}


def table_plot(found: Mapping[str, Any]) -> Figure:
    """Left the average of every row with its spread over seeds, right the differences that judge the claims.

    A table of memory has one side, the peaks.

    Args:
        found: What stands of the table, as committed.
    """
    peaks = [row for row in found["rows"] if "memory" in row["cells"]]
    if peaks:
        figure = new_figure(6.6, 0.9 + _ROW * 1.4 * max(len(peaks), 3))
        _peaks(figure.subplots(), peaks)
        return figure
    rows = [row for row in found["rows"] if row["cells"].get("average", {}).get("mean") is not None]
    claims = [v for v in found["verdicts"] if (v.get("difference") or {}).get("low") is not None]
    height = 0.9 + _ROW * max(len(rows), 2 * len(claims), 4)
    figure = new_figure(11.0 if claims else 6.0, height)
    if claims:
        left, right = figure.subplots(1, 2)
        _differences(right, claims)
    else:
        left = figure.subplots()
    _averages(left, rows)
    return figure


def _averages(axes: Axes, rows: list[Mapping[str, Any]]) -> None:
    quiet_axes(axes, "average of the seven sets (Spearman × 100)", "")
    for i, row in enumerate(rows):
        cell = row["cells"]["average"]
        axes.errorbar(cell["mean"], -i, xerr=cell["sd"] or 0.0, fmt="o", color=BLUE, markersize=4, linewidth=1.2)
        paper = (row["paper"] or {}).get("average")
        if paper is not None:
            axes.plot(paper, -i, "|", color=ORANGE, markersize=9)
    _labels(axes, [f"{row['group']}: {row['name']}" for row in rows])
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.set_title("mean and standard deviation over seeds; bar: the paper", color=INK, fontsize=8.5, loc="left")


def _peaks(axes: Axes, rows: list[Mapping[str, Any]]) -> None:
    quiet_axes(axes, "peak memory of a step, GiB", "")
    for i, row in enumerate(rows):
        cell = row["cells"]["memory"]
        measured = bool(cell["n"])
        colour = BLUE if measured else "none"
        axes.barh(-i, cell["mean"], height=0.55, color=colour, edgecolor=BLUE, linewidth=1.0)
        axes.annotate(f" {cell['mean']:.1f}", (cell["mean"], -i), va="center", fontsize=8, color=INK)
    _labels(axes, [row["name"] for row in rows])
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_title("filled: measured; outlined: predicted from smaller steps", color=INK, fontsize=8.5, loc="left")


def _differences(axes: Axes, claims: list[Mapping[str, Any]]) -> None:
    quiet_axes(axes, "difference", "")
    axes.axvline(0, color=MUTED, linewidth=0.9)
    for i, claim in enumerate(claims):
        found = claim["difference"]
        colour = _COLOURS[claim["verdict"]]
        axes.plot([found["low"], found["high"]], [-i, -i], color=colour, linewidth=2.4, solid_capstyle="round")
        axes.plot(found["difference"], -i, "o", color=colour, markersize=5)
        for key, offset in (("clusters", 0.16), ("seeds", 0.3)):
            if found.get(key) is not None:
                axes.plot([found[key]["low"], found[key]["high"]], [-i - offset] * 2, color=colour, linewidth=0.9)
    _labels(axes, [f"{claim['of']} − {claim['than']} ({claim['group']})" for claim in claims])
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.grid(visible=False, axis="y")
    title = "95 % intervals over pairs (thick), clusters and seeds (thin); green holds, orange fails"
    axes.set_title(title, color=INK, fontsize=8.5, loc="left")


def _labels(axes: Axes, names: list[str]) -> None:
    axes.set_yticks([-i for i in range(len(names))], [plain_text(name) for name in names], fontsize=7.5)
    axes.set_ylim(-len(names) + 0.3, 0.7)
