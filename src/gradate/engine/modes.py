"""Training and evaluation mode of a module's parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def kept_mode(module: nn.Module) -> Iterator[None]:
    """Put every submodule back into training or evaluation mode, whichever it was in, on leaving."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
