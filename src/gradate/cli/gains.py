"""Before and after, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from gradate.cli.output import figure, table

METRICS = {
    "spearman_cosine": "Spearman of the cosine",
    "spearman_head": "Spearman of the head",
    "mae": "mean absolute error",
    "accuracy": "grade accuracy",
    "qwk": "quadratic weighted kappa",
}


def gains_table(found: Mapping[str, Any]) -> Table | str:
    """The table of a run's or the demo's JSON."""
    if found["before"] is None:
        return "not measured: the recipe has no test pairs"
    return _tasks(found) if "tasks" in found["before"] else _metrics(found)


def _metrics(found: Mapping[str, Any]) -> Table:
    systems = [name for name in ("baseline", "before", "after") if name in found]
    heads = {"baseline": "word overlap"}
    rows = [
        (
            name,
            *(_with_interval(found[system][metric], found[system]["intervals"].get(metric)) for system in systems),
            _difference(found["difference"].get(metric)),
        )
        for metric, name in METRICS.items()
        if any(found[system][metric] is not None for system in systems)
    ]
    title = f"{found['after']['n']} test pairs"
    return table((title, *(heads.get(system, system) for system in systems), "difference"), rows)


def _tasks(found: Mapping[str, Any]) -> Table:
    before, after, gain = found["before"], found["after"], found["difference"]
    rows = [
        (name, before["tasks"][name]["spearman"], after["tasks"][name]["spearman"], _difference(gain.get(name)))
        for name in before["tasks"]
    ]
    rows.append(("average", before["average"], after["average"], _difference(gain.get("average"))))
    return table(("Spearman of the cosine", "before", "after", "difference"), rows)


def _difference(interval: Mapping[str, Any] | None) -> str:
    return figure(None) if interval is None else _with_interval(interval["value"], interval)


def _with_interval(value: float | None, interval: Mapping[str, Any] | None) -> str:
    if value is None or interval is None or interval["low"] is None:
        return figure(value)
    return f"{figure(value)} [{figure(interval['low'])}, {figure(interval['high'])}]"
