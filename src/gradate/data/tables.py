"""Files of rows: csv, tsv, jsonl and parquet as columns of cells, with what is wrong in a row kept beside them."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradate.errors import InputError

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")
_TEXT_FORMATS = FORMATS[:3]
_CHARACTERS_SHOWN = 40
_JSON_REMEDY = "write one JSON object per line"
_OTHER_KINDS = {
    b"\x1f\x8b": "is gzip-compressed: add .gz to its name",
    b"PK\x03\x04": "is a zip archive or a spreadsheet: export it as .csv in UTF-8",
    b"PAR1": "is parquet: name it .parquet",
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
}
_WRONG_SEPARATOR = {
    (",", "\t"): (
        "holds tabs and is not comma separated",
        "name it .tsv if no cell is quoted, or save it with commas",
    ),
    (",", ";"): ("holds semicolons and is not comma separated", "save it with commas"),
    (",", "|"): ("holds bars and is not comma separated", "save it with commas"),
    ("\t", ","): ("holds commas and is not tab separated", "name it .csv"),
}
# Bytes that are not UTF-8 are decoded to this range, so that only the rows that hold them are refused.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Problem:
    """What is wrong with one row.

    Args:
        row: Row in the file; the header of a csv or tsv is row 1.
        kind: A short word for counting, for instance `columns`, `encoding`, `empty` or `grade`.
        detail: What is wrong, with the value.
        remedy: What to do about it.
    """

    row: int
    kind: str
    detail: str
    remedy: str = "fix or remove the row"

    def to_json(self) -> dict[str, Any]:
        """The form of `gradate check --json`."""
        return {"row": self.row, "kind": self.kind, "detail": self.detail}


@dataclass(frozen=True)
class Table:
    """A file as columns.

    Args:
        path: The file.
        header: Column names, in file order, without surrounding blanks.
        rows: Row number of each record: the line where it starts, or its position in a parquet file, from 1.
        column: Cells of the column at a position, one per record.
        problems: Rows that could not be read; they are no records.
        blank: Number of blank lines, which are skipped.
    """

    path: Path
    header: tuple[str, ...]
    rows: list[int]
    column: Callable[[int], list[Any]]
    problems: list[Problem]
    blank: int = 0


def file_format(path: Path) -> str:
    """The format a file name stands for: one of `FORMATS`.

    Raises:
        InputError: another suffix.
    """
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
        known: Sequence[str] = _TEXT_FORMATS
    else:
        known = FORMATS
    if suffixes and suffixes[-1] in known:
        return suffixes[-1]
    raise InputError(
        f"cannot tell the format from the name {path.name!r}",
        where=path,
        remedy="name it .csv (commas, quoting), .tsv (tabs, no quoting), .jsonl or .parquet; the first three also .gz",
    )


def file_stem(path: Path) -> str:
    """File name without its format.

    >>> file_stem(Path("data/pairs.v2.csv.gz"))
    'pairs.v2'
    """
    return Path(path.name.removesuffix(".gz")).stem


def read_table(path: Path) -> Table:
    """Read a file of rows.

    Raises:
        InputError: the file is missing, empty, of another format than its name says, or its header cannot be read.
    """
    form = file_format(path)
    if form == ".parquet":
        return _read_parquet(path)
    text = read_text(path)
    if form == ".jsonl":
        return _read_jsonl(path, text)
    return _read_delimited(path, text, "," if form == ".csv" else "\t")


def read_text(path: Path) -> str:
    """Text of a UTF-8 file, gzipped or not, without a byte order mark; bytes that are not UTF-8 become surrogates.

    Raises:
        InputError: the file is missing, empty, a folder, or binary.
    """
    data = _read_bytes(path)
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"is not a whole gzip file: {error}", where=path, remedy="fetch it again") from None
    for magic, advice in _OTHER_KINDS.items():
        if data.startswith(magic):
            raise InputError(f"the file {advice}", where=path)
    text = data.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    if not text.strip():
        raise InputError("the file is empty", where=path, remedy="at least one row was expected")
    return text


def show(value: object) -> str:
    """A cell for a message: quoted, escaped and cut."""
    text = repr(value)
    return text if len(text) <= _CHARACTERS_SHOWN else f"{text[: _CHARACTERS_SHOWN - 3]}…{text[-1]}"


def text_problem(value: object, name: str) -> tuple[str, str, str] | None:
    """Kind, detail and remedy of what is wrong with a cell that should be a text; None where it is one.

    >>> text_problem("  ", "text2")
    ('empty', 'text2 is empty', 'fill it in or remove the row')
    """
    if value is None:
        return "empty", f"{name} is missing", "fill it in or remove the row"
    if not isinstance(value, str):
        return "text", f"{name} is {show(value)}, not a text", "quote it or remove the row"
    if not value or value.isspace():
        return "empty", f"{name} is empty", "fill it in or remove the row"
    if "\0" in value:
        return "nul", f"{name} holds a NUL byte at character {value.index(chr(0)) + 1}", "remove it"
    if not value.isascii() and (bad := _SURROGATE.search(value)):
        code = ord(bad.group())
        byte = f"the byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "half of a surrogate pair"
        return "encoding", f"{name} is not UTF-8: {byte} at character {bad.start() + 1}", "save the file as UTF-8"
    return None


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise InputError("is a folder, a file of pairs was expected", where=path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", where=path, remedy=_near_name(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from None


def _near_name(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    close = difflib.get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f"did you mean {path.parent / close[0]}?" if close else f"a {', '.join(FORMATS)} file of pairs was expected"


def _read_delimited(path: Path, text: str, delimiter: str) -> Table:
    records = _csv_records(text) if delimiter == "," else _tsv_records(path, text)
    header: tuple[str, ...] | None = None
    rows: list[int] = []
    cells: list[list[str]] = []
    problems: list[Problem] = []
    blank = 0
    for row, record in records:
        if not record:
            blank += 1
        elif header is None:
            if isinstance(record, Problem):
                raise InputError(f"the header cannot be read: {record.detail}", where=f"{path}:{row}")
            header = _check_header(path, row, record, delimiter)
        elif isinstance(record, Problem):
            problems.append(record)
        elif len(record) != len(header):
            problems.append(_width_problem(row, record, len(header), delimiter))
        else:
            rows.append(row)
            cells.append(record)
    return Table(path, header or (), rows, lambda i: [record[i] for record in cells], problems, blank)


def _csv_records(text: str) -> Iterator[tuple[int, list[str] | Problem]]:
    # The limit is one per process; it is only ever raised, so that a long text is read and other readers keep working.
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    # Without a line feed the carriage returns end the lines; else a bare one inside a cell is refused by the parser.
    reader = csv.reader(io.StringIO(text, newline="\n" if "\n" in text else ""), strict=True)
    while True:
        row = reader.line_num + 1
        try:
            record: list[str] | Problem = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            record = _csv_problem(row, reader.line_num, str(error))
        yield row, record


def _csv_problem(row: int, last: int, error: str) -> Problem:
    if "NUL" in error:  # what Python 3.10 says; later versions hand the byte over
        return Problem(row, "nul", "the row holds a NUL byte", "remove it")
    if error.startswith("unexpected end"):
        detail = "a quote opened in this row is never closed, and the rest of the file was taken for its cell"
    else:
        detail = f"the quoting is broken{f' from here to line {last}' if last > row else ''}: {error}"
    return Problem(row, "quoting", detail, 'write a quote inside a quoted cell as ""')


def _tsv_records(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    if "\n" not in text and "\r" in text.rstrip("\r"):
        raise InputError("lines end in a bare carriage return", where=path, remedy="save it with line feeds")
    for row, line in enumerate(split_lines(text), start=1):
        yield row, line.split("\t") if line else []


def split_lines(text: str) -> list[str]:
    """Lines of a text, split at line feeds only; a carriage return before one and a final line feed are dropped."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _check_header(path: Path, row: int, record: list[str], delimiter: str) -> tuple[str, ...]:
    header = tuple(name.strip() for name in record)
    where = f"{path}:{row}"
    for position, name in enumerate(header, start=1):
        problem = text_problem(name, f"the name of column {position}")
        if problem is not None and problem[0] != "empty":
            raise InputError(problem[1], where=where, remedy=problem[2])
    joined = delimiter.join(record)
    for (right, wrong), (what, remedy) in _WRONG_SEPARATOR.items():
        # A tab is never part of a column name; the others may be, so they only count where nothing was separated.
        tabs = wrong == "\t" and joined.count(wrong) >= len(record)
        if right == delimiter and wrong in joined and (len(record) == 1 or tabs):
            raise InputError(f"the header {what}: {show(joined)}", where=where, remedy=remedy)
    return header


def _width_problem(row: int, record: list[str], width: int, delimiter: str) -> Problem:
    detail = (
        f"{len(record)} column{'' if len(record) == 1 else 's'}, {width} expected, in {show(delimiter.join(record))}"
    )
    if len(record) < width:
        return Problem(row, "columns", detail, "add the missing cells or remove the row")
    more = "put cells with a comma in double quotes" if delimiter == "," else "remove the tabs inside cells"
    return Problem(row, "columns", detail, more)


def _read_jsonl(path: Path, text: str) -> Table:
    rows: list[int] = []
    records: list[dict[str, Any]] = []
    problems: list[Problem] = []
    header: dict[str, None] = {}
    blank = 0
    for row, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            blank += 1
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(row, "json", f"no JSON: {error}, in {show(line)}", _JSON_REMEDY))
            continue
        if not isinstance(record, dict):
            problems.append(Problem(row, "json", f"no JSON object: {show(line)}", _JSON_REMEDY))
            continue
        rows.append(row)
        records.append(record)
        header.update(dict.fromkeys(record))
    if not records:
        detail = f"; row {problems[0].row}: {problems[0].detail}" if problems else ""
        raise InputError(f"no line holds a JSON object{detail}", where=path)
    names = tuple(header)
    return Table(
        path,
        tuple(name.strip() for name in names),
        rows,
        lambda i: [record.get(names[i]) for record in records],
        problems,
        blank,
    )


def _unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) != len(items):
        names = [name for name, _ in items]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} appears twice")
    return record


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # slow to import, and the other formats do without it
    import pyarrow.parquet as pq

    data = _read_bytes(path)
    try:
        table = pq.ParquetFile(io.BytesIO(data)).read()
        names = tuple(str(name) for name in table.column_names)
        classes = _class_names(table.schema.metadata or {})
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is no parquet file: {error}", where=path) from None

    def column(index: int) -> list[Any]:
        try:
            values: list[Any] = table.column(index).to_pylist()
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"column {names[index]!r} cannot be read: {error}", where=path) from None
        labels = classes.get(names[index])
        if labels is None:
            return values
        return [labels[v] if isinstance(v, int) and 0 <= v < len(labels) else None for v in values]

    return Table(path, tuple(n.strip() for n in names), list(range(1, table.num_rows + 1)), column, [])


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Names behind the integer ids of `datasets` class labels: the ids are no order, so they are never used."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return {
            name: [str(n) for n in feature["names"]]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, TypeError, ValueError):
        return {}
