"""The plots of a report: each a function that returns a matplotlib figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gradate.evaluation.metrics import Array
from gradate.report.style import BLUE, GREEN, INK, LINE, MUTED, ORANGE, PAPER, new_figure, plain_text, quiet_axes
from gradate.scale import LabelScale

SCATTER_LIMIT = 2_000
"""Points a scatter draws at most; beyond it a seeded sample is drawn, and the plot says so."""
_VECTOR_LIMIT = 300
_BINS = 8
_GRADES_DRAWN = 6


def prediction_plot(gold: Array, prediction: Array, scale: LabelScale, *, limit: int = SCATTER_LIMIT) -> Figure:
    """Predictions over grades: all points (or a sample), the median of each grade, and where each grade begins.

    Args:
        gold: Grades on the scale, shape (n,), n ≥ 1.
        prediction: Predicted values, unclipped, shape (n,).
        scale: The scale; with classes the points are spread sideways, without them the diagonal is drawn.
        limit: Most points to draw.
    """
    figure = new_figure()
    axes = figure.subplots()
    quiet_axes(axes, "grade", "prediction")
    generator = np.random.default_rng(0)
    n = len(gold)
    shown = np.sort(generator.choice(n, limit, replace=False)) if n > limit else np.arange(n)
    x = gold[shown]
    if scale.d is not None:
        x = x + generator.uniform(-0.28, 0.28, len(x)) * scale.d
    alpha = float(np.clip(12 / np.sqrt(len(shown)), 0.25, 0.8))
    axes.scatter(
        x, prediction[shown], s=11, color=BLUE, alpha=alpha, linewidths=0, rasterized=len(shown) > _VECTOR_LIMIT
    )
    edges = (gold.min(), gold.max(), prediction.min(), prediction.max(), scale.low, scale.high)
    margin = 0.06 * (max(edges) - min(edges))
    axes.set_ylim(min(edges) - margin, max(edges) + margin)
    if scale.values is None:
        axes.plot([scale.low, scale.high], [scale.low, scale.high], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        label = "median of a band of grades"
    else:
        for border in _borders(scale):
            axes.axhline(border, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        _grade_ticks(axes, scale)
        axes.grid(visible=False)
        label = "median; dotted: where the next grade begins"
    centres, groups = _groups(gold, scale)
    medians = [(c, float(np.median(prediction[g]))) for c, g in zip(centres, groups, strict=True) if g.any()]
    half = 0.34 * (scale.d or (scale.high - scale.low) / _BINS)
    for number, (centre, median) in enumerate(medians):
        axes.plot(
            [centre - half, centre + half],
            [median, median],
            color=ORANGE,
            linewidth=2.6,
            solid_capstyle="round",
            label=label if number == 0 else None,
        )
    for low, high in ((min(edges) - margin, scale.low), (scale.high, max(edges) + margin)):
        axes.axhspan(low, high, color=LINE, alpha=0.35, linewidth=0)
    _legend(figure, axes, f"a sample of {limit:,} of {n:,} pairs" if n > limit else f"{n:,} pairs")
    return figure


def error_plot(gold: Array, prediction: Array, scale: LabelScale) -> Figure:
    """Distribution of prediction − grade for each grade: median, middle half, middle nine tenths, and the count.

    Args:
        gold: Grades on the scale, shape (n,), n ≥ 1.
        prediction: Predicted values, unclipped, shape (n,); the error is that of the value clipped to the scale.
        scale: The scale; with classes the band in which the nearest grade is right is shaded, without them grades
            are put in bands of equal width.
    """
    figure = new_figure()
    axes = figure.subplots()
    quiet_axes(axes, "grade", "prediction − grade")
    error = np.asarray(scale.clamp(prediction)) - gold
    centres, groups = _groups(gold, scale)
    half = 0.34 * (scale.d or (scale.high - scale.low) / _BINS)
    reach = max(float(np.abs(error).max()), 0.6 * (scale.d or 0.0), 1e-9) * 1.12
    if scale.values is not None:
        borders = [-np.inf, *_borders(scale), np.inf]
        for centre, low, high in zip(centres, borders[:-1], borders[1:], strict=True):
            bottom, top = max(low - centre, -reach), min(high - centre, reach)
            axes.add_patch(Rectangle((centre - half, bottom), 2 * half, top - bottom, color=GREEN, alpha=0.13, lw=0))
        _grade_ticks(axes, scale, both=False)
    axes.axhline(0, color=MUTED, linewidth=0.9)
    for number, (centre, group) in enumerate(zip(centres, groups, strict=True)):
        count = int(group.sum())
        axes.annotate(
            f"n = {count:,}" if len(centres) <= _GRADES_DRAWN else f"{count:,}",
            (centre, reach),
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=MUTED,
            annotation_clip=False,
        )
        if not count:
            continue
        q05, q25, q50, q75, q95 = np.quantile(error[group], [0.05, 0.25, 0.5, 0.75, 0.95])
        first = number == 0
        axes.plot([centre] * 2, [q05, q95], color=BLUE, lw=1.2, label="middle 90 %" if first else None)
        axes.plot([centre] * 2, [q25, q75], color=BLUE, lw=7, alpha=0.55, label="middle 50 %" if first else None)
        axes.plot(centre, q50, "o", ms=6, color=ORANGE, mec=PAPER, mew=1, ls="none", label="median" if first else None)
    axes.set_xlim(centres[0] - 2 * half, centres[-1] + 2 * half)
    axes.set_ylim(-reach, reach)
    _legend(figure, axes)
    return figure


def learning_plot(log: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Loss and selection score over the updates of all stages; None if the log holds neither.

    Args:
        log: Records with `stage`, `step`, and `loss` or `selection` (and `metric`, its name). Values that are not
            finite are left out and counted in the title. A stage with a single loss record was solved at once.
    """
    records = _cumulative(log)
    rows = [key for key in ("loss", "selection") if any(key in record for _, record in records)]
    if not rows:
        return None
    figure = new_figure(5.4, 1.9 * len(rows) + 0.4)
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    stages = sorted({record["stage"] for _, record in records})
    metric = next((str(record["metric"]) for _, record in records if "metric" in record), "selection score")
    for axes, key in zip(panels, rows, strict=True):
        name = "loss" if key == "loss" else plain_text(metric.replace("_", " "))
        lost = sum(1 for _, record in records if key in record and not np.isfinite(record[key]))
        quiet_axes(axes, "update" if key == rows[-1] else "", "", name + (f" ({lost} not finite)" if lost else ""))
        for number, stage in enumerate(stages):
            points = np.array(
                [(x, r[key]) for x, r in records if r["stage"] == stage and key in r and np.isfinite(r[key])]
            )
            if len(points):
                _curve(axes, points, (BLUE, GREEN, ORANGE)[number % 3], key, f"stage {stage}")
        if key == "selection":
            _mark_best(axes, records, lowest="mae" in metric or "loss" in metric)
    if len(stages) > 1:
        _legend(figure, panels[0])
    return figure


def loss_values(objective: Mapping[str, Any], prediction: Array, grade: float, scale: LabelScale) -> Array | None:
    """Loss of predictions for one grade, boundary policy included; None for a loss that is no function of the error.

    Args:
        objective: `name` (`smooth-k2`, `translated-relu`, `l1`, `mse`) and, for the first two, `k`, `x0`, `boundary`.
        prediction: Predicted values, shape (n,).
        grade: The true grade.
        scale: The scale, whose ends the boundary policy needs.

    >>> sk2 = {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"}
    >>> loss_values(sk2, np.array([3.57, 2.5]), 3.0, LabelScale.from_values([0, 1, 2, 3])).tolist()
    [0.0, 0.125]
    """
    name = objective.get("name")
    if name in ("l1", "mse"):
        error = np.abs(prediction - grade)
        return error if name == "l1" else error**2
    if name not in ("smooth-k2", "translated-relu"):
        return None
    k, x0 = float(objective["k"]), float(objective["x0"])
    boundary = objective.get("boundary", "none")
    if boundary == "both":
        prediction = np.clip(prediction, scale.low, scale.high)
    elif boundary == "left":
        prediction = np.maximum(prediction, scale.low)
    excess = np.maximum(np.abs(prediction - grade) - x0, 0)
    value: Array = k * excess**2 if name == "smooth-k2" else k * excess
    return value


def loss_plot(objective: Mapping[str, Any], scale: LabelScale) -> Figure | None:
    """The loss over the error, x0 and d/2 marked, and over the prediction for each grade; None as `loss_values`."""
    span = scale.high - scale.low
    reach = min(span, 1.5 * scale.d) if scale.d is not None else span / 2
    error = np.linspace(0, reach, 301)
    plain = loss_values({**objective, "boundary": "none"}, scale.low + error, scale.low, scale)
    if plain is None:
        return None
    figure = new_figure(10.6, 3.4)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
    quiet_axes(left, "|prediction − grade|", "", "loss of an error")
    left.plot(error, plain, color=BLUE, linewidth=2)
    top = float(plain.max())
    x0 = float(objective.get("x0", 0) or 0) if objective.get("name") in ("smooth-k2", "translated-relu") else 0.0
    marks = [(x0, f"x0 = {x0:g}", ORANGE)] if 0 < x0 < reach else []
    marks += [(scale.d / 2, f"d/2 = {scale.d / 2:g}", GREEN)] if scale.d is not None else []
    for position, text, colour in marks:
        left.axvline(position, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), label=text)
    if marks:
        _inner_legend(left)
    left.set_xlim(0, reach)
    left.set_ylim(-0.02 * top, 1.02 * top)
    quiet_axes(right, "prediction", "", "loss of a prediction, by true grade")
    outside = 0.25 * span
    prediction = np.linspace(scale.low - outside, scale.high + outside, 601)
    grades = _drawn_grades(scale)
    ceiling = 0.0
    for number, grade in enumerate(grades):
        values = loss_values(objective, prediction, grade, scale)
        assert values is not None
        inside = values[(prediction >= scale.low) & (prediction <= scale.high)]
        ceiling = max(ceiling, float(inside.max()))
        right.plot(
            prediction,
            values,
            color=_between(number / max(len(grades) - 1, 1)),
            linewidth=1.7,
            label=plain_text(_name(scale, grade)),
        )
    for low, high in ((scale.low - outside, scale.low), (scale.high, scale.high + outside)):
        right.axvspan(low, high, color=LINE, alpha=0.35, linewidth=0)
    right.set_xlim(scale.low - outside, scale.high + outside)
    right.set_ylim(-0.02 * ceiling, 1.02 * ceiling)
    _inner_legend(right)
    return figure


def _borders(scale: LabelScale) -> list[float]:
    values = scale.values or ()
    return [(a + b) / 2 for a, b in itertools.pairwise(values)]


def _groups(gold: Array, scale: LabelScale) -> tuple[list[float], list[Any]]:
    """Centres on the scale and the pairs that belong to each: its grades, or bands of equal width."""
    if scale.values is not None:
        index = scale.index(gold)
        return list(scale.values), [index == i for i in range(len(scale.values))]
    edges = np.linspace(scale.low, scale.high, _BINS + 1)
    index = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, _BINS - 1)
    return [float(c) for c in (edges[:-1] + edges[1:]) / 2], [index == i for i in range(_BINS)]


def _name(scale: LabelScale, grade: float) -> str:
    if scale.names is not None and scale.values is not None:
        return scale.names[scale.values.index(grade)]
    return f"{grade:g}"


def _grade_ticks(axes: Axes, scale: LabelScale, *, both: bool = True) -> None:
    values = list(scale.values or ())
    names = [name if len(name) <= 18 else name[:17] + "…" for name in (_name(scale, v) for v in values)]
    crowded = sum(map(len, names)) > 52
    axes.set_xticks(
        values,
        [plain_text(name) for name in names],
        rotation=25 if crowded else 0,
        ha="right" if crowded else "center",
    )
    if both:
        axes.set_yticks(values)


def _drawn_grades(scale: LabelScale) -> list[float]:
    if scale.values is None:
        return [scale.low, (scale.low + scale.high) / 2, scale.high]
    if len(scale.values) <= _GRADES_DRAWN:
        return list(scale.values)
    picked = np.linspace(0, len(scale.values) - 1, _GRADES_DRAWN).round().astype(int)
    return [scale.values[i] for i in picked]


def _between(share: float) -> tuple[float, float, float]:
    """Colour from blue to orange."""
    ends = [tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)) for colour in (BLUE, ORANGE)]
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(*ends, strict=True))
    return red, green, blue


def _cumulative(log: Sequence[Mapping[str, Any]]) -> list[tuple[float, Mapping[str, Any]]]:
    """Records with their update counted over all stages; a stage solved at once takes no updates."""
    placed: list[tuple[float, Mapping[str, Any]]] = []
    start = 0.0
    for stage in sorted({record["stage"] for record in log if "stage" in record}):
        records = [record for record in log if record.get("stage") == stage]
        solved = len(records) == 1
        placed += [(start + (0 if solved else float(record.get("step", 0))), record) for record in records]
        start = max(x for x, _ in placed)
    return placed


def _curve(axes: Axes, points: Array, colour: str, key: str, label: str) -> None:
    if len(points) == 1:
        axes.plot(points[:, 0], points[:, 1], "D", ms=5, color=colour, label=label)
        return
    window = len(points) // 25 if key == "loss" else 0
    if window > 1:
        axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=0.8, alpha=0.3)
        kernel = np.ones(window) / window
        smooth = np.column_stack([np.convolve(points[:, i], kernel, mode="valid") for i in (0, 1)])
        axes.plot(smooth[:, 0], smooth[:, 1], color=colour, linewidth=1.8, label=label)
        return
    marker = "o" if key == "selection" and len(points) <= 60 else None
    axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=1.6, marker=marker, ms=3.2, label=label)


def _mark_best(axes: Axes, records: Sequence[tuple[float, Mapping[str, Any]]], *, lowest: bool) -> None:
    points = [(x, float(r["selection"])) for x, r in records if "selection" in r and np.isfinite(r["selection"])]
    if not points:
        return
    best = (min if lowest else max)(points, key=lambda point: point[1])
    axes.plot(*best, "o", ms=9, mfc="none", mec=ORANGE, mew=1.6)
    axes.annotate(
        f"best {best[1]:.2f}", best, xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8, color=INK
    )
    axes.margins(y=0.22)


def _inner_legend(axes: Axes) -> None:
    axes.legend(fontsize=8, labelcolor=MUTED, facecolor=PAPER, edgecolor="none", framealpha=0.85)


def _legend(figure: Figure, axes: Axes, title: str = "") -> None:
    """A legend in one row above the axes, where it hides no data."""
    handles, labels = axes.get_legend_handles_labels()
    if title:
        handles, labels = [Line2D([], [], linestyle="none", marker="none"), *handles], [title, *labels]
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=max(len(labels), 1),
        fontsize=8,
        labelcolor=MUTED,
        frameon=False,
        handlelength=1.4,
        columnspacing=1.4,
        borderpad=0.1,
    )
