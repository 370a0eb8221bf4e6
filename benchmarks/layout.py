"""How numbers stand in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.summary import Estimate, Spread


@dataclass(frozen=True)
class Section:
    """What a table looks like: Markdown, and an SVG for its plot."""

    markdown: str
    plot: str


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(found: Spread | None, digits: int = 1, unit: str = "") -> str:
    """Median (smallest–largest), or a dash.

    >>> spread(Spread(2.0, 1.5, 3.0, 5)), spread(Spread(2.0, 2.0, 2.0, 1)), spread(None)
    ('2.0 (1.5–3.0)', '2.0', '–')
    """
    if found is None:
        return "–"
    value = f"{found.median:,.{digits}f}{unit}"
    return value if found.n == 1 else f"{value} ({found.low:,.{digits}f}–{found.high:,.{digits}f})"


def estimate(found: Estimate | None, digits: int = 2) -> str:
    """Value [interval], or a dash.

    >>> estimate(Estimate(0.5, 0.25, 0.75, 3)), estimate(Estimate(0.5, -math.inf, math.inf, 1))
    ('+0.50 [+0.25, +0.75]', '+0.50')
    """
    if found is None:
        return "–"
    value = f"{found.value:+.{digits}f}"
    return f"{value} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]" if math.isfinite(found.low) else value
