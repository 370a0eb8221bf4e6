"""Retrieval sets: read as BEIR reads them, and refused with file and row where they are broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradate.data.locations import DataLocations
from gradate.data.retrieval import PUBLISHED, load_retrieval, read_retrieval
from gradate.errors import InputError
from tests.beir import write_beir
from tests.conftest import unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "letters")


def test_title_and_text_are_joined_and_everything_is_counted(folder: Path) -> None:
    found = read_retrieval(folder)
    assert (found.name, found.split, len(found)) == ("letters", "test", 3)
    assert list(found.corpus.values()) == ["a b c", "A  b C", "d", "", "e f g", "x y z", "x y"]
    assert list(found.queries) == ["q1", "q2", "q3"]
    assert found.relevant == {"q1": {"d1": 2, "d3": 1}, "q2": {"d5": 1}, "q3": {"d6": 1}}
    assert found.duplicates == (("d1", "d2"),)
    assert found.notes == (
        "4 of 4 queries are judged in test",
        "judgements that say not relevant: 1",
        "judged queries without a relevant document, left out: 1",
        "empty documents, which stay in the corpus: 1",
        "documents that repeat the text of another: 1",
    )
    train = read_retrieval(folder, "train")
    assert list(train.queries) == ["q1", "q2"] and train.notes[0] == "2 of 4 queries are judged in train"
    assert found.fingerprint() == read_retrieval(folder, name="other").fingerprint() != train.fingerprint()


def test_a_judgement_that_stands_twice_counts_once(folder: Path) -> None:
    _append("qrels/test.tsv", "q2\td5\t1")(folder)
    assert "repeated judgements, left out: 1" in read_retrieval(folder).notes


def _append(file: str, line: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / file).open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")

    return change


def _write(file: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text(text, encoding="utf-8") and None


def _remove(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("corpus.jsonl"), r"corpus.jsonl: no such file \(a retrieval set is a folder that holds corpus.jsonl"),
        (_remove("queries.jsonl"), "queries.jsonl: no such file"),
        (_remove("qrels/test.tsv"), r"test.tsv: no such file \(the splits there are train\)"),
        (_write("corpus.jsonl", ""), "corpus.jsonl: the file is empty"),
        (_write("corpus.jsonl", '{"id": "d1", "text": "a"}\n'), "corpus.jsonl: no column '_id' among id, text"),
        (_append("corpus.jsonl", "{"), "corpus.jsonl:8: no JSON"),
        (_append("corpus.jsonl", '{"_id": "d1", "text": "z"}'), "corpus.jsonl:8: the id 'd1' stands twice"),
        (_append("corpus.jsonl", '{"_id": 9, "text": "z"}'), "corpus.jsonl:8: _id is 9, not a text"),
        (_append("corpus.jsonl", '{"_id": "d9", "text": 9}'), "corpus.jsonl:8: text is 9, not a text"),
        (_append("queries.jsonl", '{"_id": "q1", "text": "z"}'), "queries.jsonl:5: the id 'q1' stands twice"),
        (_append("queries.jsonl", '{"_id": "q9", "text": " "}'), "queries.jsonl:5: text is empty"),
        (_append("qrels/test.tsv", "q1\td9\t1\nq9\td1\t1"), "tsv:7: the document 'd9' is not in .*; 1 more rows"),
        (_append("qrels/test.tsv", "q9\td1\t1"), "test.tsv:7: the query 'q9' is not in queries.jsonl"),
        (_append("qrels/test.tsv", "q1\td1"), "test.tsv:7: 2 columns, 3 expected"),
        (_append("qrels/test.tsv", "q1\td5\t-1"), "test.tsv:7: the score '-1' is no grade from 0 up"),
        (_append("qrels/test.tsv", "q1\td1\t1"), "test.tsv:7: query 'q1' and document 'd1' have another grade"),
        (_write("qrels/test.tsv", "query-id\tcorpus-id\tscore\n"), "test.tsv: there is a header but no row"),
        (_write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t0\n"), "no query has a relevant document"),
        (_write("qrels/test.tsv", "query\tcorpus-id\tscore\nq1\td1\t1\n"), "no column 'query-id' among query"),
    ],
)
def test_what_is_broken_is_named(folder: Path, change: Callable[[Path], None], message: str) -> None:
    change(folder)
    with pytest.raises(InputError, match=message) as caught:
        read_retrieval(folder)
    assert str(folder) in str(caught.value)


def test_sets_are_found_by_name_and_other_counts_are_warned_about(folder: Path) -> None:
    locations = DataLocations.resolve([f"scifact={folder}", f"beir/letters={folder}"], {})
    assert load_retrieval("letters", locations).name == "letters"
    with pytest.warns(UserWarning, match="7 documents, 3 queries, 4 judgements; the published set has 5,183"):
        assert load_retrieval("scifact", locations).name == "scifact"
    with pytest.raises(InputError, match=r"set called 'cranfield' was given \(given are scifact, letters"):
        load_retrieval("cranfield", locations)
    with pytest.raises(InputError, match="pass its folder: --data beir/cranfield=FOLDER"):
        load_retrieval("cranfield", DataLocations())


def test_the_published_sets(shared_data: Path, tmp_path: Path) -> None:
    folder = unpack(shared_data / "beir.tar.xz", tmp_path) / "beir"
    locations = DataLocations.resolve([str(folder)], {})
    for name, split in PUBLISHED:
        found = load_retrieval(name, locations, split)
        assert (len(found.corpus), len(found)) == PUBLISHED[name, split][:2]
    with pytest.raises(InputError, match="the splits there are test"):
        load_retrieval("cranfield", locations, "train")
