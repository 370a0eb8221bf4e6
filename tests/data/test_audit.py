from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradate.data.audit import audit_pairs
from gradate.errors import InputError
from gradate.scale import LabelScale

SCALE = LabelScale.from_names(["low", "mid", "high", "top"])


def _write(folder: Path, *lines: str) -> Path:
    path = folder / "p.csv"
    path.write_text("\n".join(("text1,text2,grade,note", *lines)) + "\n", encoding="utf-8")
    return path


def _tokenize(texts: list[str], *, truncation: bool, padding: bool, verbose: bool) -> dict[str, list[list[str]]]:
    assert not truncation and not padding and not verbose
    return {"input_ids": [text.split() for text in texts]}


def test_a_clean_file(tmp_path: Path) -> None:
    audit = audit_pairs(_write(tmp_path, "a,b,low,", "c,d,mid,", "e,f,high,", "g,h,top,x"), scale=SCALE)
    assert not audit.blocking and audit.problems == ()
    found = audit.to_json()
    assert found == {
        "rows": 4,
        "scale": "low,mid,high,top",
        "columns": {"text1": "text1", "text2": "text2", "grade": "grade", "weight": None},
        "unused": ["note"],
        "duplicates": {"exact": 0, "swapped": 0},
        "conflicts": 0,
        "leaks": {"exact": 0, "swapped": 0, "folded": 0},
        "truncated": None,
        "empty": 0,
        "imbalance": {"counts": {"low": 1, "mid": 1, "high": 1, "top": 1}, "ratio": 1.0, "absent": []},
        "problems": [],
        "notes": ["columns: text1 = 'text1', text2 = 'text2', grade = 'grade'", "unused columns: note"],
    }
    json.dumps(found)


def test_duplicates_and_conflicts_are_counted_apart(tmp_path: Path) -> None:
    path = _write(
        tmp_path, "a,b,low,", "a,b,low,", "b,a,low,", "c,d,low,", "d,c,high,", "c,d,mid,", "e,e,top,", "e,e,top,"
    )
    audit = audit_pairs(path, scale=SCALE)
    assert audit.to_json()["duplicates"] == {"exact": 2, "swapped": 1}
    assert audit.conflicts == 1 and audit.blocking
    assert [(p.row, p.kind, p.detail) for p in audit.problems] == [
        (3, "duplicate", "repeats row 2"),
        (4, "duplicate", "repeats row 2 swapped"),
        (6, "conflict", "the same two texts have the grade high here, low in row 5"),
        (7, "conflict", "the same two texts have the grade mid here, low in row 5"),
        (9, "duplicate", "repeats row 8"),
    ]


def test_duplicates_and_long_texts_do_not_block(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,b,low,", "a,b,low,", "one two three,one two three,high,")
    audit = audit_pairs(path, scale=SCALE, tokenizer=_tokenize, max_tokens=2)
    assert audit.truncated == 2 and not audit.blocking
    assert audit.problems[-1].detail == "3 tokens, the encoder reads 2, in 'one two three'"
    assert audit_pairs(path, scale=SCALE, tokenizer=_tokenize, max_tokens=3).truncated == 0


def test_bad_rows_are_counted_not_raised(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,b,low,", "x,y", ",b,low,", "c,d,9,", "e,f,,", "g,h,mid,")
    audit = audit_pairs(path, scale=SCALE)
    assert audit.rows == 6 and audit.empty == 1 and audit.blocking
    assert [(p.row, p.kind) for p in audit.problems] == [(3, "columns"), (4, "empty"), (5, "grade"), (6, "grade")]
    assert audit.to_json()["imbalance"]["absent"] == ["high", "top"]


def test_a_file_of_bad_rows_only(tmp_path: Path) -> None:
    audit = audit_pairs(_write(tmp_path, "x,y", ",b,low,"), scale=SCALE)
    assert audit.rows == 2 and audit.imbalance is None and audit.blocking


def test_leaks_block_and_name_their_set(tmp_path: Path) -> None:
    path = _write(tmp_path, "a,b,low,", "d,c,mid,", "E  e,F,high,", "g,h,top,")
    audit = audit_pairs(path, scale=SCALE, against={"t": [("a", "b"), ("c", "d")], "u": [("f", "e e")]})
    assert audit.to_json()["leaks"] == {"exact": 1, "swapped": 1, "folded": 1} and audit.blocking
    assert [p.to_json() for p in audit.problems] == [
        {"row": 2, "kind": "leak", "detail": "stands in t (exact)"},
        {"row": 3, "kind": "leak", "detail": "stands in t (swapped)"},
        {"row": 4, "kind": "leak", "detail": "stands in u (folded)"},
    ]


def test_imbalance_of_values_and_of_a_continuous_scale(tmp_path: Path) -> None:
    path = _write(tmp_path, *(f"a{i},b,{grade}," for i, grade in enumerate([0, 0, 0, 2.5, 5])))
    values = audit_pairs(path, scale=LabelScale.from_values([0, 2.5, 5])).to_json()["imbalance"]
    assert values == {"counts": {"0": 3, "2.5": 1, "5": 1}, "ratio": 3.0, "absent": []}
    fifths = audit_pairs(path, scale=LabelScale.continuous(0, 5)).to_json()["imbalance"]
    assert fifths["counts"] == {"0..1": 3, "1..2": 0, "2..3": 1, "3..4": 0, "4..5": 1}
    assert fifths["absent"] == ["1..2", "3..4"]


def test_all_grades_equal_blocks(tmp_path: Path) -> None:
    audit = audit_pairs(_write(tmp_path, "a,b,low,", "c,d,low,"), scale=SCALE)
    assert audit.blocking and [(p.row, p.kind) for p in audit.problems] == [(2, "constant")]


def test_names_without_a_scale_and_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--scale low,mid"):
        audit_pairs(_write(tmp_path, "a,b,low,", "c,d,mid,"))
    with pytest.raises(InputError, match="a header but no pair"):
        audit_pairs(_write(tmp_path), scale=SCALE)
