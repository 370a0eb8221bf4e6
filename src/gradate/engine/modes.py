"""How an encoder is set while something is done with it, and as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sentence_transformers import SentenceTransformer
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


@contextmanager
def limited_length(encoder: SentenceTransformer, tokens: int | None) -> Iterator[None]:
    """Let an encoder read at most so many tokens of a text, or as many as it does where that is less; None: that."""
    limit = encoder.max_seq_length
    if tokens is not None:
        encoder.max_seq_length = min(tokens, limit or tokens)
    try:
        yield
    finally:
        encoder.max_seq_length = limit
