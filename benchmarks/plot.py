"""Plots as small SVG files that follow the reader's light or dark theme; the same input gives the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, MARGIN, ROW, LABEL = 680, 14, 26, 290
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b2330}.m{fill:#687384}.g{stroke:#d9dee6}.w{stroke:#1b2330;"
    "stroke-width:1.4}.c0{fill:#d9772f;stroke:#d9772f}.c1{fill:#3f7fd0;stroke:#3f7fd0}.c2{fill:#3a9a72;stroke:#3a9a72}"
    ".p{fill-opacity:.25;stroke-dasharray:4 3}.l{fill:none;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.m{fill:#98a3b3}.g{stroke:#3a4250}.w{stroke:#e6e9ee}}"
)


@dataclass(frozen=True)
class Bar:
    """One horizontal bar.

    Args:
        label: What it stands for.
        value: Its length.
        low: Smallest measurement; equal to `high` where there is one.
        high: Largest measurement.
        ours: Drawn in the colour of our own.
        predicted: Drawn pale: not measured.
    """

    label: str
    value: float
    low: float
    high: float
    ours: bool = False
    predicted: bool = False


@dataclass(frozen=True)
class Series:
    """Points of one line, drawn on logarithmic axes."""

    label: str
    points: Sequence[tuple[float, float]]


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars from 0, each with its number and the range of its measurements."""
    top, span = 34, WIDTH - LABEL - 90
    longest = max((max(row.value, row.high) for row in rows), default=1.0) or 1.0
    body = [f'<text x="{MARGIN}" y="18">{escape(title)}</text>']
    for i, row in enumerate(rows):
        y = top + i * ROW
        length, low, high = (span * v / longest for v in (row.value, row.low, row.high))
        kind = f"{'c1' if row.ours else 'c0'}{' p' if row.predicted else ''}"
        body.append(f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(row.label)}</text>')
        body.append(f'<rect class="{kind}" x="{LABEL}" y="{y + 2}" width="{length:.1f}" height="16"/>')
        if high > low:
            body.append(f'<path class="w" d="M{LABEL + low:.1f} {y + 10}H{LABEL + high:.1f}"/>')
        end = LABEL + max(length, high) + 6
        body.append(f'<text class="m" x="{end:.1f}" y="{y + 14}">{number(row.value)}</text>')
    return _svg(title, top + len(rows) * ROW + 8, body)


def curves(title: str, x_label: str, y_label: str, lines: Sequence[Series]) -> str:
    """Lines over logarithmic axes, each with its name at its last point."""
    height, left, right, top, bottom = 330, 64, 190, 54, 284
    points = [point for line in lines for point in line.points]
    bounds = [_decades([p[axis] for p in points]) for axis in (0, 1)]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = ((math.log10(v) - low) / (high - low) for v, (low, high) in zip(point, bounds, strict=True))
        return left + x * (WIDTH - left - right), bottom - y * (bottom - top)

    body = [f'<text x="{MARGIN}" y="18">{escape(title)}</text>']
    for decade in range(bounds[0][0], bounds[0][1] + 1):
        x, _ = place((10**decade, 10 ** bounds[1][0]))
        body.append(f'<path class="g" d="M{x:.1f} {top}V{bottom}"/>')
        body.append(f'<text class="m" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{number(10**decade)}</text>')
    for decade in range(bounds[1][0], bounds[1][1] + 1):
        _, y = place((10 ** bounds[0][0], 10**decade))
        body.append(f'<path class="g" d="M{left} {y:.1f}H{WIDTH - right}"/>')
        body.append(f'<text class="m" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{number(10**decade)}</text>')
    for i, line in enumerate(lines):
        placed = [place(point) for point in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        body.append(f'<path class="c{i % 3} l" style="fill:none" d="M{path}"/>')
        body += [f'<circle class="c{i % 3}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed]
        body.append(f'<text x="{placed[-1][0] + 8:.1f}" y="{placed[-1][1] + 4:.1f}">{escape(line.label)}</text>')
    body.append(f'<text class="m" x="{left}" y="{height - 10}">{escape(x_label)}</text>')
    body.append(f'<text class="m" x="{left - 40}" y="{top - 14}">{escape(y_label)}</text>')
    return _svg(title, height, body)


def number(value: float) -> str:
    """Three significant digits, thousands with commas.

    >>> number(1234.5), number(0.01234), number(12.345), number(100_000)
    ('1,235', '0.0123', '12.3', '100,000')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _svg(title: str, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *body, "</svg>"]) + "\n"
