"""Synthetic graded pairs whose grade is the number of shared letters: learnable by a tiny encoder, made in memory."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from gradate.data.examples import Pairs
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


def graded_pairs(n: int = 60, *, seed: int = 0, scale: LabelScale = SCALE) -> Pairs:
    """Pairs of three-letter texts on four grades, no text twice."""
    rng = np.random.default_rng(seed)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    first, second, grades, seen = [], [], [], set()
    while len(first) < n:
        shared = int(rng.integers(0, 4))
        a = list(rng.choice(letters, 3, replace=False))
        rest = [letter for letter in letters if letter not in a]
        b = a[:shared] + list(rng.choice(rest, 3 - shared, replace=False))
        texts = " ".join(a), " ".join(rng.permutation(b))
        if texts[0] in seen or texts[1] in seen or texts[0] == texts[1]:
            continue
        seen.update(texts)
        first.append(texts[0])
        second.append(texts[1])
        grades.append(scale.values[shared] if scale.values is not None else float(shared))
    rows = np.arange(2, n + 2)
    return Pairs(first, second, np.array(grades, dtype=np.float64), scale, rows=rows, name="letters")


def write_csv(path: Path, pairs: Pairs) -> Path:
    """Write pairs as a csv with the columns text1, text2, grade."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text1", "text2", "grade"])
        writer.writerows(zip(pairs.text1, pairs.text2, [f"{g:g}" for g in pairs.grades], strict=True))
    return path
