"""The audit behind `gradate check`: what in a file of pairs would mislead training or its evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.data.leakage import Leaks, TextPairs, find_leaks, pair_keys
from gradate.data.readers import RawTable, grade_label, grade_table, read_rows
from gradate.data.tables import Problem, show
from gradate.errors import InputError
from gradate.scale import LabelScale

CONTINUOUS_BINS = 5
NOT_BLOCKING = ("duplicate", "truncated")
_TOKENIZER_BATCH = 1000


@dataclass(frozen=True)
class Audit:
    """What an audit found; counts are of rows unless stated.

    Args:
        rows: Rows with content, the unusable ones included.
        scale: The scale, given or inferred.
        columns: Column behind each role, None where there is none.
        unused: Columns that nothing reads.
        exact_duplicates: Rows whose two texts stood in an earlier row, same order, same grade.
        swapped_duplicates: Rows whose two texts stood in an earlier row the other way round only, same grade.
        conflicts: Distinct pairs, in either order, that carry more than one grade.
        leaks: Rows that stand in a test set.
        truncated: Texts longer than the encoder reads; None where no encoder was given.
        empty: Rows with an empty or missing text.
        counts: Rows per grade, or per fifth of a continuous scale.
        problems: Every row with something wrong, in row order.
        notes: What reading decided.
    """

    rows: int
    scale: LabelScale
    columns: Mapping[str, str | None]
    unused: tuple[str, ...]
    exact_duplicates: int
    swapped_duplicates: int
    conflicts: int
    leaks: Leaks
    truncated: int | None
    empty: int
    counts: Mapping[str, int]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def absent(self) -> tuple[str, ...]:
        """Grades that no row has."""
        return tuple(grade for grade, count in self.counts.items() if not count)

    @property
    def imbalance(self) -> float | None:
        """Rows of the most frequent grade for each row of the rarest grade present; None without rows."""
        present = [count for count in self.counts.values() if count]
        return max(present) / min(present) if present else None

    @property
    def blocking(self) -> bool:
        """Whether training would refuse the file or be misled: anything but duplicates and truncated texts."""
        return any(problem.kind not in NOT_BLOCKING for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """The output of `gradate check --json`."""
        return {
            "rows": self.rows,
            "scale": str(self.scale),
            "columns": dict(self.columns),
            "unused": list(self.unused),
            "duplicates": {"exact": self.exact_duplicates, "swapped": self.swapped_duplicates},
            "conflicts": self.conflicts,
            "leaks": {"exact": self.leaks.exact, "swapped": self.leaks.swapped, "folded": self.leaks.folded},
            "truncated": self.truncated,
            "empty": self.empty,
            "imbalance": {"counts": dict(self.counts), "ratio": self.imbalance, "absent": list(self.absent)},
            "problems": [problem.to_json() for problem in self.problems],
            "notes": list(self.notes),
        }


def audit_pairs(
    path: str | Path,
    *,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    tokenizer: Callable[..., Mapping[str, Any]] | None = None,
    max_tokens: int | None = None,
    against: Mapping[str, TextPairs] | None = None,
) -> Audit:
    """Audit a file of graded pairs; bad rows are counted and listed, never dropped in silence.

    Args:
        path: The file, as for `read_pairs`.
        scale: The scale of the grades; None infers it.
        columns: Names of the columns, as for `read_pairs`.
        tokenizer: A transformers tokenizer; with `max_tokens` it counts the texts an encoder would cut.
        max_tokens: Tokens the encoder reads of a text, special tokens included.
        against: Test sets, by name, that no row should stand in.

    Raises:
        InputError: the file itself cannot be used, or its grades are names and no scale is given.
    """
    table = read_rows(path, columns)
    if not table.total:
        raise InputError("there is a header but no pair", where=table.path)
    graded = grade_table(table, scale)
    ordered = list(zip(table.text1, table.text2, strict=True))
    leaks = find_leaks(ordered, against or {})
    duplicates = _duplicates(table, graded.values)
    conflicting, conflicts = _conflicts(table, graded.values, graded.scale)
    lengths = None if tokenizer is None or max_tokens is None else _long_texts(table, tokenizer, max_tokens)
    problems = [
        *table.problems,
        *graded.problems,
        *duplicates,
        *conflicts,
        *_constant(table, graded.values),
        *(Problem(table.rows[leak.index], "leak", f"stands in {leak.test} ({leak.kind})") for leak in leaks.found),
        *(lengths or ()),
    ]
    swapped = sum("swapped" in problem.detail for problem in duplicates)
    return Audit(
        rows=table.total,
        scale=graded.scale,
        columns=table.columns.names,
        unused=table.columns.unused,
        exact_duplicates=len(duplicates) - swapped,
        swapped_duplicates=swapped,
        conflicts=conflicting,
        leaks=leaks,
        truncated=None if lengths is None else len(lengths),
        empty=sum(problem.kind == "empty" for problem in table.problems),
        counts=_grade_counts(graded.values, graded.scale),
        problems=tuple(sorted(problems, key=lambda problem: problem.row)),
        notes=(*table.notes, *graded.notes),
    )


def _duplicates(table: RawTable, values: npt.NDArray[np.float64]) -> list[Problem]:
    problems = []
    seen: dict[tuple[str, str, float], int] = {}
    for a, b, value, row in zip(table.text1, table.text2, values.tolist(), table.rows, strict=True):
        if (a, b, value) in seen:
            problems.append(Problem(row, "duplicate", f"repeats row {seen[a, b, value]}"))
        elif (b, a, value) in seen:
            problems.append(Problem(row, "duplicate", f"repeats row {seen[b, a, value]} swapped"))
        seen.setdefault((a, b, value), row)
    return problems


def _conflicts(table: RawTable, values: npt.NDArray[np.float64], scale: LabelScale) -> tuple[int, list[Problem]]:
    """Number of distinct pairs with more than one grade, and the rows that disagree with their pair's first row."""
    first: dict[tuple[str, str], int] = {}
    disagreeing: set[tuple[str, str]] = set()
    problems = []
    for i, key in enumerate(pair_keys(list(zip(table.text1, table.text2, strict=True)))):
        if np.isnan(values[i]):
            continue
        j = first.setdefault(key, i)
        if values[j] != values[i]:
            disagreeing.add(key)
            grades = f"{_grade_text(values[i], scale)} here, {_grade_text(values[j], scale)} in row {table.rows[j]}"
            problems.append(Problem(table.rows[i], "conflict", f"the same two texts have the grade {grades}"))
    return len(disagreeing), problems


def _constant(table: RawTable, values: npt.NDArray[np.float64]) -> list[Problem]:
    graded = np.flatnonzero(~np.isnan(values))
    if len(graded) < 2 or np.ptp(values[graded]) > 0:
        return []
    detail = f"all {len(graded):,} graded rows have the same grade: nothing to order"
    return [Problem(table.rows[graded[0]], "constant", detail)]


def _long_texts(table: RawTable, tokenizer: Callable[..., Mapping[str, Any]], max_tokens: int) -> list[Problem]:
    texts = list(dict.fromkeys((*table.text1, *table.text2)))
    length: dict[str, int] = {}
    for start in range(0, len(texts), _TOKENIZER_BATCH):
        batch = texts[start : start + _TOKENIZER_BATCH]
        tokens = tokenizer(batch, truncation=False, padding=False, verbose=False)["input_ids"]
        length.update(zip(batch, map(len, tokens), strict=True))
    return [
        Problem(row, "truncated", f"{length[text]:,} tokens, the encoder reads {max_tokens:,}, in {show(text)}")
        for row, pair in zip(table.rows, zip(table.text1, table.text2, strict=True), strict=True)
        for text in pair
        if length[text] > max_tokens
    ]


def _grade_counts(values: npt.NDArray[np.float64], scale: LabelScale) -> dict[str, int]:
    values = values[~np.isnan(values)]
    if scale.values is not None:
        index = Counter(scale.index(values).tolist())
        return {grade_label(scale, i): index[i] for i in range(len(scale.values))}
    counts, edges = np.histogram(values, bins=CONTINUOUS_BINS, range=(scale.low, scale.high))
    return {f"{a:g}..{b:g}": int(n) for a, b, n in zip(edges, edges[1:], counts, strict=False)}


def _grade_text(value: float, scale: LabelScale) -> str:
    return f"{value:g}" if scale.is_continuous else grade_label(scale, int(scale.index([value])[0]))
