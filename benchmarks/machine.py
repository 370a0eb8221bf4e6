"""The machine a measurement ran on, and the matrix products it is capable of."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SIZES = {"cpu": (1024, 2048, 4096), "cuda": (4096, 8192, 16384)}
REPEATS = 5
EXTRA_PACKAGES = ("tokenizers", "threadpoolctl", "mteb")


def describe() -> dict[str, Any]:
    """Device, cores, threads, memory, load and versions."""
    from gradate.runs.environment import environment

    found = environment()
    for package in EXTRA_PACKAGES:
        try:
            found["packages"][package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        **found,
        "memory_gib": round(_total_memory() / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def on_gpu() -> bool:
    """Whether torch sees a CUDA device, which every system then uses."""
    import torch

    return torch.cuda.is_available()


def synchronize() -> None:
    """Wait for a GPU's queue, so that the clock sees the work and not its launch."""
    if on_gpu():
        import torch

        torch.cuda.synchronize()


def peak(sizes: Sequence[int] = (), repeats: int = REPEATS) -> dict[str, float]:
    """Fastest square matrix product, in FLOP per second, by precision: best of `repeats` over all sizes."""
    import torch

    device = "cuda" if on_gpu() else "cpu"
    sizes = sizes or SIZES[device]
    found = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        best = 0.0
        for n in sizes:
            a, b = torch.randn(n, n, device=device).to(dtype), torch.randn(n, n, device=device).to(dtype)
            a @ b
            for _ in range(repeats):
                synchronize()
                start = time.perf_counter()
                a @ b
                synchronize()
                best = max(best, 2 * n**3 / (time.perf_counter() - start))
        found[name] = best
    return found


def better_peak(first: dict[str, float] | None, second: dict[str, float]) -> dict[str, float]:
    """The higher of two measurements, precision by precision."""
    return {name: max(value, (first or {}).get(name, 0.0)) for name, value in second.items()}


def available_memory() -> int:
    """Bytes that can be taken without swapping."""
    return _meminfo("MemAvailable")


def _total_memory() -> int:
    return _meminfo("MemTotal")


def _meminfo(key: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/meminfo has no {key}")
