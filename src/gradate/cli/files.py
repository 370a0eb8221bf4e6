"""Files and folders that verbs write: whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradate.errors import InputError

Columns = Mapping[str, Sequence[Any]]


def check_out(path: Path, *, overwrite: bool) -> None:
    """Refuse a file to write before any work is done for it.

    Raises:
        InputError: a suffix that is not written, a folder, or a file that is not empty without `overwrite`.
    """
    if path.suffix not in _WRITERS:
        what = f"cannot write {path.suffix or 'a file without a suffix'}"
        raise InputError(what, where=path, remedy=f"name it {' or '.join(_WRITERS)}")
    if path.is_dir():
        raise InputError("is a folder", where=path, remedy="name a file")
    if not overwrite and path.is_file() and path.stat().st_size > 0:
        raise InputError("exists and is not empty", where=path, remedy="name another file or pass --overwrite")


def check_folder(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder to write before any work is done for it.

    Raises:
        InputError: something is in it, without `overwrite`.
    """
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InputError("is not empty", where=path, remedy="name another folder, or pass --overwrite")


def write_table(path: Path, columns: Columns) -> None:
    """Write columns of equal length in the format of the suffix; the file appears when it is complete.

    Args:
        path: `.csv` (RFC 4180), `.tsv` (no quoting), `.jsonl` or `.parquet`.
        columns: Name → values; a missing value is None.

    Raises:
        InputError: a text that a `.tsv` cannot hold.
    """
    with _complete_or_absent(path) as temporary:
        _WRITERS[path.suffix](temporary, columns)


@contextmanager
def _complete_or_absent(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's own mode is for its owner alone
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*columns.values(), strict=True)


def _write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(columns)
        writer.writerows(_rows(columns))


def _write_tsv(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(columns) + "\n")
        for number, row in enumerate(_rows(columns), start=1):
            cells = ["" if cell is None else str(cell) for cell in row]
            if any(mark in cell for cell in cells for mark in "\t\n\r"):
                raise InputError(
                    f"the texts of pair {number} hold a tab or a line break, which a .tsv cannot hold",
                    where="--out",
                    remedy="write .csv, .jsonl or .parquet",
                )
            file.write("\t".join(cells) + "\n")


def _write_jsonl(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in _rows(columns):
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False) + "\n")


def _write_parquet(path: Path, columns: Columns) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({name: list(values) for name, values in columns.items()}), path)


_WRITERS: dict[str, Callable[[Path, Columns], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
