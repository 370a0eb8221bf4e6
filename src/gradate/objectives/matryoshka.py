"""Matryoshka: sentence-transformers' loss at several widths of the embedding, around any objective on the cosine."""

from __future__ import annotations

from collections.abc import Sequence

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from torch import nn

from gradate.errors import InputError


def at_widths(model: SentenceTransformer, loss: nn.Module, widths: Sequence[int]) -> MatryoshkaLoss:
    """The loss summed over the whole embedding and its first `widths` numbers, each cut off and normalised anew.

    Args:
        model: The encoder.
        loss: An objective of cosines, cached or not.
        widths: Each below the encoder's own.

    Raises:
        InputError: a width that the encoder does not reach.

    Source: Kusupati et al. (2022), "Matryoshka Representation Learning"; Li et al. (2024), Conan-embedding.
    """
    return MatryoshkaLoss(model, loss, [check_widths(model, widths), *widths])


def check_widths(model: SentenceTransformer, widths: Sequence[int], *, where: str = "matryoshka") -> int:
    """The encoder's own width, if all of these lie below it.

    Raises:
        InputError: they do not.
    """
    own = model.get_embedding_dimension()
    assert own is not None
    if max(widths, default=0) >= own:
        what = f"{max(widths)} reaches the {own} numbers of this encoder's embeddings"
        raise InputError(what, where=where, remedy="name smaller widths; the whole always counts")
    return own
