"""Triplets and single texts: made of NLI, read from files, none of a test set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradate.data.contrast import Texts, Triplets, drop_test_texts, drop_test_triplets, triplets_of_classes
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.sources import NLI_SCALE, load_examples
from gradate.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_triplets_join_what_a_premise_entails_and_contradicts() -> None:
    rows = [
        ("p", "e1", 2),
        ("p", "c1", 0),
        ("p", "e2", 2),
        ("p", "n", 1),
        ("q", "e", 2),
        ("p", "c2", 0),
        ("p", "c3", 0),
    ]
    first, second, grades = zip(*rows, strict=True)
    found = triplets_of_classes(Pairs(first, second, np.array(grades, dtype=float), NLI_SCALE, name="nli"))
    assert list(zip(*found.columns().values(), strict=True)) == [("p", "e1", "c1"), ("p", "e2", "c2")]
    assert found.notes == ("2 triplets from 7 pairs: first texts with a second one of either end",)
    assert triplets_of_classes(Pairs(["a"], ["b"], np.array([1.0]), NLI_SCALE)).columns()["anchor"] == []


def test_selection_fingerprints_and_lengths() -> None:
    triplets = Triplets(["a", "b"], ["c", "d"], ["e", "f"])
    assert triplets.select([1]).columns() == {"anchor": ["b"], "positive": ["d"], "negative": ["f"]}
    assert triplets.fingerprint() != triplets.select([1, 0]).fingerprint()
    assert triplets.texts() == ["a", "c", "e", "b", "d", "f"] and len(triplets) == 2
    with pytest.raises(InputError, match="columns of 1, 2, 1 texts"):
        Triplets(["a"], ["b", "c"], ["d"])
    texts = Texts(["a", "b", "a"])
    assert texts.texts() == ["a", "b"] and texts.select([2]).text == ["a"]


def test_test_sets_are_left_out_and_counted() -> None:
    triplets = drop_test_triplets(Triplets(["a", "b"], ["c", "d"], ["e", "f"]), [("c", "a")])
    assert triplets.anchor == ["b"] and triplets.notes[0].startswith("1 triplets left out")
    texts = drop_test_texts(Texts(["A  cat", "dog", "dog"]), [("a cat", "x")])
    assert texts.text == ["dog"]
    assert [note.split(" ")[0] for note in texts.notes] == ["1", "1"]


def test_sources(layout: Path, tmp_path: Path) -> None:
    file = tmp_path / "triplets.csv"
    file.write_text("sent0,sent1,hard_neg\na,b,c\nSTS13 FNWN first 1,STS13 FNWN second 1,z\n", encoding="utf-8")
    found = load_examples("nli-triplets", DataLocations(layout, {"nli-triplets": file}))
    assert isinstance(found, Triplets) and len(found) == 1 and found.name == "nli-triplets"
    nli = tmp_path / "nli.csv"
    nli.write_text("premise,hypothesis,label\np,e,entailment\np,c,contradiction\n", encoding="utf-8")
    made = load_examples("nli-triplets", DataLocations(layout, {"nli": nli}))
    assert made.columns() == {"anchor": ["p"], "positive": ["e"], "negative": ["c"]}
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("one\ntwo\n\none\nSTS13 FNWN first 1\n", encoding="utf-8")
    texts = load_examples("sentences", DataLocations(layout, {"sentences": sentences}))
    assert isinstance(texts, Texts) and texts.text == ["one", "two"] and len(texts.notes) == 3
    positives = load_examples("sts-positives", DataLocations(layout))
    assert isinstance(positives, Pairs) and positives.grades.min() >= 4


@pytest.mark.parametrize(
    ("content", "message"),
    [("a,b\n1,2\n", "no columns of triplets"), ("anchor,positive,negative\na,,c\n", "triplets.csv:2")],
)
def test_bad_files_of_triplets(layout: Path, tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "triplets.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_examples("nli-triplets", DataLocations(layout, {"nli-triplets": file}))


def test_the_official_corpus_has_1543_positives(raw_data: Path) -> None:
    assert len(load_examples("sts-positives", DataLocations(raw_data))) == 1543
