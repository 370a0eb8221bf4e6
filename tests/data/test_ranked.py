"""Training rows of a retrieval set: what is drawn, and which documents never become negatives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gradate.data.leakage import fold
from gradate.data.ranked import RankedRows, ranked_negatives
from gradate.data.retrieval import RetrievalSet, read_retrieval
from gradate.errors import InputError
from tests.beir import write_beir

ROWS = RankedRows(["q", "r"], [["a"], ["b", "c", "d"]], [["e", "f"], ["g", "h", "i"]], shown=(2, 3), seed=1)


def test_columns_repeat_what_is_scarce_and_draw_from_what_is_not() -> None:
    columns = ROWS.columns()
    assert list(columns) == ["query", "positive_1", "positive_2", "negative_1", "negative_2", "negative_3"]
    rows = list(zip(*columns.values(), strict=True))
    assert rows[0][1:3] == ("a", "a")
    assert set(rows[0][3:]) == {"e", "f"} and max(Counter(rows[0][3:]).values()) == 2
    assert len({*rows[1][1:3]}) == 2 and {*rows[1][3:]} == {"g", "h", "i"}


def test_a_draw_depends_on_query_and_seed_alone() -> None:
    one = ROWS.select([1])
    assert [column[0] for column in one.columns().values()] == [column[1] for column in ROWS.columns().values()]
    many = RankedRows([f"q{i}" for i in range(50)], [["a", "b", "c"]] * 50, [["d"]] * 50)
    drawn = many.columns()["positive_1"]
    assert drawn == many.columns()["positive_1"] and set(drawn) == {"a", "b", "c"}
    other = RankedRows(many.query, many.positives, many.negatives, seed=1)
    assert other.columns()["positive_1"] != drawn and other.fingerprint() != many.fingerprint()


def test_length_texts_notes_and_fingerprint() -> None:
    assert len(ROWS) == 2 and ROWS.with_notes("x").notes == ("x",)
    assert ROWS.select([0]).texts()[:2] == ["q", "a"]
    assert ROWS.fingerprint() == ROWS.with_notes("x").fingerprint() != ROWS.select([1, 0]).fingerprint()
    for positives, negatives, shown, message in (
        ([["a"]], [["b"], ["c"]], (1, 1), "columns of 1, 1, 2 rows"),
        ([[]], [["b"]], (1, 1), "without positives"),
        ([["a"]], [["b"]], (1, 0), "at least one of each"),
    ):
        with pytest.raises(InputError, match=message):
            RankedRows(["q"], positives, negatives, shown)


@pytest.fixture
def letters(tmp_path: Path) -> RetrievalSet:
    return read_retrieval(write_beir(tmp_path / "letters"), "train")


def test_lexical_negatives_are_neither_positives_nor_their_doubles(letters: RetrievalSet) -> None:
    rows = ranked_negatives(letters, pool=4, shown=(1, 2))
    assert (rows.query, rows.positives, rows.name) == (["a b", "e f"], [["a b c"], ["e f g"]], "letters")
    # q1 shares no word with any: file order. Neither the double of d1 nor the empty d4 is among them.
    assert rows.negatives[0] == ["d", "e f g", "x y z", "x y"]
    assert rows.negatives[1] == ["a b c", "A  b C", "d", "x y z"]
    assert len(rows.columns()) == 4 and rows.notes == letters.notes
    with pytest.raises(InputError, match="letters: 4 documents can be negatives of query 'q1', not 5"):
        ranked_negatives(letters, pool=5)
    with pytest.raises(InputError, match="ask for at least 1"):
        ranked_negatives(letters, pool=0)


def test_the_query_itself_is_no_negative_and_a_query_of_empty_positives_is_left_out() -> None:
    corpus = {"1": "", "2": "Same  words", "3": "same words too", "4": "other"}
    found = RetrievalSet("s", "train", corpus, {"a": "same words", "b": "x"}, {"a": {"4": 1.0}, "b": {"1": 1.0}})
    rows = ranked_negatives(found, pool=1)
    assert (rows.query, rows.negatives) == (["same words"], [["same words too"]])
    assert rows.notes == ("1 queries left out because all their positives are empty texts",)


@pytest.mark.parametrize("elements", [1, 100, 100_000])
def test_ranking_by_embeddings_equals_a_slow_twin(elements: int) -> None:
    rng = np.random.default_rng(0)
    corpus = {str(i): f"text {i % 35}" for i in range(40)}
    queries = {f"q{i}": f"text {i}" for i in range(6)}
    relevant = {query: {str(d): 1.0 for d in rng.choice(40, 2, replace=False)} for query in queries}
    found = RetrievalSet("s", "train", corpus, queries, relevant)
    q, d = rng.normal(size=(6, 8)), rng.normal(size=(40, 8))
    rows = ranked_negatives(found, pool=20, embeddings=(q, d), elements=elements)
    for i, query in enumerate(queries):
        barred = {fold(corpus[document]) for document in relevant[query]} | {fold(queries[query])}
        cosines = [float(q[i] @ row / np.linalg.norm(q[i]) / np.linalg.norm(row)) for row in d]
        order = sorted(range(40), key=lambda j: -cosines[j])
        assert rows.negatives[i] == [corpus[str(j)] for j in order if fold(corpus[str(j)]) not in barred][:20]


def test_embeddings_of_another_shape_are_refused(letters: RetrievalSet) -> None:
    for shapes, message in (
        (((2, 4), (6, 4)), "give 2 and 7 rows"),
        (((2, 4), (7, 5)), "widths 4 and 5"),
        (((2,), (7, 5)), "shapes"),
    ):
        with pytest.raises(InputError, match=message):
            ranked_negatives(letters, pool=1, embeddings=(np.ones(shapes[0]), np.ones(shapes[1])))
