"""Contenders that measure nothing, and results as a full run would leave them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

SESSION = {
    "device_name": "A CPU",
    "cores": 2,
    "threads": 2,
    "memory_gib": 24.0,
    "precision": "bf16",
    "precision_reason": "auto: the CPU has avx512_bf16",
    "packages": {"torch": "2.13.0", "sentence-transformers": "6.2.0", "transformers": "5.23.0"},
    "started": "2026-11-22T10:00:00+00:00",
    "peak": {"bf16": 8e11, "fp32": 2e11},
}
TASKS = dict.fromkeys(("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"), 80.0)


def build(seconds: float) -> Callable[[int], dict[str, Any]]:
    """A contender that says it took `seconds`, and in which process."""
    return lambda number: {"seconds": seconds, "rate": 1 / seconds, "process": os.getpid()}


def results(table: str, measurements: list[dict[str, Any]], settings: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """A file of results with one session."""
    return {
        "version": 1,
        "table": table,
        "quick": False,
        "command": f"python -m benchmarks {table} --data raw",
        "settings": settings,
        "facts": facts,
        "sessions": [SESSION],
        "measurements": [{"session": 0, **m} for m in measurements],
    }


def measured(part: str, system: str, values: list[float], key: str = "rate", **further: Any) -> list[dict[str, Any]]:
    """One measurement per value."""
    other = {"rate": "seconds", "seconds": "rate"}[key]
    return [
        {"part": part, "system": system, "round": i, key: v, other: 1000 / v, **further} for i, v in enumerate(values)
    ]
