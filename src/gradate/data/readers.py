"""Files of graded pairs: columns found, rows checked, grades put on a scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.data.columns import Columns, resolve_columns
from gradate.data.examples import Pairs
from gradate.data.tables import Problem, Table, file_stem, read_table, show, text_problem
from gradate.errors import InputError
from gradate.scale import LabelScale

_NAMES_SHOWN = 12
_NAME_LENGTH = 100


@dataclass(frozen=True)
class RawTable:
    """The rows of a file whose two texts can be used; grades and weights as they stand there.

    Args:
        path: The file.
        columns: Which columns are read.
        rows: Row number of each pair.
        text1: First texts.
        text2: Second texts.
        grades: Grade cells, None where the file has no grade column.
        weights: Weight cells, None where the file has no weight column.
        problems: The rows left out of the columns above, and why.
        notes: Columns used and unused, blank lines skipped, rows of other parts left out.
    """

    path: Path
    columns: Columns
    rows: list[int]
    text1: list[str]
    text2: list[str]
    grades: list[Any] | None
    weights: list[Any] | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def total(self) -> int:
        """Number of rows with content, the unusable ones included."""
        return len(self.rows) + len({problem.row for problem in self.problems})


@dataclass(frozen=True)
class Graded:
    """Grades of a table on a scale.

    Args:
        values: Grade values, shape (n,), NaN where the cell is no grade.
        weights: Weights, shape (n,), NaN where the cell is none; None without a weight column.
        scale: The scale, given or inferred.
        problems: The cells that are no grade or no weight.
        notes: How the scale was inferred, which grades are absent.
    """

    values: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64] | None
    scale: LabelScale
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def read_pairs(
    path: str | Path,
    *,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    strict: bool = True,
) -> Pairs:
    """Read graded pairs from a csv, tsv, jsonl or parquet file.

    Args:
        path: The file; its suffix says the format (`.csv` RFC 4180, `.tsv` without quoting, `.jsonl`, `.parquet`, the
            first three also `.gz`).
        scale: The scale of the grades; None infers it from numbers and refuses names.
        columns: Names of the text columns, or of the text and grade columns, where they are not the usual ones.
        strict: Refuse the file at its first bad row; False leaves bad rows out and counts them in the notes.

    Raises:
        InputError: the file or a row cannot be used; names file, row, value and remedy.
    """
    table = read_rows(path, columns)
    return pairs_from_table(table, scale=scale, strict=strict)


def pairs_from_table(
    table: RawTable, *, scale: LabelScale | None = None, strict: bool = True, name: str | None = None
) -> Pairs:
    """Pairs of a table that was read already; see `read_pairs`."""
    if strict:
        _refuse(table.path, table.problems)
    _require_rows(table)
    graded = grade_table(table, scale)
    problems = sorted((*table.problems, *graded.problems), key=lambda problem: problem.row)
    if strict:
        _refuse(table.path, problems)
    good = ~np.isnan(graded.values)
    if graded.weights is not None:
        good &= ~np.isnan(graded.weights)
    pairs = Pairs(
        table.text1,
        table.text2,
        np.where(good, graded.values, graded.scale.low),
        graded.scale,
        weights=graded.weights,
        rows=np.asarray(table.rows, dtype=np.int64),
        name=name or file_stem(table.path),
        notes=(*table.notes, *graded.notes, *_dropped(problems)),
    ).select(good)
    if not len(pairs):
        raise InputError(f"none of the {table.total} rows can be used", where=table.path)
    if pairs.weights is not None and not pairs.weights.any():
        raise InputError("all weights are 0: nothing would be learned", where=table.path)
    return pairs


def read_text_pairs(
    path: str | Path, columns: str | Sequence[str] | None = None
) -> tuple[list[str], list[str], npt.NDArray[np.int64]]:
    """Read the two texts of each row, and the row numbers, from a file that needs no grades.

    Raises:
        InputError: the file or a row cannot be used.
    """
    table = read_rows(path, columns, grade_required=False)
    _refuse(table.path, table.problems)
    _require_rows(table)
    return table.text1, table.text2, np.asarray(table.rows, dtype=np.int64)


def read_rows(
    path: str | Path,
    columns: str | Sequence[str] | None = None,
    *,
    grade_required: bool = True,
    only: Mapping[str, str] | None = None,
) -> RawTable:
    """Read the rows of a file of pairs, with a list of the rows that cannot be used.

    Args:
        path: The file.
        columns: Names of the text columns, or of the text and grade columns.
        grade_required: Refuse a file without a grade column.
        only: Column names and the one value that a row must have there; ignored where the file has no such column.

    Raises:
        InputError: the file itself cannot be used: missing, empty, another format, no such columns.
    """
    path = Path(path)
    table = read_table(path)
    chosen = resolve_columns(table.header, columns, path=path, grade_required=grade_required)
    kept, filtered = _filter(table, only or {})
    text1, text2 = table.column(chosen.text1), table.column(chosen.text2)
    name1, name2 = chosen.header[chosen.text1], chosen.header[chosen.text2]
    problems = list(table.problems)
    usable: list[int] = []
    for i in kept:
        problem = text_problem(text1[i], name1) or text_problem(text2[i], name2)
        if problem is None:
            usable.append(i)
        else:
            problems.append(Problem(table.rows[i], *problem))
    grades = None if chosen.grade is None else table.column(chosen.grade)
    weights = None if chosen.weight is None else table.column(chosen.weight)
    return RawTable(
        path,
        chosen,
        rows=[table.rows[i] for i in usable],
        text1=[text1[i] for i in usable],
        text2=[text2[i] for i in usable],
        grades=None if grades is None else [grades[i] for i in usable],
        weights=None if weights is None else [weights[i] for i in usable],
        problems=tuple(sorted(problems, key=lambda problem: problem.row)),
        notes=(*_column_notes(chosen), *_counted(table.blank, "blank line", "skipped"), *filtered),
    )


def grade_table(table: RawTable, scale: LabelScale | None = None) -> Graded:
    """Put the grades of a table on a scale.

    Raises:
        InputError: no scale is given and the grades are names, or are all equal.
    """
    cells = table.grades or []
    notes: list[str] = []
    if scale is None:
        scale, note = _infer(table, cells)
        notes.append(note)
    problems: list[Problem] = []
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        try:
            values[i] = _grade(cell, scale)
        except InputError as error:
            problems.append(Problem(table.rows[i], "grade", error.what, error.remedy or "fix or remove the row"))
    weights = None
    if table.weights is not None:
        weights = np.full(len(cells), np.nan)
        for i, cell in enumerate(table.weights):
            number = _number(cell)
            if number is not None and math.isfinite(number) and number >= 0:
                weights[i] = number
            else:
                what = f"the weight {show(cell)} is no number, 0 or more"
                problems.append(Problem(table.rows[i], "weight", what))
    problems.sort(key=lambda problem: problem.row)
    notes += _distribution_notes(values[~np.isnan(values)], scale)
    return Graded(values, weights, scale, tuple(problems), tuple(notes))


def grade_label(scale: LabelScale, index: int) -> str:
    """Name of the class at a position of a scale, or its value written shortly.

    >>> grade_label(LabelScale.from_values([0, 0.5, 1]), 1)
    '0.5'
    """
    if scale.names is not None:
        return scale.names[index]
    return f"{(scale.values or ())[index]:g}"


def _filter(table: Table, only: Mapping[str, str]) -> tuple[range | list[int], tuple[str, ...]]:
    kept: range | list[int] = range(len(table.rows))
    notes: list[str] = []
    for name, value in only.items():
        if name in table.header:
            cells = table.column(table.header.index(name))
            before = len(kept)
            kept = [i for i in kept if cells[i] == value]
            notes += _counted(before - len(kept), "row", f"left out: {name} is not {value}")
    return kept, tuple(notes)


def _infer(table: RawTable, cells: Sequence[Any]) -> tuple[LabelScale, str]:
    numbers = [number for cell in cells if (number := _number(cell)) is not None]
    names = Counter(_name(cell) for cell in cells if not _is_missing(cell) and _number(cell) is None)
    column = table.columns.names["grade"]
    if names.total() > len(numbers):
        listed = list(names)
        more = f" and {len(listed) - _NAMES_SHOWN} more" if len(listed) > _NAMES_SHOWN else ""
        shown = f"{', '.join(listed[:_NAMES_SHOWN])}{more}"
        raise InputError(
            f"the grades in column {column!r} are names ({shown}), their order is unknown",
            where=table.path,
            remedy="is this the grade column? else pass --columns A,B,GRADE"
            if more
            else f"pass them low to high: --scale {','.join(listed)} in the right order",
        )
    try:
        scale, reason = LabelScale.infer(number for number in numbers if math.isfinite(number))
    except InputError as error:
        raise InputError(error.what, where=table.path, remedy=error.remedy) from None
    return scale, f"scale {scale} inferred: {reason}; pass --scale to say otherwise"


def _grade(cell: Any, scale: LabelScale) -> float:
    if _is_missing(cell):
        raise InputError("the grade is missing", remedy="fill it in or remove the row")
    if isinstance(cell, bool):
        cell = _name(cell)
    if isinstance(cell, str) and (problem := text_problem(cell, "the grade")) is not None:
        raise InputError(problem[1], remedy=problem[2])
    number = _number(cell)
    if number is None and (scale.names is None or not isinstance(cell, str) or len(cell) > _NAME_LENGTH):
        what = "is no number" if scale.names is None else "is no name"
        raise InputError(f"the grade {show(cell)} {what}", remedy=f"the scale is {scale}: fix or remove the row")
    return scale.encode(cell if number is None or isinstance(cell, str) else number)


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return None


def _name(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell.strip() if isinstance(cell, str) and len(cell) <= _NAME_LENGTH else show(cell)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _column_notes(chosen: Columns) -> tuple[str, ...]:
    used = ", ".join(f"{role} = {name!r}" for role, name in chosen.names.items() if name is not None)
    unused = (f"unused columns: {', '.join(chosen.unused)}",) if chosen.unused else ()
    return (f"columns: {used}", *unused)


def _distribution_notes(values: npt.NDArray[np.float64], scale: LabelScale) -> list[str]:
    notes = []
    if scale.values is not None and len(values):
        present = set(scale.index(values).tolist())
        absent = [grade_label(scale, i) for i in range(len(scale.values)) if i not in present]
        if absent:
            notes.append(f"no pair has the grade {', '.join(absent)}")
    if len(values) and np.ptp(values) == 0:
        notes.append(f"all {len(values)} grades are {values[0]:g}: nothing to order, correlations are undefined")
    return notes


def _counted(count: int, noun: str, rest: str) -> tuple[str, ...]:
    return (f"{count:,} {noun}{'' if count == 1 else 's'} {rest}",) if count else ()


def _dropped(problems: Sequence[Problem]) -> tuple[str, ...]:
    kinds = Counter(problem.kind for problem in problems)
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return _counted(len({problem.row for problem in problems}), "row", f"left out ({listed})")


def _refuse(path: Path, problems: Sequence[Problem]) -> None:
    if problems:
        first = problems[0]
        more = f"; {len(problems) - 1:,} more in this file, `gradate check` lists them" if len(problems) > 1 else ""
        raise InputError(f"{first.detail}{more}", where=f"{path}:{first.row}", remedy=first.remedy)


def _require_rows(table: RawTable) -> None:
    if not table.rows:
        what = f"none of the {table.total} rows can be used" if table.total else "there is a header but no pair"
        raise InputError(what, where=table.path)
