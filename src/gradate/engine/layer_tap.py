"""The layer tap: embeddings pooled from a layer in the middle, out of the same forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from gradate.errors import InputError

LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")
"""Where architectures keep their layers, in the names of what lies inside them."""


class LayerTap:
    """While open, an encoder's sentence embedding carries behind it that of one of its layers, pooled the same way.

    It hooks into the modules themselves, so that it works through wrappers, packing and gradient caching alike.

    Args:
        encoder: A transformer with pooling.
        layer: 1 for the lowest layer; `middle`: half of them, rounded up where the states from the embeddings to the
            last layer are counted from 0, as CoDiEmb's code does (6 layers: the third; 12: the sixth).

    Raises:
        InputError: an encoder without layers or pooling, or with fewer layers.
    """

    def __init__(self, encoder: SentenceTransformer, layer: int | Literal["middle"]) -> None:
        layers = {
            int(m.group(1)): module
            for name, module in encoder.named_modules()
            if (m := LAYER.search(f"{name}.")) and m.end() == len(name) + 1
        }
        pooling = next((module for module in encoder.children() if isinstance(module, Pooling)), None)
        if not layers or pooling is None:
            raise InputError("this encoder has no layers that could be pooled", where="objective.layer")
        count = len(layers)
        number = (count + 1) // 2 if layer == "middle" else layer
        if number > count:
            what = f"layer = {number}, and the encoder has {count}"
            raise InputError(what, where="objective.layer", remedy=f"1 to {count}")
        self.encoder, self.layer, self.pooling = encoder, layers[number - 1], pooling
        self._tokens: Tensor | None = None
        self._pooled: Tensor | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let embeddings carry the layer's."""
        hooks = [
            self.layer.register_forward_hook(self._keep_tokens),
            self.pooling.register_forward_hook(self._pool),
            self.encoder.register_forward_hook(self._append),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keep_tokens(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._tokens = output[0] if isinstance(output, tuple) else output

    def _pool(self, module: nn.Module, inputs: Any, output: dict[str, Any]) -> None:
        tokens, self._tokens = self._tokens, None
        # Not called but passed through: calling it would come back here.
        self._pooled = self.pooling.forward({**output, "token_embeddings": tokens})["sentence_embedding"]

    def _append(self, module: nn.Module, inputs: Any, output: dict[str, Any]) -> dict[str, Any]:
        pooled, self._pooled = self._pooled, None
        assert pooled is not None
        final = output["sentence_embedding"]
        return {**output, "sentence_embedding": torch.cat([final, pooled.to(final.dtype)], dim=-1)}
