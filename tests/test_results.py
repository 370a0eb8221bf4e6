"""The committed tables say what the committed results say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import guide, page
from benchmarks.tables import collect, render
from gradate.runs.reproduction.page import read_tables, table_page
from gradate.runs.reproduction.spec import table_names

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "results").glob("*.json"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.stem)
def test_every_table_is_generated_from_its_results(file: Path) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "results" / f"{file.stem}.md").read_text(encoding="utf-8") == render(found)
    assert not {"gold", "text1", "sentence1"} & set(_keys(found))


def test_the_page_of_speed_and_memory_is_generated_from_its_results() -> None:
    results = page.read_results()
    text, plots = page.render(results, page.WORDS.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == text
    assert {file.name: file.read_text(encoding="utf-8") for file in page.PLOTS.glob("*.svg")} == plots
    assert not [stem for stem, found in results.items() if found["quick"]]


@pytest.mark.parametrize("name", table_names())
def test_every_reproduced_table_is_generated_from_its_results(name: str) -> None:
    shown = ROOT / "docs" / "results" / f"{name}.md"
    found = read_tables(ROOT / "results", name)
    assert shown.exists() == bool(found)
    if found:
        assert shown.read_text(encoding="utf-8") == table_page(name, found)


def test_cells_hold_neither_texts_nor_gold() -> None:
    cells = ROOT / "results" / "cells"
    for file in cells.glob("*.json"):
        assert not {"gold", "text1", "sentence1"} & set(_keys(json.loads(file.read_text(encoding="utf-8"))))
    for scores in cells.glob("*.parquet"):
        assert all(name.startswith("seed_") for name in pq.read_schema(scores).names)


@pytest.mark.parametrize("name", guide.PAGES)
def test_guides_are_generated_from_the_tables(name: str) -> None:
    words = (guide.WORDS / f"{name}.md").read_text(encoding="utf-8")
    assert (guide.DOCS / f"{name}.md").read_text(encoding="utf-8") == guide.render(guide.read_tables(), words)


def test_a_guide_names_no_claim_that_no_table_makes() -> None:
    with pytest.raises(KeyError, match="no such claim"):
        guide.render(guide.read_tables(), "[[claim: table-1 | bundled | no such claim]]")


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _keys(inner))]
    return [key for inner in value for key in _keys(inner)] if isinstance(value, list) else []


def test_collecting_needs_seeds(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no seed-N folders"):
        collect("demo", {"a": tmp_path})
