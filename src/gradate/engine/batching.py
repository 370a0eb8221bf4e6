"""Batching: texts tokenised by the window, sorted by tokens, cut into batches of a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor

Rows = npt.NDArray[np.int64]

WINDOW = 8_192
"""Texts tokenised and sorted together: enough that a batch's texts are of one length, few enough to bound memory."""
TOKENS_ON_CPU = 1_024
"""Tokens per forward pass on a CPU core: more only leave its cache (measured: 512 to 4,096 differ by 5 %)."""
TOKENS_ON_GPU = 32_768


def token_batches(lengths: npt.NDArray[np.integer[Any]], budget: int, most: int | None = None) -> list[Rows]:
    """Rows of like length in batches of at most `budget` tokens, padding included, longest first.

    Args:
        lengths: Tokens of each text, (n,).
        budget: Tokens per batch; a text longer than that is a batch of its own.
        most: Texts per batch at most; None: no limit.

    >>> [batch.tolist() for batch in token_batches(np.array([3, 9, 4, 2, 3]), 9)]
    [[1], [2, 0], [4, 3]]
    """
    order = np.argsort(-lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        size = max(1, budget // max(1, int(lengths[order[first]])))
        batches.append(order[first : first + min(size, most or size)])
        first += len(batches[-1])
    return batches


@dataclass(frozen=True)
class Window:
    """Features of some texts, from which batches are cut.

    Args:
        features: What the encoder's own preprocessing gave: packed, or padded to the longest.
        lengths: Tokens of each text, (n,).
    """

    features: dict[str, Any]
    lengths: Rows

    @classmethod
    def of(cls, encoder: SentenceTransformer, texts: Sequence[str], prompt: str | None) -> Window | None:
        """Tokenise texts as the encoder does; None where its features are not one row of tokens a text."""
        if not isinstance(next(iter(encoder.children()), None), Transformer):
            return None
        features = encoder.preprocess(list(texts), prompt=prompt)
        if "cu_seq_lens_q" in features:
            return cls(features, np.diff(features["cu_seq_lens_q"].numpy()).astype(np.int64))
        mask = features.get("attention_mask")
        if mask is None or any(v.shape != mask.shape for v in features.values() if isinstance(v, Tensor)):
            return None
        return cls(features, mask.sum(dim=1).numpy().astype(np.int64))

    def batch(self, rows: Rows) -> dict[str, Any]:
        """Features of some of the texts, with no more padding than they need."""
        return self._pack(rows) if "cu_seq_lens_q" in self.features else self._pad(rows)

    def _pack(self, rows: Rows) -> dict[str, Any]:
        starts = self.features["cu_seq_lens_q"].numpy()[rows]
        lengths = self.lengths[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        number = np.repeat(np.arange(len(rows)), lengths)
        tokens = torch.from_numpy(starts[number] + np.arange(ends[-1]) - ends[number])
        boundaries = torch.from_numpy(ends).to(torch.int32)
        return self.features | {
            "input_ids": self.features["input_ids"][:, tokens],
            "position_ids": self.features["position_ids"][:, tokens],
            "seq_idx": torch.from_numpy(number)[None].to(torch.int32),
            "cu_seq_lens_q": boundaries,
            "cu_seq_lens_k": boundaries,
            "max_length_q": int(lengths.max()),
            "max_length_k": int(lengths.max()),
        }

    def _pad(self, rows: Rows) -> dict[str, Any]:
        index = torch.from_numpy(rows)
        used = self.features["attention_mask"][index].any(dim=0)
        # An encoder may pad on either side, and an empty text may have no token at all.
        columns = (
            slice(int(used.int().argmax()), len(used) - int(used.flip(0).int().argmax())) if used.any() else slice(1)
        )
        return {k: v[index][:, columns] if isinstance(v, Tensor) else v for k, v in self.features.items()}
