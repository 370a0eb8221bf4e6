"""Memory of this process, or of the GPU it uses: what is taken now, and the most that was ever taken."""

from __future__ import annotations

from pathlib import Path

from benchmarks.job import Clock
from benchmarks.machine import on_gpu


def memory_now() -> int:
    """Bytes taken now."""
    if on_gpu():
        import torch

        return torch.cuda.memory_allocated()
    return _status("VmRSS")


def memory_peak() -> int:
    """The most bytes taken since `reset_peak`."""
    if on_gpu():
        import torch

        return torch.cuda.max_memory_allocated()
    return _status("VmHWM")


def reset_peak() -> None:
    """Begin anew from what is taken now; where the kernel does not let us, the peak of the imports stays in."""
    if on_gpu():
        import torch

        torch.cuda.reset_peak_memory_stats()
        return
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


class MemoryClock(Clock):
    """Reads the peak at the end of every step, so that what follows training, such as saving, does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0

    def tick(self) -> None:
        """A step has ended."""
        super().tick()
        self.peak = memory_peak()


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")
