"""Numeric precision of a forward pass: fp32, or bfloat16 where the hardware has it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from gradate.errors import InputError

PrecisionName = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Precision:
    """A chosen precision and why it was chosen.

    Args:
        name: `fp32` or `bf16`. Weights stay in float32 either way; bf16 is autocast.
        reason: The choice in words, for printing once.
    """

    name: Literal["fp32", "bf16"]
    reason: str

    def autocast(self, device_type: str) -> AbstractContextManager[object]:
        """Context for forward passes on `cpu`, `cuda` or `mps`; does nothing for fp32.

        >>> with Precision("bf16", "asked for").autocast("cpu"):
        ...     (torch.eye(2) @ torch.eye(2)).dtype
        torch.bfloat16
        """
        if self.name == "fp32":
            return nullcontext()
        return torch.autocast(device_type, dtype=torch.bfloat16)

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def resolve_precision(name: PrecisionName | str = "auto", device: torch.device | str = "cpu") -> Precision:
    """Turn `auto` into the precision that is fast on this device, and say why.

    Args:
        name: `auto`, `fp32` or `bf16`.
        device: Where the forward passes run.

    Raises:
        InputError: another name.

    >>> resolve_precision("fp32").reason
    'asked for'
    """
    if name not in get_args(PrecisionName):
        raise InputError(f"unknown precision {name!r}", where="precision", remedy="auto, fp32 or bf16")
    if name == "fp32":
        return Precision("fp32", "asked for")
    if name == "bf16":
        return Precision("bf16", "asked for")
    device = torch.device(device)
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        if major >= 8:
            return Precision("bf16", f"auto: the GPU (compute capability {major}.{minor}) has bfloat16 units")
        return Precision("fp32", f"auto: the GPU (compute capability {major}.{minor}) has no bfloat16 units")
    if device.type == "cpu":
        unit = _cpu_bfloat16_unit()
        if unit is not None:
            return Precision("bf16", f"auto: the CPU has {unit}")
        return Precision("fp32", "auto: the CPU has neither avx512_bf16 nor amx_bf16")
    return Precision("fp32", f"auto: fp32 is the safe choice on {device.type}")


def _cpu_bfloat16_unit() -> str | None:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return next((unit for unit in ("amx_bf16", "avx512_bf16") if capabilities.get(unit)), None)
