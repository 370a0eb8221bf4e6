"""The committed tables say what the committed results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.tables import collect, render

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


def _keys(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _keys(inner))]
    return [key for inner in value for key in _keys(inner)] if isinstance(value, list) else []


def test_collecting_needs_seeds(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no seed-N folders"):
        collect("demo", {"a": tmp_path})
