from __future__ import annotations

from pathlib import Path

import pytest

from gradate.data.texts import read_texts
from gradate.errors import InputError


def test_lines_and_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n\r\nthrée, four\n".encode())
    assert read_texts(tmp_path / "a.txt") == ["one", "", "thrée, four"]
    (tmp_path / "b.csv").write_text('id,text,other\n1,"a, b",x\n2,c,y\n', encoding="utf-8")
    assert read_texts(tmp_path / "b.csv") == ["a, b", "c"]
    assert read_texts(tmp_path / "b.csv", "other") == ["x", "y"]
    (tmp_path / "c.tsv").write_text("anything\nx\ny\n", encoding="utf-8")
    assert read_texts(tmp_path / "c.tsv") == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.csv", b"x,y\n1,2\n", None, r"which column holds the texts\? \(name it with --column: x, y\)"),
        ("a.csv", b"x,y\n1,2\n", "z", r"no column 'z' \(the columns are x, y\)"),
        ("a.csv", b'text\n""\n', None, r"a\.csv:2: the text is empty"),
        ("a.csv", b"text,b\nx\n", None, r"a\.csv:2: "),
        ("a.txt", b"fine\nb\xffd\n", None, r"a\.txt:2: the line is not UTF-8"),
        ("a.pdf", b"%PDF", None, "cannot tell the format|the file "),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, name: str, content: bytes, column: str | None, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_texts(tmp_path / name, column)
