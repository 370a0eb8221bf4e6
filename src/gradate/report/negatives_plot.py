"""The plot of hard negatives while they are mined: how near they are, and how many gave way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import Any

from matplotlib.figure import Figure

from gradate.report.style import BLUE, GREEN, INK, MUTED, ORANGE, new_figure, quiet_axes


def negatives_plot(log: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Mean cosine of queries with their negatives by update, and the share of queries that got others then.

    Args:
        log: Records of the run's log; those with `hard_negatives` count. None where there are none.
    """
    looks = [(record["step"], record["hard_negatives"]) for record in log if "hard_negatives" in record]
    if not looks:
        return None
    steps = [step for step, _ in looks]
    figure = new_figure(5.4, 4.2)
    above, below = figure.subplots(2, 1, sharex=True)
    quiet_axes(above, "", "", "mean cosine of queries with their negatives")
    above.plot(steps, [found["mean_cosine"] for _, found in looks], "o-", color=BLUE, markersize=3, linewidth=1.2)
    quiet_axes(below, "update", "", "queries that got other negatives, %")
    shares = [100 * found["replaced"] / found["queries"] for _, found in looks]
    below.vlines(steps, 0, shares, color=ORANGE, linewidth=2.2)
    below.axhline(0, color=MUTED, linewidth=0.8)
    return figure


def negatives_of_rows(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The same for the rows of a table, a line for each seed: the mean cosine, and the share that gave way.

    Args:
        rows: Rows as they are committed, with `negatives`: looks of every seed.
    """
    figure = new_figure(6.6, 4.8)
    above, below = figure.subplots(2, 1, sharex=True)
    quiet_axes(above, "", "", "mean cosine of queries with their negatives; a line for each seed")
    quiet_axes(below, "update", "", "queries that got other negatives, %")
    styles = cycle(product(("-", "--", ":"), (MUTED, BLUE, ORANGE, GREEN)))
    for row, (line, colour) in zip(rows, styles, strict=False):
        for number, looks in enumerate(row["negatives"]):
            steps, label = [look["step"] for look in looks], row["name"] if number == 0 else None
            cosines = [look["mean_cosine"] for look in looks]
            above.plot(steps, cosines, line, color=colour, linewidth=1.0)
            shares = [100 * look["replaced"] / look["queries"] for look in looks]
            below.plot(steps, shares, line, color=colour, label=label, linewidth=1.0)
    below.legend(loc="upper left", frameon=False, fontsize=8, labelcolor=INK)
    return figure
