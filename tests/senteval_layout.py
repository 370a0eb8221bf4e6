"""A made-up folder in SentEval's layout with the official numbers of rows and all quirks of the official files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gradate.data.sts_files import SICK_PAIRS, STS_YEARS, STSB_PAIRS

# Training and dev pairs that are written as copies of test pairs, every other one swapped.
LEAKED = {"stsb-train": 40, "stsb-dev": 30, "sick-train": 20, "sick-trial": 10}
BLANK_SCORES = 25


def write_layout(folder: Path, *, spelled: bool = False) -> Path:
    """Write the folder, 24,000 short lines; the texts are numbered and say where they stand.

    Args:
        folder: Where to.
        spelled: Whether numbers are in letters, for encoders that know no digits.
    """
    number = _spelled if spelled else str
    for year, subsets in STS_YEARS.items():
        for subset, n in subsets.items():
            _write_sts(folder / "STS" / f"{year}-en-test", year, subset, n, number)
    for part, n in STSB_PAIRS.items():
        lines = [_stsb_line(part, i, *_pair("stsb", part, i, number)) for i in range(n)]
        _write(folder / "STS" / "STSBenchmark" / f"sts-{part}.csv", lines)
    for part, n in SICK_PAIRS.items():
        header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        lines = [
            "\t".join((str(i), *_pair("sick", part, i, number), f"{1 + i % 41 / 10:.1f}", "NEUTRAL")) for i in range(n)
        ]
        file, end = f"SICK_{part}{'_annotated' if part == 'test' else ''}.txt", "\r\n" if part == "test" else "\n"
        _write(folder / "SICK" / file, [header, *lines], end)
    return folder


def _write_sts(folder: Path, year: str, subset: str, n: int, number: Callable[[int], str]) -> None:
    blank = BLANK_SCORES if year in ("STS15", "STS16") else 0
    extra = "\tsource one\tsource two" if year == "STS16" else ""
    lines = [f"{year} {subset} first {number(i)}\t{year} {subset} second {number(i)}{extra}" for i in range(n + blank)]
    # Unscored lines stand between scored ones, not only at the end.
    scores = ["" if i % 2 and i < 2 * blank else f"{i % 51 / 10:.2f}" for i in range(n + blank)]
    _write(folder / f"STS.input.{subset}.txt", lines)
    _write(folder / f"STS.gs.{subset}.txt", scores)


def _pair(corpus: str, part: str, i: int, number: Callable[[int], str]) -> tuple[str, str]:
    leaked = i < LEAKED.get(f"{corpus}-{part}", 0)
    a, b = (
        f"STS13 FNWN {side} {number(i)}" if leaked else f'"{corpus} {part} {side} {number(i)}'
        for side in ("first", "second")
    )
    return (b, a) if leaked and i % 2 else (a, b)


def _spelled(i: int) -> str:
    return str(i).translate(str.maketrans("0123456789", "abcdefghij"))


def _stsb_line(part: str, i: int, a: str, b: str) -> str:
    licence = ("a licence", "a link") if i % 50 == 0 else ()
    return "\t".join(("genre", "file", "2012test", f"{i:04d}", f"{i % 51 / 10:.3f}", a, b, *licence))


def _write(path: Path, lines: list[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())
