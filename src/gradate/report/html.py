"""The report of a run: one HTML page that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gradate.evaluation.metrics import Array, confusion
from gradate.evaluation.significance import Interval
from gradate.report.negatives_plot import negatives_plot
from gradate.report.plots import error_plot, learning_plot, loss_plot, prediction_plot
from gradate.report.style import to_svg
from gradate.scale import LabelScale

TEXT_SHOWN = 300
"""Characters of a text shown in the table of largest errors; what is cut is counted behind it."""
_CONFUSION_UP_TO = 12


@dataclass(frozen=True)
class ReportRow:
    """One metric of the before/after table; None where a system has no such number.

    Args:
        metric: A metric of `gradate.evaluation.grading.METRICS`, or a heading of your own.
        baseline: The baseline's value.
        before: Value of the model before training.
        after: Value after.
        difference: Paired difference after − before.
    """

    metric: str
    baseline: Interval | None = None
    before: Interval | None = None
    after: Interval | None = None
    difference: Interval | None = None


@dataclass(frozen=True)
class ReportData:
    """What a report shows; empty parts are left out of the page.

    Args:
        title: Heading of the page.
        recipe: Name of the recipe.
        created: When, as it should be printed.
        scale: Scale of grades and predictions; None where no grade was read.
        rows: Metrics before and after.
        gold: Grades of the test part, shape (n,).
        prediction: Predicted values of the test part, unclipped, shape (n,).
        log: Records of the run's log; see `plots.learning_plot`.
        objective: Loss of the last stage; see `plots.loss_values`.
        worst: Largest errors: first text, second text, grade, predicted value.
        tasks: Benchmark: task, Spearman × 100 before and after; a row `average` is set off from the tasks.
        notes: Human lines: decisions and their reasons, what was skipped or left out.
        environment: Versions, device, precision.
        plan: The resolved recipe, as YAML.
    """

    title: str
    recipe: str
    created: str
    scale: LabelScale | None
    rows: tuple[ReportRow, ...] = ()
    gold: Array | None = None
    prediction: Array | None = None
    log: tuple[dict[str, Any], ...] = ()
    objective: dict[str, Any] = field(default_factory=dict)
    worst: tuple[tuple[str, str, str, float], ...] = ()
    tasks: tuple[tuple[str, float, float], ...] = ()
    notes: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    plan: str = ""


@dataclass(frozen=True)
class _Look:
    """How a metric is written: heading, hint, factor and decimals."""

    heading: str
    hint: str
    factor: float = 1.0
    decimals: int = 2
    unit: str = ""


_LOOKS = {
    "spearman_cosine": _Look("Spearman, cosine", "× 100, higher is better"),
    "pearson_cosine": _Look("Pearson, cosine", "× 100, higher is better"),
    "spearman_head": _Look("Spearman, predicted grade", "× 100, higher is better"),
    "pearson_head": _Look("Pearson, predicted grade", "× 100, higher is better"),
    "mae": _Look("Mean absolute error", "in units of the scale, lower is better", decimals=3),
    "accuracy": _Look("Grade accuracy", "nearest grade, higher is better", factor=100, decimals=1, unit=" %"),
    "qwk": _Look("Quadratic weighted kappa", "−1 to 1, higher is better", decimals=3),
}


_SYSTEMS = (("baseline", "word overlap"), ("before", "before"), ("after", "after"))


def write_report(path: str | Path, data: ReportData) -> Path:
    """Write the page, whole or not at all; returns its path.

    Args:
        path: The file; its folder is made if need be.
        data: What to show.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(target.name + ".part")
    draft.write_text(render_report(data), encoding="utf-8")
    draft.replace(target)
    return target


def render_report(data: ReportData) -> str:
    """The page as text."""
    sections = [
        _cards(data.rows),
        _comparison(data.rows),
        _figures(data),
        _benchmark(data.tasks),
        _worst(data.worst, data.scale),
        _list("Notes", data.notes),
        _environment(data.environment),
        _plan(data.plan),
    ]
    scale = "" if data.scale is None else str(data.scale)
    facts = [("recipe", data.recipe), ("scale", scale), ("written", data.created)]
    header = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in facts if v)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    # The policy makes "no network" a property the browser enforces, not a promise.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(data.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'<header>\n<h1>{escape(data.title)}</h1>\n<dl class="facts">{header}</dl>\n</header>\n'
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def _cards(rows: Sequence[ReportRow]) -> str:
    cards = []
    for row in rows:
        if row.after is None or row.after.value is None:
            continue
        look = _look(row.metric)
        before = row.before.value if row.before is not None else None
        was = f'<span class="was">{_number(before, look)} →</span> ' if before is not None else ""
        change = ""
        if row.difference is not None and row.difference.value is not None:
            change = f'<p class="change">{_signed(row.difference, look)}</p>'
        cards.append(
            f'<div class="card"><h3>{escape(look.heading)}</h3><p class="big">{was}{_number(row.after.value, look)}'
            f"{look.unit}</p>{change}</div>"
        )
    return f'<section class="cards">{"".join(cards)}</section>' if cards else ""


def _comparison(rows: Sequence[ReportRow]) -> str:
    if not rows:
        return ""
    systems = [(name, title) for name, title in _SYSTEMS if any(getattr(row, name) is not None for row in rows)]
    with_difference = any(row.difference is not None for row in rows)
    head = "".join(f'<th scope="col" class="n">{title}</th>' for _, title in systems)
    head += '<th scope="col" class="n">difference</th><th aria-hidden="true"></th>' if with_difference else ""
    body = []
    for row in rows:
        look = _look(row.metric)
        hint = f"<small>{escape(look.hint)}</small>" if look.hint else ""
        cells = "".join(f'<td class="n">{_cell(getattr(row, name), look)}</td>' for name, _ in systems)
        if with_difference:
            cells += f'<td class="n">{_cell(row.difference, look, sign=True)}</td><td>{_whisker(row.difference)}</td>'
        body.append(f'<tr><th scope="row">{escape(look.heading)}{hint}</th>{cells}</tr>')
    caption = "Below each value: 95 % percentile bootstrap interval over the test pairs."
    if with_difference:
        caption += " The difference is after − before on the same resampled pairs; the tick marks 0."
    return _section(
        "Before and after" if len(systems) > 1 else "Measured",
        f'<div class="wide"><table><thead><tr><th scope="col">metric</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>",
        caption,
    )


def _figures(data: ReportData) -> str:
    figures: list[str] = []
    notes: list[str] = []
    if data.scale is not None and data.gold is not None and data.prediction is not None and len(data.gold):
        finite = np.isfinite(data.gold) & np.isfinite(data.prediction)
        if not finite.all():
            notes.append(f"{int((~finite).sum()):,} predictions are not finite numbers and are not drawn.")
        gold, prediction = data.gold[finite], data.prediction[finite]
        if len(gold):
            figures.append(_figure(prediction_plot(gold, prediction, data.scale), "Prediction against grade"))
            figures.append(_figure(error_plot(gold, prediction, data.scale), "Error by grade"))
            figures.append(_confusion(gold, prediction, data.scale))
    learning = learning_plot(data.log) if data.log else None
    if learning is not None:
        figures.append(_figure(learning, "Learning curves"))
    negatives = negatives_plot(data.log)
    if negatives is not None:
        figures.append(_figure(negatives, "Hard negatives"))
    if data.objective:
        loss = None if data.scale is None else loss_plot(data.objective, data.scale)
        if loss is not None:
            figures.append(_figure(loss, f"The loss on this scale: {_describe(data.objective)}", wide=True))
        else:
            name = data.objective.get("name", "")
            notes.append(f"The loss {name} is no function of the error of one pair, so its curve is not drawn.")
    figures = [figure for figure in figures if figure]
    if not figures and not notes:
        return ""
    text = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return _section("Plots", f'<div class="figures">{"".join(figures)}</div>{text}')


def _confusion(gold: Array, prediction: Array, scale: LabelScale) -> str:
    if scale.values is None or len(scale.values) > _CONFUSION_UP_TO:
        return ""
    names = [escape(str(name)) for name in scale.names or [f"{v:g}" for v in scale.values]]
    rows = []
    for name, counts in zip(names, confusion(gold=gold, prediction=prediction, scale=scale), strict=True):
        total = max(sum(counts), 1)
        cells = "".join(f'<td style="--share:{100 * c / total:.0f}%">{c:,}</td>' for c in counts)
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<figure><figcaption>Nearest grade</figcaption><div class="wide"><table class="confusion">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="caption">Rows: grade of the pair; columns: grade predicted; shade: share of the row.</p></figure>'
    )


def _benchmark(tasks: Sequence[tuple[str, float, float]]) -> str:
    if not tasks:
        return ""
    look = _Look("", "")
    body = []
    for name, before, after in tasks:
        kind = ' class="sum"' if name == "average" else ""
        body.append(
            f'<tr{kind}><th scope="row">{escape(name)}</th><td class="n">{_number(before, look)}</td>'
            f'<td class="n">{_number(after, look)}</td><td class="n">{_sign(after - before, look)}</td></tr>'
        )
    return _section(
        "Benchmark",
        '<div class="wide"><table><thead><tr><th scope="col">task</th><th scope="col" class="n">before</th>'
        '<th scope="col" class="n">after</th><th scope="col" class="n">difference</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>",
        "Spearman × 100 of the cosine, all pairs of a task at once.",
    )


def _worst(worst: Sequence[tuple[str, str, str, float]], scale: LabelScale | None) -> str:
    if not worst or scale is None:
        return ""
    body = []
    for first, second, grade, prediction in worst:
        nearest = "" if scale.is_continuous else f"<small>{escape(str(scale.decode(prediction)))}</small>"
        body.append(
            f"<tr><td>{_text(first)}</td><td>{_text(second)}</td><td>{escape(str(grade))}</td>"
            f'<td class="n">{_number(prediction, _Look("", ""))}{nearest}</td></tr>'
        )
    return _section(
        "Largest errors",
        '<div class="wide"><table class="worst"><thead><tr>'
        '<th scope="col">first text</th><th scope="col">second text</th>'
        '<th scope="col">grade</th><th scope="col" class="n">prediction</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>",
        "Look here first: a large error is a hard pair or a wrong grade.",
    )


def _list(title: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return _section(title, f"<ul>{items}</ul>") if items else ""


def _environment(environment: dict[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(str(k))}</th><td>{escape(str(v))}</td></tr>' for k, v in environment.items()
    )
    return f"<details><summary>Environment</summary><table>{rows}</table></details>" if rows else ""


def _plan(plan: str) -> str:
    return f"<details><summary>Plan</summary><pre>{escape(plan)}</pre></details>" if plan else ""


def _section(title: str, content: str, caption: str = "") -> str:
    below = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    return f"<section><h2>{escape(title)}</h2>{content}{below}</section>"


def _figure(figure: Any, title: str, *, wide: bool = False) -> str:
    kind = ' class="broad"' if wide else ""
    svg = f'<div class="wide">{to_svg(figure, title)}</div>'
    return f"<figure{kind}><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def _describe(objective: dict[str, Any]) -> str:
    values = ", ".join(f"{k} = {v}" for k, v in objective.items() if k in ("k", "x0", "boundary"))
    return f"{objective.get('name', 'loss')} ({values})" if values else str(objective.get("name", "loss"))


def _look(metric: str) -> _Look:
    return _LOOKS.get(metric, _Look(metric, "", decimals=3))


def _number(value: float | None, look: _Look) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return f"{value * look.factor:.{look.decimals}f}".replace("-", "−")


def _sign(value: float, look: _Look) -> str:
    return ("+" if value >= 0 else "") + _number(value, look) if np.isfinite(value) else "–"


def _cell(interval: Interval | None, look: _Look, *, sign: bool = False) -> str:
    if interval is None or interval.value is None:
        return "–"
    value = _sign(interval.value, look) if sign else _number(interval.value, look)
    span = ""
    if interval.low is not None and interval.high is not None:
        write = _sign if sign else _number
        span = f"<small>{write(interval.low, look)} … {write(interval.high, look)}</small>"
    # A difference of percentages is in points, not in percent.
    return f"{value}{'' if sign else look.unit}{span}"


def _signed(interval: Interval, look: _Look) -> str:
    assert interval.value is not None
    text = f"<b>{_sign(interval.value, look)}</b>"
    if interval.low is not None and interval.high is not None:
        text += f"<span>{_sign(interval.low, look)} … {_sign(interval.high, look)}</span>"
    return text


def _whisker(interval: Interval | None) -> str:
    """A small drawing of an interval about 0."""
    if interval is None or interval.value is None or interval.low is None or interval.high is None:
        return ""
    reach = max(abs(interval.low), abs(interval.high), abs(interval.value)) * 1.08
    if not reach > 0:
        return ""
    low, value, high = (50 + 48 * v / reach for v in (interval.low, interval.value, interval.high))
    return (
        '<svg class="whisker" viewBox="0 0 100 14" aria-hidden="true">'
        '<line class="zero" x1="50" y1="1" x2="50" y2="13"/>'
        f'<line class="span" x1="{low:.1f}" y1="7" x2="{high:.1f}" y2="7"/>'
        f'<circle cx="{value:.1f}" cy="7" r="3"/></svg>'
    )


def _text(text: str) -> str:
    if len(text) <= TEXT_SHOWN:
        return escape(text)
    return f"{escape(text[:TEXT_SHOWN])}… <small>({len(text):,} characters)</small>"
