"""Reading single texts: lines of a `.txt`, or one column of a table."""

from __future__ import annotations

from pathlib import Path

from gradate.data.tables import read_table, read_text, split_lines, text_problem
from gradate.errors import InputError

COLUMNS = ("text", "sentence", "question", "title")
"""Column names that need no `--column`, first match."""


def read_texts(path: Path, column: str | None = None) -> list[str]:
    """Texts of a file, one per line or record, in file order; an empty line of a `.txt` is an empty text.

    Args:
        path: `.txt` (UTF-8, one text per line), `.csv`, `.tsv`, `.jsonl` or `.parquet`.
        column: Column of a table; None: its only one, or the first named text, sentence, question or title.

    Raises:
        InputError: no such file or column, or a cell that is no text.
    """
    if path.suffix.lower() == ".txt":
        if column is not None:
            raise InputError("a .txt has no columns", where=path, remedy="leave --column out")
        lines = split_lines(read_text(path))
        for row, line in enumerate(lines, 1):
            problem = text_problem(line, "the line")
            if problem is not None and problem[0] != "empty":
                raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
        return lines
    table = read_table(path)
    if table.problems:
        problem_row = table.problems[0]
        raise InputError(problem_row.detail, where=f"{path}:{problem_row.row}", remedy=problem_row.remedy)
    cells = table.column(_position(path, table.header, column))
    for row, cell in zip(table.rows, cells, strict=True):
        problem = text_problem(cell, "the text")
        if problem is not None:
            raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
    return cells


def _position(path: Path, header: tuple[str, ...], column: str | None) -> int:
    if column is not None:
        if column not in header:
            raise InputError(f"no column {column!r}", where=path, remedy=f"the columns are {', '.join(header)}")
        return header.index(column)
    if len(header) == 1:
        return 0
    found = next((header.index(name) for name in COLUMNS if name in header), None)
    if found is None:
        remedy = f"name it with --column: {', '.join(header)}"
        raise InputError("which column holds the texts?", where=path, remedy=remedy)
    return found
