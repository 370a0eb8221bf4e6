"""The official files of STS12-16, STS-B and SICK, in original or tokenised form, with their official counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gradate.data.tables import read_text, show, split_lines, text_problem
from gradate.errors import InputError

# Scored pairs of each subset, in SentEval's order. STS13 is without SMT, whose text is not free.
STS_YEARS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
        "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
        "STS14": {
            "deft-forum": 450,
            "deft-news": 300,
            "headlines": 750,
            "images": 750,
            "OnWN": 750,
            "tweet-news": 750,
        },
        "STS15": {
            "answers-forums": 375,
            "answers-students": 750,
            "belief": 375,
            "headlines": 750,
            "images": 750,
        },
        "STS16": {
            "answer-answer": 254,
            "headlines": 249,
            "plagiarism": 230,
            "postediting": 244,
            "question-question": 209,
        },
    }
)
STSB_PAIRS: Mapping[str, int] = MappingProxyType({"train": 5749, "dev": 1500, "test": 1379})
SICK_PAIRS: Mapping[str, int] = MappingProxyType({"train": 4500, "trial": 500, "test": 4927})
_SICK_FILES = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_STSB_COLUMNS = ("genre", "file", "year", "id", "score", "sentence1", "sentence2")


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs of one official file.

    Args:
        text1: First sentences.
        text2: Second sentences.
        gold: Gold scores, shape (n,): 0 to 5, SICK 1 to 5.
        rows: Line of each pair in its file, shape (n,).
        skipped: Lines left out because their score is blank.
    """

    text1: list[str]
    text2: list[str]
    gold: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    skipped: int = 0


def read_sts_subset(folder: Path, year: str, subset: str) -> ScoredPairs:
    """Read one subset of a year: sentences and scores in two files; a blank score means unscored.

    Args:
        folder: Folder in SentEval's layout.
        year: `STS12` to `STS16`.
        subset: Subset of that year, see `STS_YEARS`.

    Raises:
        InputError: a file is missing or broken, or the number of scored pairs is not the official one.
    """
    expected = STS_YEARS[year][subset]
    base = folder / "STS" / f"{year}-en-test"
    path, gold_path = base / f"STS.input.{subset}.txt", base / f"STS.gs.{subset}.txt"
    what = f"{year} {subset} with {expected:,} scored pairs"
    lines, scores = _lines(path, what), _lines(gold_path, f"the gold scores of {what}")
    if len(lines) != len(scores):
        found = f"{len(lines):,} pairs, but {len(scores):,} scores in {gold_path}"
        raise InputError(found, where=path, remedy=f"expected {what}")
    records = []
    for row, (line, score) in enumerate(zip(lines, scores, strict=True), start=1):
        cells = line.split("\t")
        if not score.strip():
            continue
        if len(cells) < 2:
            raise InputError(f"{len(cells)} column in {show(line)}", where=f"{path}:{row}", remedy="two were expected")
        records.append((row, cells[0], cells[1], _score(score, 0, 5, f"{gold_path}:{row}")))
    return _collect(records, path, expected, scores=gold_path, skipped=len(lines) - len(records))


def read_stsb(folder: Path, part: str) -> ScoredPairs:
    """Read `train`, `dev` or `test` of STS-B: tabs despite `.csv`, no header, no quoting, at times licence columns.

    Raises:
        InputError: the file is missing or broken, or the number of pairs is not the official one.
    """
    expected = STSB_PAIRS[part]
    path = folder / "STS" / "STSBenchmark" / f"sts-{part}.csv"
    records = []
    for row, line in enumerate(_lines(path, f"STS-B {part} with {expected:,} pairs"), start=1):
        cells = line.split("\t")
        if len(cells) < len(_STSB_COLUMNS):
            remedy = f"expected {', '.join(_STSB_COLUMNS)}"
            raise InputError(f"{len(cells)} columns in {show(line)}", where=f"{path}:{row}", remedy=remedy)
        records.append((row, cells[5], cells[6], _score(cells[4], 0, 5, f"{path}:{row}")))
    return _collect(records, path, expected)


def read_sick(folder: Path, part: str) -> ScoredPairs:
    """Read `train`, `trial` or `test` of SICK: tab separated with a header, line ends of either kind.

    Raises:
        InputError: the file is missing or broken, or the number of pairs is not the official one.
    """
    expected = SICK_PAIRS[part]
    path = folder / "SICK" / _SICK_FILES[part]
    lines = _lines(path, f"SICK {part} with {expected:,} pairs")
    header = lines[0].split("\t")
    names = ("sentence_A", "sentence_B", "relatedness_score")
    if not set(names) <= set(header):
        raise InputError(f"the header is {show(lines[0])}", where=f"{path}:1", remedy=f"expected {', '.join(names)}")
    a, b, grade = (header.index(name) for name in names)
    records = []
    for row, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) < len(header):
            raise InputError(
                f"{len(cells)} columns in {show(line)}", where=f"{path}:{row}", remedy=f"{len(header)} were expected"
            )
        records.append((row, cells[a], cells[b], _score(cells[grade], 1, 5, f"{path}:{row}")))
    return _collect(records, path, expected)


def _lines(path: Path, expected: str) -> list[str]:
    if not path.is_file():
        raise InputError("no such file", where=path, remedy=f"expected {expected}")
    return split_lines(read_text(path))


def _score(cell: str, low: float, high: float, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InputError(f"the score {show(cell)} is no number from {low:g} to {high:g}", where=where)
    return value


def _collect(
    records: Sequence[tuple[int, str, str, float]],
    path: Path,
    expected: int,
    *,
    scores: Path | None = None,
    skipped: int = 0,
) -> ScoredPairs:
    if len(records) != expected:
        what = f"{len(records):,} scored pairs, the official file has {expected:,}"
        raise InputError(what, where=scores or path, remedy="fetch it again")
    rows, text1, text2, gold = [], [], [], []
    for row, a, b, score in records:
        for text in (a, b):
            problem = text_problem(text, "a sentence")
            if problem is not None:
                raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
        rows.append(row)
        text1.append(a)
        text2.append(b)
        gold.append(score)
    return ScoredPairs(text1, text2, np.array(gold), np.array(rows, dtype=np.int64), skipped)
