"""Numeric precision of a pass: fp32, tf32, or bfloat16 where the hardware has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from gradate.errors import InputError

PrecisionName = Literal["auto", "fp32", "tf32", "bf16"]


@dataclass(frozen=True)
class Precision:
    """A chosen precision and why it was chosen.

    Args:
        name: `fp32`, `tf32` (a GPU's products of float32 matrices with 10 bits of mantissa) or `bf16` (autocast).
            Weights stay in float32 in each. `int8` is only said of an exported graph, which keeps to itself.
        reason: The choice in words, for printing once.
    """

    name: Literal["fp32", "tf32", "bf16", "int8"]
    reason: str

    def autocast(self, device_type: str) -> AbstractContextManager[object]:
        """Context for forward passes on `cpu`, `cuda` or `mps`; does nothing for fp32.

        >>> with Precision("bf16", "asked for").autocast("cpu"):
        ...     (torch.eye(2) @ torch.eye(2)).dtype
        torch.bfloat16
        """
        if self.name == "tf32":
            return _tf32_products()
        if self.name in ("fp32", "int8"):
            return nullcontext()
        return torch.autocast(device_type, dtype=torch.bfloat16)

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def resolve_precision(name: PrecisionName | str = "auto", device: torch.device | str = "cpu") -> Precision:
    """Turn `auto` into the precision that is fast on this device, and say why.

    Args:
        name: `auto`, `fp32`, `tf32` or `bf16`.
        device: Where the forward passes run.

    Raises:
        InputError: another name, or `tf32` without a GPU that has it.

    >>> resolve_precision("fp32").reason
    'asked for'
    """
    if name not in get_args(PrecisionName):
        raise InputError(f"unknown precision {name!r}", where="precision", remedy="auto, fp32, tf32 or bf16")
    if name == "fp32":
        return Precision("fp32", "asked for")
    if name == "bf16":
        return Precision("bf16", "asked for")
    device = torch.device(device)
    if name == "tf32":
        if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] < 8:
            remedy = "tf32 needs a GPU of compute capability 8 or more; use auto, fp32 or bf16"
            raise InputError(f"no tf32 units on {device}", where="precision", remedy=remedy)
        return Precision("tf32", "asked for")
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


@contextmanager
def _tf32_products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _cpu_bfloat16_unit() -> str | None:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return next((unit for unit in ("amx_bf16", "avx512_bf16") if capabilities.get(unit)), None)
