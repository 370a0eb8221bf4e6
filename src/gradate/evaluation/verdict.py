"""The verdict on a claim: it holds, it fails, or the evidence does not decide."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gradate.evaluation.systems import Difference

Word: TypeAlias = Literal["holds", "fails", "undecided"]


def judge(difference: Difference, *, margin: float = 0.0) -> tuple[Word, str]:
    """Whether a difference lies above −margin, and what decides.

    A claim holds, or fails, only if the interval over pairs and that over seeds agree, and that over clusters of pairs
    where it is known. So a difference that drowns in the spread over seeds is undecided, and so is one seed alone.

    Args:
        difference: What the claim calls the better system, less the other.
        margin: What "no worse" allows, 0 for "better".

    Returns:
        The verdict, and in words what it rests on.
    """
    if difference.pairs.value is None:
        return "undecided", "a correlation is undefined"
    if difference.seeds is None:
        return "undecided", "one seed says nothing about the spread over seeds"
    spans = {"pairs": (difference.pairs.low, difference.pairs.high)}
    if difference.clusters is not None:
        spans["clusters"] = (difference.clusters.low, difference.clusters.high)
    spans["seeds"] = (difference.seeds.low, difference.seeds.high)
    above = [name for name, (low, _) in spans.items() if low is not None and low > -margin]
    below = [name for name, (_, high) in spans.items() if high is not None and high < -margin]
    if len(above) == len(spans):
        return "holds", "all intervals lie above"
    if len(below) == len(spans):
        return "fails", "all intervals lie below"
    across = [name for name in spans if name not in above and name not in below]
    return "undecided", f"the interval over {' and '.join(across or list(spans))} reaches both ways"
