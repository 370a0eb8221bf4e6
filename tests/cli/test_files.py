from __future__ import annotations

import csv
import json

import pyarrow.parquet
import pytest

from gradate.cli.files import check_out, write_table
from gradate.errors import InputError

COLUMNS = {
    "text1": ['a "quoted", text', "b"],
    "text2": ["ä→", "c"],
    "prediction": [0.1 + 0.2, 3.0],
    "grade": ["x", None],
}
AWKWARD = {"text1": ["a\tb", "c"], "text2": ["d", "e\nf"]}


def test_csv_round_trip(tmp_path):
    write_table(tmp_path / "out.csv", COLUMNS | {"text2": ["two\nlines", "c"]})
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(COLUMNS)
    assert rows[0] == ['a "quoted", text', "two\nlines", "0.30000000000000004", "x"]
    assert rows[1][3] == ""


def test_tsv_is_written_without_quoting(tmp_path):
    write_table(tmp_path / "out.tsv", COLUMNS)
    lines = (tmp_path / "out.tsv").read_text(encoding="utf-8").split("\n")
    assert lines[1] == 'a "quoted", text\tä→\t0.30000000000000004\tx'


@pytest.mark.parametrize("column", ["text1", "text2"])
def test_tsv_refuses_what_it_cannot_hold_and_leaves_nothing(column, tmp_path):
    columns = {"text1": ["a", "b"], "text2": ["c", "d"]} | {column: AWKWARD[column]}
    with pytest.raises(InputError, match=r"tab or a line break.*\.csv"):
        write_table(tmp_path / "out.tsv", columns)
    assert list(tmp_path.iterdir()) == []


def test_jsonl_and_parquet_round_trip(tmp_path):
    write_table(tmp_path / "out.jsonl", COLUMNS)
    write_table(tmp_path / "out.parquet", COLUMNS)
    expected = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected


def test_a_failed_write_keeps_the_former_file(tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("former", encoding="utf-8")
    with pytest.raises(ValueError, match="JSON"):
        write_table(out, {"prediction": [1.0, float("nan")]})
    assert out.read_text(encoding="utf-8") == "former"
    assert list(tmp_path.iterdir()) == [out]


def test_missing_folders_are_made_and_the_file_is_readable_by_others(tmp_path):
    out = tmp_path / "new" / "out.csv"
    write_table(out, COLUMNS)
    (tmp_path / "plain").touch()
    assert out.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("name", ["out.xlsx", "out"])
def test_an_unknown_suffix_is_refused(name, tmp_path):
    with pytest.raises(InputError, match=r"\.csv or \.tsv or \.jsonl or \.parquet"):
        check_out(tmp_path / name, overwrite=False)


def test_a_file_with_something_in_it_is_refused_without_overwrite(tmp_path):
    out = tmp_path / "out.csv"
    out.touch()
    check_out(out, overwrite=False)
    out.write_text("something", encoding="utf-8")
    with pytest.raises(InputError, match="--overwrite"):
        check_out(out, overwrite=False)
    check_out(out, overwrite=True)


def test_a_folder_is_no_file_to_write(tmp_path):
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(InputError, match="is a folder"):
        check_out(folder, overwrite=True)
