"""The report page: self-contained, escaped, whole with any part missing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradate.evaluation.significance import Interval
from gradate.report.html import TEXT_SHOWN, ReportData, ReportRow, render_report, write_report
from gradate.scale import LabelScale

SCALE = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
NASTY = "<script>alert('x')</script> & \"quoted\" `code` https://example.org/a.js"


def _data(n: int = 60, scale: LabelScale = SCALE, **changes: Any) -> ReportData:
    rng = np.random.default_rng(0)
    gold = rng.uniform(scale.low, scale.high, n) if scale.values is None else rng.choice(scale.values, n)
    fields: dict[str, Any] = {
        "title": "A run",
        "recipe": "two-stage",
        "created": "2026-11-21 09:41",
        "scale": scale,
        "rows": (
            ReportRow(
                "spearman_cosine",
                baseline=Interval(40.0, 30.0, 50.0),
                before=Interval(70.0, 65.0, 75.0),
                after=Interval(80.123, 76.0, 84.0),
                difference=Interval(10.123, 5.5, 14.5, 0.002),
            ),
            ReportRow("spearman_head", after=Interval(82.0, 78.0, 86.0)),
            ReportRow(
                "mae",
                before=Interval(0.5, 0.4, 0.6),
                after=Interval(0.3, 0.2, 0.4),
                difference=Interval(-0.2, -0.3, -0.1, 0.002),
            ),
            ReportRow("accuracy", after=Interval(0.815, 0.7, 0.9)),
        ),
        "gold": gold,
        "prediction": gold + rng.normal(scale=0.4, size=n),
        "log": (
            {"stage": 1, "step": 60, "epoch": 1.0, "loss": 0.5, "selection": 70.0, "metric": "spearman_cosine"},
            {"stage": 2, "step": 10, "epoch": 0.5, "loss": 0.4},
            {"stage": 2, "step": 20, "epoch": 1.0, "loss": 0.3, "learning_rate": 1e-5},
            {"stage": 2, "step": 20, "epoch": 1.0, "selection": 80.0, "metric": "spearman_cosine"},
        ),
        "objective": {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"},
        "worst": (("first", "second", "highly", 0.4),),
        "tasks": (("STS12", 72.37, 73.37), ("STS13", 80.60, 80.10), ("average", 76.485, 76.735)),
        "notes": ("batch size 16: 640 pairs",),
        "environment": {"torch": "2.13.0"},
        "plan": "stages:\n  - name: head\n",
    }
    return ReportData(**{**fields, **changes})


class _Page(HTMLParser):
    """What a browser would fetch, and whether the tags balance."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "srcset", "data", "action")]
        assert not [k for k, _ in attrs if k.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _check(page: str) -> _Page:
    parsed = _Page(page)
    assert parsed.open == []
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(parsed.tags)
    # References inside the page and embedded pictures only.
    assert all(a.startswith(("#", "data:image/png;base64,")) for a in parsed.addresses)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"\bnan\b|\binf\b", " ".join(parsed.text), re.IGNORECASE)
    return parsed


@pytest.mark.parametrize("scale", [SCALE, LabelScale.from_values([0, 0.5, 2]), LabelScale.continuous(0, 5)])
def test_the_page_needs_nothing_else(scale: LabelScale) -> None:
    worst = (("first", "second", scale.decode(0) if scale.values else "0.00", 0.4),)
    parsed = _check(render_report(_data(scale=scale, worst=worst)))
    assert parsed.tags.count("figure") == (4 if scale.is_continuous else 5)


def test_thousands_of_points_are_drawn_as_one_picture() -> None:
    page = render_report(_data(n=6000))
    parsed = _check(page)
    assert sum(a.startswith("data:image/png") for a in parsed.addresses) == 1
    assert "a sample of 2,000 of 6,000 pairs" in page
    assert len(page) < 1_000_000


def test_the_table_shows_values_with_intervals() -> None:
    text = " ".join(_check(render_report(_data())).text)
    for part in ("80.12", "76.00 … 84.00", "+10.12", "+5.50 … +14.50", "−0.200", "81.5 %", "word overlap", "72.37"):
        assert part in text
    assert text.count("average") == 1 and "+0.25" in text


def test_user_text_is_escaped_everywhere() -> None:
    scale = LabelScale.from_names([f"low {NASTY}", "mid", "high"])
    data = _data(
        scale=scale,
        title=NASTY,
        recipe=NASTY,
        created=NASTY,
        worst=((NASTY, NASTY, NASTY, 1.0),),
        notes=(NASTY,),
        environment={NASTY: NASTY},
        plan=NASTY,
        tasks=((NASTY, 1.0, 2.0),),
        rows=(ReportRow(NASTY, after=Interval(1.0, 0.5, 1.5)),),
    )
    page = render_report(data)
    _check(page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_dollars_in_a_grade_name_are_text_not_formulas() -> None:
    scale = LabelScale.from_names(["$x_$", "under $5", "over $5"])
    page = render_report(_data(scale=scale, worst=()))
    _check(page)
    assert "under $5" in page


def test_a_long_text_is_cut_and_counted() -> None:
    page = render_report(_data(worst=(("a" * 1_000_000, "b", "highly", 0.0),)))
    assert "(1,000,000 characters)" in page
    assert "a" * (TEXT_SHOWN + 1) not in page


@pytest.mark.parametrize(
    "missing",
    [
        {"rows": ()},
        {"rows": (ReportRow("spearman_cosine", after=Interval(80.0, 76.0, 84.0)),)},
        {"rows": (ReportRow("mae", before=Interval(0.5, None, None), after=Interval(None, None, None)),)},
        {"gold": None, "prediction": None},
        {"gold": np.zeros(0), "prediction": np.zeros(0)},
        {"gold": np.array([1.0]), "prediction": np.array([1.0])},
        {"gold": np.ones(50), "prediction": np.ones(50)},
        {"log": ()},
        {"log": ({"stage": 1, "step": 3, "epoch": 1.0},)},
        {"log": ({"stage": 1, "step": 0, "selection": 3.0},)},
        {"objective": {}},
        {"worst": ()},
        {"tasks": ()},
        {"notes": (), "environment": {}, "plan": ""},
    ],
)
def test_any_part_may_be_missing(missing: dict[str, Any]) -> None:
    _check(render_report(_data(**missing)))


def test_without_anything_the_page_still_stands() -> None:
    parsed = _check(render_report(ReportData("Empty", "none", "today", LabelScale.continuous(0, 1))))
    assert "figure" not in parsed.tags and "table" not in parsed.tags


def test_a_loss_that_cannot_be_drawn_is_said() -> None:
    assert "cross-entropy is no function of the error" in render_report(_data(objective={"name": "cross-entropy"}))


def test_predictions_that_are_not_finite_are_counted() -> None:
    prediction = np.ones(60)
    prediction[:2] = np.nan
    assert "2 predictions are not finite numbers" in render_report(_data(prediction=prediction))


def test_both_themes_are_styled() -> None:
    page = render_report(_data())
    assert "prefers-color-scheme: dark" in page
    assert "var(--muted)" in page and "var(--line)" in page


def test_the_file_is_written_whole_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.html"
    assert write_report(target, _data(n=10)) == target
    write_report(target, _data(n=10, title="Zweiter Lauf – größer"))
    assert "Zweiter Lauf – größer" in target.read_text(encoding="utf-8")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]
