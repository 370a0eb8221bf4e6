"""Data made scarcer or noisier on purpose: what studies of an objective vary."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from gradate.data.examples import Examples, Pairs

E = TypeVar("E", bound=Examples)


def draw(examples: E, n: int) -> E:
    """`n` of the examples in their order, drawn by lot, the same every time; all of them where there are not more."""
    if n >= len(examples):
        return examples
    chosen = np.sort(np.random.default_rng(0).choice(len(examples), n, replace=False))
    return examples.select(chosen).with_notes(f"{n:,} of {len(examples):,} examples, drawn by lot")


def with_noise(pairs: Pairs, share: float) -> Pairs:
    """Replace the grades of a share of the pairs, drawn by lot, the same every time.

    On a scale with classes every other grade is as likely as the next; on a continuous one every value is.

    >>> from gradate.scale import LabelScale
    >>> pairs = Pairs(["a"] * 10, ["b"] * 10, np.zeros(10), LabelScale.from_values([0, 1, 2]))
    >>> int((with_noise(pairs, 0.4).grades > 0).sum())
    4
    """
    count = round(share * len(pairs))
    if not count:
        return pairs
    generator = np.random.default_rng(1)
    chosen = generator.choice(len(pairs), count, replace=False)
    grades, scale = pairs.grades.copy(), pairs.scale
    if scale.values is None:
        grades[chosen] = generator.uniform(scale.low, scale.high, count)
    else:
        classes = np.asarray(scale.values)
        moved = scale.index(grades[chosen]) + generator.integers(1, len(classes), count)
        grades[chosen] = classes[moved % len(classes)]
    note = f"{count:,} of {len(pairs):,} grades replaced by others, drawn by lot"
    return replace(pairs, grades=grades).with_notes(note)
