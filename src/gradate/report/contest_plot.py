"""The plot of a comparison: differences by task with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from gradate.report.style import BLUE, GREEN, INK, LINE, MUTED, ORANGE, new_figure, plain_text, quiet_axes

_COLOURS = (BLUE, ORANGE, GREEN, MUTED)
_ROW = 0.34


def contest_plot(found: Mapping[str, Any]) -> Figure:
    """Differences from the reference by task and on the average: value, interval over pairs, over clusters (thin).

    Args:
        found: The JSON of `gradate compare`.
    """
    comparisons = found.get("comparisons") or [found]
    rows = [*comparisons[0]["tasks"], "average"]
    figure = new_figure(6.6, 1.1 + _ROW * len(rows) * max(1, 0.6 * len(comparisons)))
    axes = figure.subplots()
    metric = "Spearman" if found["metric"] == "spearman" else "nDCG@10"
    quiet_axes(axes, f"difference from {plain_text(found['reference'])} ({metric} × 100)", "")
    axes.axvline(0, color=MUTED, linewidth=0.9)
    for number, comparison in enumerate(comparisons):
        colour = _COLOURS[number % len(_COLOURS)]
        shift = (number - (len(comparisons) - 1) / 2) * 0.8 / max(1, len(comparisons))
        for i, task in enumerate(rows):
            entry = comparison["average"] if task == "average" else comparison["tasks"][task]
            if entry["low"] is None:
                continue
            y = -i - shift
            axes.plot([entry["low"], entry["high"]], [y, y], color=colour, linewidth=2.4, solid_capstyle="round")
            label = plain_text(comparison["model"]) if i == 0 else None
            axes.plot(entry["difference"], y, "o", color=colour, markersize=5, label=label)
            if "clusters" in entry:
                low, high = entry["clusters"]["low"], entry["clusters"]["high"]
                axes.plot([low, high], [y - 0.13] * 2, color=colour, linewidth=0.9)
    axes.set_yticks([-i for i in range(len(rows))], rows, fontsize=8)
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.grid(visible=False, axis="y")
    over = "thick over pairs, thin over sentence clusters" if metric == "Spearman" else "over queries"
    axes.set_title(f"95 % intervals: {over}", color=INK, fontsize=9, loc="left")
    if len(comparisons) > 1:
        figure.legend(loc="outside lower center", fontsize=8, frameon=False)
    return figure
