"""Colours and sizes that page and plots share, and matplotlib figures as SVG that follows the page's theme."""

from __future__ import annotations

import io
import re
from html import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, LINE, PAPER = "#1b2330", "#687384", "#d9dee6", "#fdfdfe"
"""Colours of the light theme; in a page they become its variables and turn with the theme."""
BLUE, ORANGE, GREEN = "#3f7fd0", "#d9772f", "#3a9a72"
"""Colours of data, legible on light and on dark ground."""

_THEMED = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)", PAPER: "var(--paper)"}
_RASTER_DPI = 150
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def new_figure(width: float = 5.4, height: float = 3.5) -> Figure:
    """An empty figure of the report's look; sizes in inches.

    It is not pyplot's: nothing global changes, and it is freed like any object.
    """
    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def plain_text(text: str) -> str:
    """Text that matplotlib shows as it is: no formula between dollars, no label hidden for a leading underscore."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def quiet_axes(axes: Axes, x_label: str, y_label: str, title: str | None = None) -> None:
    """Give axes the report's look: two thin spines, light horizontal grid, small muted labels."""
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(LINE)
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)
    axes.set_xlabel(x_label, color=MUTED, fontsize=8.5)
    axes.set_ylabel(y_label, color=MUTED, fontsize=8.5)
    if title:
        axes.set_title(title, color=INK, fontsize=9, loc="left")


def to_svg(figure: Figure, label: str) -> str:
    """A figure as an inline `<svg>` element whose text is text and whose greys are the page's variables.

    Args:
        figure: A figure of `new_figure`; artists marked `rasterized` become one embedded PNG.
        label: What a screen reader says; escaped here.
    """
    svg = svg_file(figure, label)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    for colour, variable in _THEMED.items():
        svg = svg.replace(colour, variable)
    return svg.replace("<svg", f'<svg class="plot" role="img" aria-label="{escape(label)}"', 1)


def svg_file(figure: Figure, label: str) -> str:
    """A figure as the text of an SVG file, the same bytes for the same figure.

    Args:
        figure: A figure of `new_figure`.
        label: Salt of its ids: what is random in matplotlib becomes repeatable, and plots on one page stay apart.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(buffer, format="svg", dpi=_RASTER_DPI, metadata=_NO_METADATA)
    return buffer.getvalue()
