"""What the engine was asked to reach, beside what the committed results say it reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import encode, evaluate, memory, stage1, train
from benchmarks.layout import spread, table
from benchmarks.report import best_peak
from benchmarks.summary import Spread, by_round, ratios


@dataclass(frozen=True)
class Target:
    """One figure to reach.

    Args:
        work: What is done.
        against: What it is held against.
        required: The figure asked for.
        aim: The figure to go on to; None where none was set.
        unit: ` ×` or ` %`.
        results: Stem of the file of results.
        reached: The figure in them, or None.
        at_most: Whether less is better.
    """

    work: str
    against: str
    required: float
    aim: float | None
    unit: str
    results: str
    reached: Callable[[dict[str, Any]], Spread | None]
    at_most: bool = False

    def row(self, found: Mapping[str, dict[str, Any]]) -> list[str]:
        """Cells of the table."""
        value = self.reached(found[self.results]) if self.results in found else None
        digits = 2 if self.at_most else 1 if self.unit == " ×" else 0
        met = value is not None and (value.median <= self.required if self.at_most else value.median >= self.required)
        asked = f"{'≤' if self.at_most else '≥'} {self.required:g}{self.unit}"
        aimed = "" if self.aim is None else f"{self.aim:g}{self.unit}"
        reached = spread(value, digits, self.unit)
        return [self.work, self.against, asked, aimed, reached, "–" if value is None else "yes" if met else "**no**"]


def targets(found: Mapping[str, dict[str, Any]]) -> str:
    """The table of targets as Markdown.

    Args:
        found: Contents of the files of results by their stem.
    """
    head = ["", "against", "required", "aim", "reached", "met"]
    return table(head, [target.row(found) for target in TARGETS])


def _faster(part: str, peer: str, ours: str, key: str = "rate") -> Callable[[dict[str, Any]], Spread | None]:
    return lambda found: ratios([m for m in found["measurements"] if m["part"] == part], peer, ours, key)


def _share(part: str, ours: str) -> Callable[[dict[str, Any]], Spread | None]:
    """Share of the bf16 peak, in percent."""

    def reached(found: dict[str, Any]) -> Spread | None:
        measured = by_round([m for m in found["measurements"] if m["part"] == part], ours)
        factor = 100 * found["facts"]["flop_per_sentence"] / best_peak(found)["bf16"]
        return Spread.of([factor * m["rate"] for m in measured.values()]) if measured else None

    return reached


def _memory(found: dict[str, Any]) -> Spread | None:
    def peak(contender: str, length: int, batch: int) -> float | None:
        steps = [m for m in found["measurements"] if m["part"] == "steps"]
        mine = [m for m in steps if (m["contender"], m["length"], m["batch"]) == (contender, length, batch)]
        return float(mine[-1]["peak_bytes"]) if mine else None

    own, other = peak(memory.OURS, 256, 16), peak(memory.SIMCSE_BF16, 100, 512)
    return Spread.of([own / other]) if own and other else None


TRAIN, ENCODE = "training, batch 16", "encoding"
EVALUATE, STAGE1 = "the seven-STS evaluation, cold start included", "stage 1 on NLI"
TARGETS = (
    Target(TRAIN, "sentence-transformers", 4, 6, " ×", "train", _faster("segments", train.STOCK, train.OURS)),
    Target(TRAIN, "its best settings", 2, 3, " ×", "train", _faster("segments", train.BEST, train.OURS)),
    Target(TRAIN, "the bf16 peak", 30, 45, " %", "train", _share("segments", train.OURS)),
    Target(ENCODE, "sentence-transformers", 4, 5, " ×", "encode", _faster("rounds", encode.STOCK, encode.OURS)),
    Target(ENCODE, "its best settings", 1.5, 1.8, " ×", "encode", _faster("rounds", encode.BEST, encode.OURS)),
    Target(ENCODE, "the bf16 peak", 50, 60, " %", "encode", _share("rounds", encode.OURS)),
    Target(EVALUATE, "mteb", 3, None, " ×", "evaluate", _faster("rounds", evaluate.MTEB, evaluate.OURS, "seconds")),
    Target(
        EVALUATE,
        "a SentEval-style loop",
        3,
        None,
        " ×",
        "evaluate",
        _faster("rounds", evaluate.SENTEVAL, evaluate.OURS, "seconds"),
    ),
    Target(
        f"{STAGE1}, empty cache",
        "a frozen epoch of the trainer",
        6,
        None,
        " ×",
        "stage1",
        _faster("rounds", stage1.STOCK, stage1.COLD, "seconds"),
    ),
    Target(
        f"{STAGE1}, filled cache",
        "a frozen epoch of the trainer",
        100,
        None,
        " ×",
        "stage1",
        _faster("rounds", stage1.STOCK, stage1.WARM, "seconds"),
    ),
    Target(
        "peak memory of a step, batch 16 × 256 tokens",
        "SimCSE, bf16, batch 512 × 100",
        0.25,
        None,
        " ×",
        "memory",
        _memory,
        at_most=True,
    ),
)
