"""The demo's parts that need no training: its pairs, its folder, its new pairs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gradate.data.locations import DataLocations
from gradate.data.sources import load_source
from gradate.evaluation.baseline import word_overlap
from gradate.evaluation.metrics import spearman
from gradate.runs import demo

PARTS = ("starter", "starter-dev", "starter-test")


def test_starter_set_is_large_balanced_and_disjoint() -> None:
    parts = {name: load_source(name, DataLocations.resolve(None, {})) for name in PARTS}
    assert sum(map(len, parts.values())) >= 800 and len(parts["starter-test"]) >= 200
    texts = {name: {t.casefold().strip() for t in pairs.texts()} for name, pairs in parts.items()}
    assert not texts["starter"] & texts["starter-dev"]
    assert not (texts["starter"] | texts["starter-dev"]) & texts["starter-test"]
    for pairs in parts.values():
        counts = [int((pairs.grades == value).sum()) for value in pairs.scale.values or ()]
        assert max(counts) == min(counts)
        assert all(4 <= len(text.split()) <= 25 for text in pairs.texts())


def test_starter_parts_share_no_intent_and_hold_hard_cases() -> None:
    folder = Path(demo.__file__).parents[1] / "data" / "starter"
    assert (folder / "GUIDE.md").is_file()
    intents, notes = {}, set()
    for part in ("train", "dev", "test"):
        with (folder / f"{part}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        intents[part] = {row["intent"] for row in rows}
        notes |= {row["note"] for row in rows}
    assert not intents["train"] & intents["dev"]
    assert not (intents["train"] | intents["dev"]) & intents["test"]
    assert {"negation", "number", "swap", "same-words", "reworded"} <= notes


def test_words_do_not_give_the_grade_away() -> None:
    test = load_source("starter-test", DataLocations.resolve(None, {}))
    correlation = spearman(test.grades, word_overlap(test.text1, test.text2))
    assert correlation is not None and correlation < 25


def test_new_pairs_are_new() -> None:
    known = {t for name in PARTS for t in load_source(name, DataLocations.resolve(None, {})).texts()}
    assert not {text for pair in demo.NEW_PAIRS for text in pair} & known


def test_demo_takes_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "demo-1").mkdir(parents=True)
    assert demo._free_folder() == Path("runs", "demo-2")
