from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradate.data.readers import read_pairs, read_rows, read_text_pairs
from gradate.errors import InputError
from gradate.scale import LabelScale

NAMES = LabelScale.from_names(["low", "mid", "high"])
FIVE = LabelScale.continuous(0, 5)
Records = list[tuple[str, ...]]
Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def _rows(path: Path) -> list[int]:
    rows = read_pairs(path).rows
    assert rows is not None
    return [int(row) for row in rows]


# Formats


def test_csv_with_quotes_commas_and_line_breaks(write: Write) -> None:
    path = write("p.csv", 'text1,text2,grade\n"a, ""b""\nc",d,0\n\ne,"f\r\ng",1\nh,i,2\n')
    pairs = read_pairs(path)
    assert pairs.text1 == ['a, "b"\nc', "e", "h"] and pairs.text2 == ["d", "f\r\ng", "i"]
    assert _rows(path) == [2, 5, 7]
    assert pairs.name == "p" and any("1 blank line skipped" in note for note in pairs.notes)


def test_bom_and_crlf(write: Write) -> None:
    for name, content in (
        ("p.csv", "text1,text2,grade\r\na,b,0\r\nc,d,1\r\n"),
        ("p.tsv", "text1\ttext2\tgrade\r\na\tb\t0\r\nc\td\t1\r\n"),
        ("p.jsonl", '{"text1":"a","text2":"b","grade":0}\r\n{"text1":"c","text2":"d","grade":1}\r\n'),
    ):
        pairs = read_pairs(write(name, b"\xef\xbb\xbf" + content.encode()))
        assert (pairs.text1, pairs.text2, pairs.grades.tolist()) == (["a", "c"], ["b", "d"], [0, 1])


def test_bare_carriage_returns_end_csv_lines_and_are_refused_in_tsv(write: Write) -> None:
    assert read_pairs(write("p.csv", "text1,text2,grade\ra,b,0\rc,d,1\r")).text2 == ["b", "d"]
    with pytest.raises(InputError, match="bare carriage return"):
        read_pairs(write("p.tsv", "text1\ttext2\tgrade\ra\tb\t0\r"))
    with pytest.raises(InputError, match=r"p\.csv:3: the quoting is broken"):
        read_pairs(write("p.csv", "text1,text2,grade\na,b,0\nc\rc,d,1\n"))


def test_tsv_has_no_quoting_and_splits_at_line_feeds_only(write: Write) -> None:
    path = write("p.tsv", 'text1\ttext2\tgrade\n"a\tb" c\t0\nd\u2028e\tf\x0cg\x85h\t1\n')
    pairs = read_pairs(path)
    assert pairs.text1 == ['"a', "d\u2028e"] and pairs.text2 == ['b" c', "f\x0cg\x85h"] and _rows(path) == [2, 3]


def test_jsonl_takes_numbers_as_text_and_keeps_line_separators(write: Write) -> None:
    path = write("p.jsonl", '{"text1":"a\u2028b","text2":"c","score":"3.5"}\n\n{"score":2,"text2":"d","text1":"e"}')
    pairs = read_pairs(path, scale=FIVE)
    assert pairs.text1 == ["a\u2028b", "e"] and pairs.grades.tolist() == [3.5, 2.0] and _rows(path) == [1, 3]


def test_parquet_and_its_class_labels(tmp_path: Path) -> None:
    table = pa.table({"text1": ["a", "b"], "text2": ["c", "d"], "label": [0, 2], "vector": [[1.0], [2.0]]})
    path = tmp_path / "p.parquet"
    pq.write_table(table, path)
    assert read_pairs(path).grades.tolist() == [0, 2] and _rows(path) == [1, 2]
    features = {"info": {"features": {"label": {"names": ["high", "mid", "low"], "_type": "ClassLabel"}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), path)
    assert read_pairs(path, scale=NAMES).grades.tolist() == [2, 0]
    with pytest.raises(InputError, match="--scale high,low"):
        read_pairs(path)


@pytest.mark.parametrize("name", ["p.csv.gz", "p.tsv.gz", "P.CSV.GZ"])
def test_gzip(write: Write, name: str) -> None:
    content = "text1,text2,grade\na,b,0\nc,d,1\n"
    path = write(name, gzip.compress((content.replace(",", "\t") if "tsv" in name else content).encode()))
    assert read_pairs(path).text1 == ["a", "c"] and read_pairs(path).name in ("p", "P.CSV")


def test_one_megabyte_in_one_cell(write: Write) -> None:
    long = "word " * 210_000
    for name, line in (
        ("p.csv", f'text1,text2,grade\n"{long}",b,0\nc,d,1\n'),
        ("p.tsv", f"text1\ttext2\tgrade\n{long}\tb\t0\nc\td\t1\n"),
        ("p.jsonl", json.dumps({"text1": long, "text2": "b", "grade": 0}) + '\n{"text1":"c","text2":"d","grade":1}\n'),
    ):
        assert read_pairs(write(name, line)).text1 == [long, "c"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["0", "1.5", "5"])), min_size=1, max_size=6))
def test_any_text_survives_csv_and_its_row_is_its_line(
    tmp_path_factory: pytest.TempPathFactory, records: Records
) -> None:
    path = tmp_path_factory.mktemp("csv") / "p.csv"
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    rows = []
    for record in [("text1", "text2", "grade"), *records]:
        rows.append(buffer.getvalue().count("\n") + 1)
        writer.writerow(record)
    path.write_bytes(buffer.getvalue().encode())
    pairs = read_pairs(path, scale=FIVE)
    assert list(zip(pairs.text1, pairs.text2, strict=True)) == [record[:2] for record in records]
    assert pairs.rows is not None and pairs.rows.tolist() == rows[1:]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_any_text_survives_tsv_and_jsonl(tmp_path_factory: pytest.TempPathFactory, records: Records, end: str) -> None:
    folder = tmp_path_factory.mktemp("lines")
    lines = [json.dumps({"text1": a, "text2": b}, ensure_ascii=False) for a, b in records]
    (folder / "p.jsonl").write_bytes(end.join(lines).encode())
    text1, text2, rows = read_text_pairs(folder / "p.jsonl")
    assert list(zip(text1, text2, strict=True)) == records and rows.tolist() == list(range(1, len(records) + 1))
    plain = [tuple(text.translate(str.maketrans("\t\n\r", "tnr")) for text in record) for record in records]
    (folder / "p.tsv").write_bytes(end.join(["text1\ttext2", *("\t".join(record) for record in plain)]).encode())
    text1, text2, rows = read_text_pairs(folder / "p.tsv")
    assert list(zip(text1, text2, strict=True)) == plain and rows.tolist() == list(range(2, len(records) + 2))


# Bad files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", b"", "the file is empty"),
        ("p.csv", b"\xef\xbb\xbf \n", "the file is empty"),
        ("p.csv", b"text1,text2,grade\n", "there is a header but no pair"),
        ("p.jsonl", b"[1]\n", "no line holds a JSON object; row 1"),
        ("p.parquet", b"text1,text2\n", "is no parquet file"),
        ("p.csv.gz", b"text1,text2\n", "is not a whole gzip file"),
        ("p.csv", gzip.compress(b"text1,text2,grade\n", mtime=0), r"is gzip-compressed: add \.gz"),
        ("p.csv", b"PK\x03\x04rest", "spreadsheet: export it as .csv"),
        ("p.csv", "text1,text2,grade\na,b,0\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        ("p.csv", b"text1,te\xe9xt2,grade\na,b,0\n", r"p\.csv:1: the name of column 2 is not UTF-8: the byte 0xe9"),
        ("p.csv", b'text1,"text2,grade\na,b,0\n', r"p\.csv:1: the header cannot be read: a quote"),
        ("p.csv", b"text1\ttext2\tgrade\na\tb\t0\n", r"p\.csv:1: the header holds tabs .*name it \.tsv"),
        ("p.csv", b"main\tx\t1\t0\t3.0\tone, two, three\tfour, five\n", "holds tabs and is not comma separated"),
        ("p.csv", b"text1;text2;grade\na;b;0\n", "holds semicolons .*save it with commas"),
        ("p.tsv", b"text1,text2,grade\na,b,0\n", r"holds commas and is not tab separated.*name it \.csv"),
        ("p.csv", b"q,d,y\na,b,0\n", "no two text columns among q, d, y"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(write: Write, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pairs(write(name, content))


@pytest.mark.parametrize("name", ["p.txt", "p", "p.json", "p.parquet.gz", "p.xlsx"])
def test_unknown_formats_say_the_known_ones(write: Write, name: str) -> None:
    with pytest.raises(InputError, match=r"cannot tell the format .*\.csv .*\.tsv .*\.jsonl or \.parquet"):
        read_pairs(write(name, "text1,text2,grade\n"))


def test_missing_files_and_folders(write: Write, tmp_path: Path) -> None:
    write("pairs.csv", "text1,text2,grade\n")
    with pytest.raises(InputError, match=r"pair\.csv: no such file \(did you mean .*pairs\.csv\?\)"):
        read_pairs(tmp_path / "pair.csv")
    with pytest.raises(InputError, match=r"the folder .*nowhere does not exist either"):
        read_pairs(tmp_path / "nowhere" / "p.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_pairs(tmp_path / "d.csv")


# Bad rows: refused with file, row, value and remedy; listed by read_rows


GOOD = "a,b,0\nc,d,1\n"


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        (b"x,0\n", "columns", "2 columns, 3 expected, in 'x,0' (add the missing cells"),
        (b"x,y,z,0\n", "columns", "4 columns, 3 expected, in 'x,y,z,0' (put cells with a comma in double quotes"),
        (b",y,0\n", "empty", "text1 is empty (fill it in"),
        (b"x, \t,0\n", "empty", "text2 is empty"),
        (b"caf\xe9,y,0\n", "encoding", "text1 is not UTF-8: the byte 0xe9 at character 4 (save the file as UTF-8)"),
        (b"x,y\0y,0\n", "nul", "holds a NUL byte"),
        (b'"x"x,y,0\n', "quoting", "the quoting is broken"),
        (b'x,"y,0\n', "quoting", "a quote opened in this row is never closed"),
    ],
)
def test_bad_csv_rows(write: Write, line: bytes, kind: str, message: str) -> None:
    path = write("p.csv", b"text1,text2,grade\n" + GOOD.encode() + line)
    with pytest.raises(InputError) as caught:
        read_pairs(path)
    assert f"{path}:4: " in str(caught.value) and message in str(caught.value)
    table = read_rows(path)
    assert [(p.row, p.kind) for p in table.problems] == [(4, kind)] and table.total == 3 and table.text1 == ["a", "c"]


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ('{"text1":"x","text2":"y"', "json", "no JSON: "),
        ("[1, 2]", "json", "no JSON object: '[1, 2]'"),
        ('{"text1":"x","text1":"z","text2":"y","grade":0}', "json", "the key 'text1' appears twice"),
        ("[" * 100_000, "json", "no JSON"),
        ('{"text1":"x","grade":0}', "empty", "text2 is missing"),
        ('{"text1":null,"text2":"y","grade":0}', "empty", "text1 is missing"),
        ('{"text1":7,"text2":"y","grade":0}', "text", "text1 is 7, not a text (quote it"),
        ('{"text1":"\\ud800","text2":"y","grade":0}', "encoding", "half of a surrogate pair"),
    ],
)
def test_bad_jsonl_lines(write: Write, line: str, kind: str, message: str) -> None:
    good = '{"text1":"a","text2":"b","grade":0}\n'
    path = write("p.jsonl", good + line + "\n" + good.replace("0", "1"))
    with pytest.raises(InputError) as caught:
        read_pairs(path)
    assert f"{path}:2: " in str(caught.value) and message in str(caught.value)
    table = read_rows(path)
    assert [(p.row, p.kind) for p in table.problems] == [(2, kind)] and len(table.text1) == 2


def test_parquet_with_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"text1": ["a", None, "c"], "text2": ["x", "y", "z"], "score": [0.0, 1.0, None]}), path)
    with pytest.raises(InputError, match=r"p\.parquet:2: text1 is missing"):
        read_pairs(path, scale=FIVE)
    assert len(read_pairs(path, scale=FIVE, strict=False)) == 1


@pytest.mark.parametrize(
    ("grade", "message"),
    [
        ("", "the grade is missing"),
        ("high", "the grade 'high' is no number; 1 more in this file, `gradate check` lists them (the scale is 0..5"),
        ("1,5", "the grade '1,5' is no number"),
        ("7", "grade 7 is off the scale 0..5"),
        ("-0.1", "grade -0.1 is off the scale"),
        ("nan", "not a finite number"),
        ("inf", "not a finite number"),
        ("1" + "0" * 400, "not a finite number"),
        ("x" * 3000, "is no number"),
    ],
)
def test_bad_grades(write: Write, grade: str, message: str) -> None:
    path = write("p.csv", f'text1,text2,grade\n{GOOD}x,y,"{grade}"\nz,z,bad\n')
    with pytest.raises(InputError) as caught:
        read_pairs(path, scale=FIVE)
    assert f"{path}:4: " in str(caught.value) and message in str(caught.value)
    assert "; 1 more in this file" in str(caught.value) and "\n" not in str(caught.value)


def test_grades_of_other_types(write: Write) -> None:
    grades = ("0", "true", "[1]", "1e400", "9" * 400)
    lines = ['{"text1":"a","text2":"b","grade":GRADE}'.replace("GRADE", grade) for grade in grades]
    table = read_rows(write("p.jsonl", "\n".join(lines)))
    assert table.grades is not None and len(table.grades) == 5
    with pytest.raises(InputError, match=r"p\.jsonl:2: the grade 'true' is no number; 3 more"):
        read_pairs(table.path, scale=FIVE)


def test_names_are_read_whatever_their_case(write: Write) -> None:
    path = write("p.csv", "text1,text2,grade\na,b,low\nc,d, High \ne,f,1\n")
    assert read_pairs(path, scale=NAMES).grades.tolist() == [0, 2, 1]
    with pytest.raises(InputError, match=r"p\.csv:2: grade 'hihg' is not on the scale .*did you mean 'high'"):
        read_pairs(write("p.csv", "text1,text2,grade\na,b,hihg\n"), scale=NAMES)


def test_names_without_a_scale_are_refused_with_the_flag(write: Write) -> None:
    path = write("p.csv", "text1,text2,grade\na,b,good\nc,d,bad\ne,f,good\n")
    with pytest.raises(InputError, match=r"column 'grade' are names \(good, bad\).*low to high: --scale good,bad"):
        read_pairs(path)
    many = "".join(f"a{i},b,word{i}\n" for i in range(30))
    with pytest.raises(InputError, match=r"word11 and 18 more.*is this the grade column"):
        read_pairs(write("p.csv", "text1,text2,grade\n" + many))


def test_a_stray_name_among_numbers_is_a_bad_row(write: Write) -> None:
    with pytest.raises(InputError, match=r"p\.csv:4: the grade 'n/a' is no number"):
        read_pairs(write("p.csv", f"text1,text2,grade\n{GOOD}x,y,n/a\n"))


def test_numbers_without_a_scale_are_inferred_and_said(write: Write) -> None:
    pairs = read_pairs(write("p.csv", "text1,text2,grade\na,b,0\nc,d,3\n"))
    assert pairs.scale == LabelScale.from_values([0, 1, 2, 3])
    assert any("scale 0,1,2,3 inferred: all grades are whole numbers" in note for note in pairs.notes)
    assert "no pair has the grade 1, 2" in pairs.notes


def test_all_grades_equal(write: Write) -> None:
    path = write("p.csv", "text1,text2,grade\na,b,2\nc,d,2\n")
    with pytest.raises(InputError, match=r"p\.csv: all grades are 2: nothing to order"):
        read_pairs(path)
    assert any("all 2 grades are 2: nothing to order" in note for note in read_pairs(path, scale=FIVE).notes)


# Weights, columns, leniency


def test_weights(write: Write) -> None:
    path = write("p.csv", "text1,text2,grade,weight\na,b,0,0.5\nc,d,1,2\n")
    pairs = read_pairs(path)
    assert pairs.weights is not None and pairs.weights.tolist() == [0.5, 2]
    for cell in ("-1", "x", "", "nan"):
        with pytest.raises(InputError, match=r"p\.csv:3: the weight .* is no number, 0 or more"):
            read_pairs(write("p.csv", f"text1,text2,grade,weight\na,b,0,1\nc,d,1,{cell}\n"))
    with pytest.raises(InputError, match="all weights are 0"):
        read_pairs(write("p.csv", "text1,text2,grade,weight\na,b,0,0\nc,d,1,0\n"))


def test_wanted_columns_and_notes(write: Write) -> None:
    path = write("p.csv", "id,q,d,y,note\n1,a,b,0,\n2,c,d,1,x\n")
    pairs = read_pairs(path, columns="q,d,y")
    assert pairs.text1 == ["a", "c"]
    assert pairs.notes[:2] == ("columns: text1 = 'q', text2 = 'd', grade = 'y'", "unused columns: id, note")
    assert read_text_pairs(path, "q,d")[1] == ["b", "d"]
    with pytest.raises(InputError, match="no column 'z'"):
        read_pairs(path, columns=("q", "d", "z"))


def test_lenient_reading_counts_what_it_leaves_out(write: Write) -> None:
    path = write("p.csv", f"text1,text2,grade\n{GOOD}x,y\n,y,1\nx,y,9\n")
    pairs = read_pairs(path, scale=FIVE, strict=False)
    assert pairs.text1 == ["a", "c"] and pairs.notes[-1] == "3 rows left out (columns 1, empty 1, grade 1)"
    with pytest.raises(InputError, match="none of the 1 rows can be used"):
        read_pairs(write("p.csv", "text1,text2,grade\nx,y,9\n"), scale=FIVE, strict=False)


def test_text_pairs_need_no_grades_but_good_texts(write: Write) -> None:
    text1, text2, rows = read_text_pairs(write("p.csv", "text1,text2\na,b\nc,d\n"))
    assert (text1, text2, rows.tolist()) == (["a", "c"], ["b", "d"], [2, 3]) and rows.dtype == np.int64
    with pytest.raises(InputError, match=r"p\.csv:2: text2 is empty"):
        read_text_pairs(write("p.csv", "text1,text2\na,\n"))


def test_rows_of_other_parts_are_left_out_and_counted(write: Write) -> None:
    path = write("p.tsv", "split\ttext1\ttext2\tgrade\ntrain\ta\tb\t0\ndev\tc\td\t1\n")
    table = read_rows(path, only={"split": "train", "fold": "1"})
    assert table.rows == [2] and "1 row left out: split is not train" in table.notes
