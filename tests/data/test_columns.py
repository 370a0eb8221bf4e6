from __future__ import annotations

from pathlib import Path

import pytest

from gradate.data.columns import GRADE_COLUMNS, TEXT_COLUMNS, Columns, resolve_columns
from gradate.errors import InputError

PATH = Path("pairs.csv")


def _names(header: str, wanted: str | None = None, **options: bool) -> dict[str, str | None]:
    return resolve_columns(header.split(","), wanted, path=PATH, **options).names


@pytest.mark.parametrize(("left", "right"), TEXT_COLUMNS)
@pytest.mark.parametrize("grade", GRADE_COLUMNS)
def test_usual_names_are_found(left: str, right: str, grade: str) -> None:
    found = _names(f"id,{right},{grade},{left}")
    assert (found["text1"], found["text2"], found["grade"], found["weight"]) == (left, right, grade, None)


def test_first_match_wins_and_the_rest_is_unused() -> None:
    columns = resolve_columns(["premise", "text1", "hypothesis", "label", "text2", "score", "", "weight"], path=PATH)
    assert columns.names == {"text1": "text1", "text2": "text2", "grade": "score", "weight": "weight"}
    assert columns.unused == ("premise", "hypothesis", "label", "column 7")


def test_case_and_blanks_may_differ() -> None:
    assert _names("Sentence 1,SENTENCE2,Relatedness_Score")["text1"] == "Sentence 1"
    assert _names("A,My Grade,b", "a,B,mygrade")["grade"] == "My Grade"


def test_the_exact_name_beats_one_that_only_reads_alike() -> None:
    assert resolve_columns(["Text1", "text1", "text2", "grade"], path=PATH).text1 == 1


@pytest.mark.parametrize("header", ["Text1,TEXT1,text2,grade", "text1,text2,text2,grade", "text1,text2,Score,SCORE"])
def test_ambiguous_names_are_refused(header: str) -> None:
    with pytest.raises(InputError, match=r"pairs.csv: columns \d and \d both read as"):
        _names(header)


def test_duplicates_nothing_reads_are_no_concern() -> None:
    assert _names("note,text1,text2,grade,note")["grade"] == "grade"


def test_wanted_columns_beat_the_usual_ones() -> None:
    found = _names("text1,text2,grade,q,d,y", "q,d,y")
    assert list(found.values()) == ["q", "d", "y", None]
    assert _names("text1,text2,grade,q,d", "q,d")["grade"] == "grade"
    assert _names('"q, long",d,y'.replace("q, long", "q"), '"d",y', grade_required=False)["text1"] == "d"


def test_a_wanted_name_with_a_comma_can_be_quoted() -> None:
    assert resolve_columns(["a, b", "c", "y"], '"a, b",c,y', path=PATH).text1 == 0
    assert resolve_columns(["a, b", "c", "y"], ["a, b", "c", "y"], path=PATH).text1 == 0


def test_a_missing_wanted_column_says_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"no column 'sentense1' among sentence1, .*did you mean 'sentence1'\?"):
        _names("sentence1,sentence2,score", "sentense1,sentence2,score")


@pytest.mark.parametrize("wanted", ["a", "a,b,c,d", "a,,c", ""])
def test_two_or_three_columns_are_wanted(wanted: str) -> None:
    with pytest.raises(InputError, match="--columns: two or three column names"):
        _names("a,b,c,d", wanted)


def test_a_column_is_wanted_once() -> None:
    with pytest.raises(InputError, match="'a' is named twice"):
        _names("a,b,c", "a,b,a")


def test_missing_texts_and_grades_say_what_there_is() -> None:
    with pytest.raises(InputError, match=r"no two text columns among text1, grade; there is 'text1' but no 'text2'"):
        _names("text1,grade")
    with pytest.raises(InputError, match=r"no grade column among text1, text2, rating \(name it one of grade, score"):
        _names("text1,text2,rating")
    assert _names("text1,text2,rating", grade_required=False)["grade"] is None


def test_a_long_header_is_listed_in_part() -> None:
    with pytest.raises(InputError, match="c19 and 30 more"):
        _names(",".join(f"c{i}" for i in range(50)))


def test_a_column_has_one_role() -> None:
    assert resolve_columns(["score", "b", "weight"], "score,weight", path=PATH, grade_required=False) == Columns(
        ("score", "b", "weight"), 0, 2
    )
