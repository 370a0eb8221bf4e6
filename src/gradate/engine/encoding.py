"""Encoding texts, each distinct one once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import nn

from gradate.engine.precision import Precision
from gradate.errors import InputError

PAIR_CHUNK = 16_384


@dataclass(frozen=True)
class Encoded:
    """Embeddings of the distinct texts of a list, and where each text of the list finds its own.

    Args:
        embeddings: One row per distinct text, in first-seen order, float32 (m, dim).
        index: Row of `embeddings` for each text, int64 (n,).
    """

    embeddings: npt.NDArray[np.float32]
    index: npt.NDArray[np.int64]


def encode_distinct(
    encoder: SentenceTransformer,
    texts: Sequence[str],
    *,
    precision: Precision,
    batch_size: int = 64,
    prompt_name: str | None = None,
    prompt: str | None = None,
    show_progress: bool = False,
    before_normalize: bool = False,
) -> Encoded:
    """Encode each distinct text once, in evaluation mode and without gradients.

    Args:
        encoder: The model; its training or evaluation mode is left as it was.
        texts: Texts (n,), repeats allowed.
        precision: See `resolve_precision`.
        batch_size: Texts per forward pass; texts of like length share one.
        prompt_name: Name of a prompt of the encoder to put before every text.
        prompt: The prompt itself; takes precedence over `prompt_name`.
        show_progress: Show sentence-transformers' progress bar (on stderr).
        before_normalize: Stop before a trailing Normalize module, if there is one.
    """
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one text", remedy="wrap it in a list")
    rows: dict[str, int] = {}
    index = np.fromiter((rows.setdefault(text, len(rows)) for text in texts), dtype=np.int64, count=len(texts))
    if not rows:
        return Encoded(np.zeros((0, encoder.get_embedding_dimension() or 0), dtype=np.float32), index)
    view = without_normalize(encoder) if before_normalize else encoder
    with kept_mode(encoder), precision.autocast(encoder.device.type):
        # Sorted, so that batches, and with them the last bits, do not depend on the order of the texts.
        texts_in_order = sorted(rows)
        embeddings = view.encode(
            texts_in_order,
            batch_size=batch_size,
            prompt_name=prompt_name,
            prompt=prompt,
            show_progress_bar=show_progress,
            convert_to_tensor=True,
        )
    place = np.fromiter((rows[text] for text in texts_in_order), dtype=np.int64, count=len(rows))
    ordered = np.empty(tuple(embeddings.shape), dtype=np.float32)
    ordered[place] = embeddings.float().cpu().numpy()
    return Encoded(ordered, index)


def trailing_normalize(encoder: SentenceTransformer) -> Normalize | None:
    """The Normalize module the encoder ends in, or None."""
    modules = list(encoder.children())
    last = modules[-1] if modules else None
    return last if isinstance(last, Normalize) else None


def without_normalize(encoder: SentenceTransformer) -> SentenceTransformer:
    """The encoder up to a trailing Normalize module: a view that shares its modules and weights, or the encoder."""
    if trailing_normalize(encoder) is None:
        return encoder
    modules: list[nn.Module] = list(encoder.children())[:-1]
    return SentenceTransformer(
        modules=modules,
        device=str(encoder.device),
        prompts={name: prompt for name, prompt in encoder.prompts.items() if prompt is not None},
        default_prompt_name=encoder.default_prompt_name,
        truncate_dim=encoder.truncate_dim,
        local_files_only=True,
    )


def count_truncated(encoder: SentenceTransformer, texts: Sequence[str]) -> int:
    """Number of distinct texts that are longer than the encoder reads, and so lose their end.

    Args:
        encoder: A model with a tokenizer; one without a limit truncates nothing.
        texts: Texts (n,), repeats allowed.
    """
    limit = encoder.max_seq_length
    if limit is None or not hasattr(encoder.tokenizer, "model_max_length"):
        return 0
    # A token covers at least one byte, so a text of fewer bytes than tokens allowed needs no tokenizer.
    candidates = [text for text in dict.fromkeys(texts) if len(text.encode()) + 2 > limit]
    if not candidates:
        return 0
    tokens = encoder.tokenizer(candidates, truncation=False, padding=False, verbose=False)["input_ids"]
    return sum(len(ids) > limit for ids in tokens)


@contextmanager
def kept_mode(module: nn.Module) -> Iterator[None]:
    """Put every submodule back into training or evaluation mode, whichever it was in, on leaving."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def pair_cosines(
    embeddings: npt.NDArray[np.float32], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Cosines of pairs of rows, in double precision.

    Args:
        embeddings: Rows (m, dim), of any length.
        left: Row of each pair's first text (n,).
        right: Row of each pair's second text (n,).

    Returns:
        Cosines (n,), NaN where a row is zero.

    >>> pair_cosines(np.float32([[3, 4], [4, 3], [0, 0]]), np.array([0, 0]), np.array([1, 2])).round(2).tolist()
    [0.96, nan]
    """
    cosines = np.empty(len(left), dtype=np.float64)
    for start in range(0, len(left), PAIR_CHUNK):
        chunk = slice(start, start + PAIR_CHUNK)
        u, v = embeddings[left[chunk]].astype(np.float64), embeddings[right[chunk]].astype(np.float64)
        lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
        dots = np.einsum("nd,nd->n", u, v)
        cosines[chunk] = np.divide(dots, lengths, out=np.full(len(dots), np.nan), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0)
