"""Floating-point work of a transformer on texts of given lengths: real tokens only, padding counts for nothing.

forward = Σ over texts of 2·P·L + 4·n·d·L², with P the weights of the linear layers inside the n transformer layers, d
their width and L the text's tokens: two operations per weight and token, and per layer and pair of tokens one product
for the score and one for the weighted sum. backward = 2 × forward. Embedding look-ups, norms and pooling are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_LAYER = re.compile(r"\.(?:layers?|h|blocks?)\.(\d+)\.")
TRAINING = 3
"""Forward and backward together, in forwards."""


@dataclass(frozen=True)
class Work:
    """What one token costs.

    Args:
        weights: Weights of the linear layers (P).
        layers: Transformer layers (n).
        width: Their width (d).
    """

    weights: int
    layers: int
    width: int

    @classmethod
    def of(cls, encoder: Any) -> Work:
        """Counted on an untouched sentence-transformers model."""
        found: dict[int, int] = {}
        for name, parameter in encoder.named_parameters():
            layer = _LAYER.search(name)
            if layer is not None and parameter.ndim == 2:
                found[int(layer.group(1))] = found.get(int(layer.group(1)), 0) + parameter.numel()
        width = next(p.shape[-1] for n, p in encoder.named_parameters() if "embed" in n and p.ndim == 2)
        return cls(sum(found.values()), len(found), int(width))

    def forward(self, lengths: Iterable[int]) -> float:
        """FLOP of one forward pass over texts of these lengths in tokens."""
        return float(sum(2 * self.weights * n + 4 * self.layers * self.width * n * n for n in lengths))

    def training(self, lengths: Iterable[int]) -> float:
        """FLOP of forward and backward."""
        return TRAINING * self.forward(lengths)


def token_lengths(encoder: Any, texts: Sequence[str]) -> list[int]:
    """Tokens of each text as the encoder reads it: special tokens included, cut at its limit."""
    ids = encoder.tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
    limit = encoder.max_seq_length
    return [min(len(row), limit) if limit else len(row) for row in ids]
