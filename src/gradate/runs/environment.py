"""The environment: versions, device and precision, for bug reports and run folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from gradate.engine.precision import resolve_precision

PACKAGES = (
    "gradate",
    "torch",
    "sentence-transformers",
    "transformers",
    "datasets",
    "accelerate",
    "peft",
    "numpy",
    "scipy",
    "scikit-learn",
)


def environment() -> dict[str, Any]:
    """Versions, device with its name, threads, and the precision `auto` chooses with the reason."""
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    precision = resolve_precision("auto", device)
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        # The metadata of a wheel may leave out which build of torch it is.
        "packages": {name: _version(name) for name in PACKAGES} | {"torch": str(torch.__version__)},
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "precision": precision.name,
        "precision_reason": precision.reason,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
