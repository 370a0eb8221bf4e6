"""Dropout that draws its mask from few random bits, for processors without a fast generator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STEPS = 1 << 16
"""Probabilities are rounded to a multiple of 1 / STEPS; 0.1 becomes 0.100006."""


def dropout(values: Tensor, probability: float) -> Tensor:
    """Set each value to zero with `probability`, and scale the others so that the mean stays.

    torch's own dropout on a CPU spends two 32-bit draws and a float on every number, in one thread; sixteen bits do.

    Args:
        values: Any shape, floating point.
        probability: From 0 to below 1.

    >>> dropout(torch.ones(4), 0.0)
    tensor([1., 1., 1., 1.])
    """
    if probability == 0:
        return values
    if values.device.type != "cpu":
        return nn.functional.dropout(values, probability)
    scaled: Tensor = _Dropout.apply(values, probability)  # type: ignore[no-untyped-call]
    return scaled


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, probability: float) -> Tensor:
        count, dropped = values.numel(), round(probability * STEPS)
        # A word of 64 random bits decides over four numbers; torch's generator seeds one that is twice as fast.
        seed = int(torch.empty((), dtype=torch.int64).random_())
        words = np.random.SFC64(seed).random_raw((count + 3) // 4)
        draws = torch.from_numpy(words.view(np.int16))[:count].view(values.shape)
        kept, scale = draws.ge_(dropped - STEPS // 2), STEPS / (STEPS - dropped)
        if values.dtype == torch.bfloat16:
            # In the bits of the scale, 0 or 1 times those: no conversion, which takes longer than all the rest.
            factor = kept.mul_(_bits(scale)).view(torch.bfloat16)
        else:
            factor = kept.to(values.dtype).mul_(scale)
        ctx.save_for_backward(factor)
        return values * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


@cache
def _bits(value: float) -> int:
    """The bits of `value` in bfloat16."""
    return int(torch.tensor(value, dtype=torch.bfloat16).view(torch.int16))
