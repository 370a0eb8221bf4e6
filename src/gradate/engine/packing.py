"""Packing: a batch's texts in one row of tokens, through sentence-transformers' own flattened features."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn
from transformers import DataCollatorWithFlattening

from gradate.engine import attention
from gradate.engine.modes import kept_mode

logger = logging.getLogger(__name__)

FORWARD_KEYS = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"}
TOLERANCE = 1e-3
"""Largest difference between padded and packed embeddings, relative to the longest, that still counts as equal."""
PACK_MULTIPLE = 16
"""On a CPU tokens are filled up to a multiple of this: oneDNN prepares a product anew for every shape it meets."""
PROBE = ("one", "a few more words", "a text of some length, so that the three of them differ in how long they are")

_verdicts: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


@contextmanager
def packed(encoder: SentenceTransformer) -> Iterator[bool]:
    """Let the encoder pack its texts without padding, where it can: yields whether it does.

    On a CPU the attention is `gradate.engine.attention`. On a GPU sentence-transformers packs by itself when the model
    was opened with flash attention, and this changes nothing. An encoder whose packed embeddings differ from its
    padded ones (tried once, on three texts) keeps its padding.
    """
    transformer = next(iter(encoder.children()), None)
    if not isinstance(transformer, Transformer) or transformer.can_flatten_inputs or not _may_pack(transformer):
        yield isinstance(transformer, Transformer) and transformer.can_flatten_inputs
        return
    if transformer.model not in _verdicts:
        _verdicts[transformer.model] = _packs_right(encoder, transformer)
    if not _verdicts[transformer.model]:
        yield False
        return
    with _flattening(transformer):
        yield True


def _may_pack(transformer: Transformer) -> bool:
    """Whether nothing known about the model speaks against packing."""
    config = transformer.config
    windowed = any(getattr(config, key, None) for key in ("sliding_window", "local_attention", "attention_window"))
    return (
        transformer.backend == "torch"
        and transformer.unpad_inputs is not False
        and transformer.transformer_task == "feature-extraction"
        and set(transformer.modality_config) == {"text"}
        and transformer.modality_config["text"]["method"] == "forward"
        and not windowed
        and getattr(transformer.model, "is_backend_compatible", lambda: False)()
        and next(transformer.model.parameters()).device.type == "cpu"
    )


def _packs_right(encoder: SentenceTransformer, transformer: Transformer) -> bool:
    def embed() -> Tensor:
        features = {
            k: v.to(encoder.device) if isinstance(v, Tensor) else v for k, v in encoder.preprocess(PROBE).items()
        }
        embedding: Tensor = encoder(features)["sentence_embedding"].float()
        return embedding

    with kept_mode(encoder), torch.no_grad(), torch.autocast(encoder.device.type, enabled=False):
        encoder.eval()
        padded = embed()
        try:
            with _flattening(transformer):
                flat = embed()
        except Exception as error:
            logger.info("this encoder cannot pack its texts: %s", error)
            return False
    return bool((padded - flat).norm(dim=1).max() <= TOLERANCE * padded.norm(dim=1).max())


@contextmanager
def _flattening(transformer: Transformer) -> Iterator[None]:
    """sentence-transformers' flattened features, over the attention registered here."""
    implementation = transformer.config._attn_implementation
    kept = {
        name: getattr(transformer, name, None)
        for name in ("can_flatten_inputs", "data_collator", "model_forward_params", "_flatten_position_offset")
    }
    try:
        transformer.model.set_attn_implementation(attention.NAME)
        collator = DataCollatorWithFlattening(return_seq_idx=True, return_flash_attn_kwargs=True)  # type: ignore[no-untyped-call]
        transformer.data_collator = collator
        if transformer.model_forward_params is not None:
            transformer.model_forward_params = transformer.model_forward_params | FORWARD_KEYS
        transformer._flatten_position_offset = transformer._infer_flatten_position_offset()
        transformer.can_flatten_inputs = True
        yield
    finally:
        transformer.model.set_attn_implementation(implementation)
        for name, value in kept.items():
            setattr(transformer, name, value)


def embed_together(encoder: nn.Module, columns: Sequence[dict[str, Any]]) -> list[Tensor]:
    """Embeddings of each column of a batch, all columns in one forward pass.

    Args:
        encoder: Called on features; may be wrapped for training.
        columns: Features of each column, padded or packed.
    """
    if any("cu_seq_lens_q" not in features or "prompt_length" in features for features in columns):
        return list(embed_columns(encoder, list(columns), separate_first=False))
    together = join_packs(columns)
    rows = [len(features["cu_seq_lens_q"]) - 1 for features in columns]
    if together["input_ids"].numel() == 0:
        # Not one token in the whole batch: a transformer has no shape for that.
        inner: Any = getattr(encoder, "module", encoder)
        width = inner.get_embedding_dimension()
        zeros = torch.zeros(
            sum(rows), width, device=together["input_ids"].device, requires_grad=torch.is_grad_enabled()
        )
        return list(torch.split(zeros, rows))
    missing = -together["input_ids"].numel() % PACK_MULTIPLE
    if missing and together["input_ids"].device.type == "cpu":
        together = join_packs([together, _filler(together, missing)])
        rows.append(1)
    return list(torch.split(encoder(together)["sentence_embedding"], rows))[: len(columns)]


def _filler(pack: dict[str, Any], tokens: int) -> dict[str, Any]:
    """One more text for a pack, that nobody reads: its first token, again and again."""
    boundaries = pack["cu_seq_lens_q"].new_tensor([0, tokens])
    return pack | {
        "input_ids": pack["input_ids"][:, :1].expand(1, tokens),
        "position_ids": pack["position_ids"][:, :1].expand(1, tokens),
        "seq_idx": pack["seq_idx"].new_zeros(1, tokens),
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": tokens,
        "max_length_k": tokens,
    }


def join_packs(packs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One pack of several: boundaries and sequence numbers of the later ones move behind the earlier ones."""
    boundaries, numbers, tokens, rows = [packs[0]["cu_seq_lens_q"][:1]], [], 0, 0
    for pack in packs:
        boundaries.append(pack["cu_seq_lens_q"][1:] + tokens)
        numbers.append(pack["seq_idx"] + rows)
        tokens, rows = tokens + pack["input_ids"].shape[1], rows + len(pack["cu_seq_lens_q"]) - 1
    joined = torch.cat(boundaries)
    longest = max(pack["max_length_q"] for pack in packs)
    return {
        **packs[0],
        "input_ids": torch.cat([pack["input_ids"] for pack in packs], dim=1),
        "position_ids": torch.cat([pack["position_ids"] for pack in packs], dim=1),
        "seq_idx": torch.cat(numbers, dim=1),
        "cu_seq_lens_q": joined,
        "cu_seq_lens_k": joined,
        "max_length_q": longest,
        "max_length_k": longest,
    }
