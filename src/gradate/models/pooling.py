"""Pooling: how an encoder's tokens become one embedding."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from gradate.errors import InputError

MODES = {"mean": "mean", "cls": "cls", "last-token": "lasttoken"}
"""Names in a recipe, and sentence-transformers'."""


def with_pooling(encoder: SentenceTransformer, mode: str) -> SentenceTransformer:
    """The encoder with another pooling, in place.

    Args:
        encoder: One that pools with sentence-transformers' module.
        mode: `mean` of the tokens, `cls`, the first one, or `last-token`, padding on either side left out.

    Raises:
        InputError: the encoder has no such module.
    """
    for name, module in encoder.named_children():
        if isinstance(module, Pooling):
            setattr(encoder, name, Pooling(module.embedding_dimension, MODES[mode]))
            return encoder
    raise InputError("this encoder has no pooling to change", where="pooling", remedy="leave it as it is: own")
