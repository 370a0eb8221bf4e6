"""Table 4: the peak memory of a training step, as the benchmark of that name has measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradate.runs.folder import read_json
from gradate.runs.reproduction.spec import Claim, Step

FILE = Path("performance") / "memory.json"
COMMAND = "python -m benchmarks memory"
GIB = 2**30


@dataclass(frozen=True)
class Peak:
    """Peak memory of a step.

    Args:
        gib: In GiB.
        predicted: Whether it is read off the line through smaller steps, because it would not have fit.
    """

    gib: float
    predicted: bool

    def __str__(self) -> str:
        return f"{self.gib:.2f} GiB{' (predicted from smaller steps)' if self.predicted else ''}"


def read_peaks(results: Path) -> dict[Step, Peak]:
    """Peak memory of every step that was measured or predicted."""
    found: Mapping[str, Any] = read_json(results / FILE) or {"measurements": []}
    return {
        Step(m["contender"], m["length"], m["batch"]): Peak(m["peak_bytes"] / GIB, m["predicted"])
        for m in found["measurements"]
        if m["part"] == "steps"
    }


def judge_memory(claim: Claim, peaks: Mapping[str, Peak]) -> dict[str, Any]:
    """Whether a step of one row takes less memory than one of another, by row name."""
    own, other = peaks[claim.of], peaks[claim.than]
    reason = f"{own} against {other}: {own.gib / other.gib:.3f} of it"
    return {"verdict": "holds" if own.gib < other.gib else "fails", "reason": reason}
