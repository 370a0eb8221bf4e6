"""Attention over packed sequences: many texts in one row of tokens, none padded to another's length."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from gradate.engine.dropout import dropout

NAME = "packed"
"""Name under which transformers knows this attention."""
KEYS_FIRST_BELOW = 32
"""Tokens below which softmax over the last dimension, its rows this short, costs more than the products (measured)."""
LEAST_REAL = 0.5
"""Share of real tokens below which a block of sequences is split by length."""
FUSED_FROM = 192
"""Tokens from which on torch's fused kernel beats plain products (measured on one CPU core, head size 32)."""


@dataclass(frozen=True)
class Block:
    """Sequences of like length, side by side in a rectangle."""

    first: int
    """First slot of the block."""
    count: int
    length: int
    lengths: Tensor | None
    """Real tokens of each sequence, (count,); None where the rectangle has no padding."""


@dataclass(frozen=True)
class Plan:
    """Where each token of a pack stands in the rectangles that attention works on.

    Args:
        blocks: The rectangles, in slot order.
        source: Token that each slot reads, (slots,); None where slots are the tokens in their order.
        slot: Slot of each token, (tokens,).
    """

    blocks: tuple[Block, ...]
    source: Tensor | None
    slot: Tensor | None
    made: dict[Hashable, Tensor | None] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Hashable, make: Callable[[], Tensor | None]) -> Tensor | None:
        """What `make` gives, made by the first layer for all."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    @classmethod
    def of(cls, boundaries: Tensor) -> Plan:
        """Rectangles for sequences between `boundaries` (sequences + 1,), from the shortest to the longest.

        >>> [(block.count, block.length) for block in Plan.of(torch.tensor([0, 9, 11, 21, 23])).blocks]
        [(2, 2), (2, 10)]
        """
        ends = boundaries.cpu().numpy()
        lengths = np.diff(ends)
        order = np.argsort(lengths, kind="stable")
        groups = _groups(lengths[order])
        device = boundaries.device
        if len(groups) == 1 and lengths.min() == lengths.max():
            return cls((Block(0, len(lengths), int(lengths[0]), None),), None, None)
        blocks, sources, first = [], [], 0
        slot = np.empty(ends[-1], dtype=np.int64)
        for group in groups:
            rows = order[group]
            length, real = int(lengths[rows[-1]]), lengths[rows]
            offsets = np.arange(length)
            inside = offsets < real[:, None]
            tokens = np.where(inside, ends[rows][:, None] + offsets, 0)
            slot[tokens[inside]] = first + np.flatnonzero(inside)
            sources.append(tokens.ravel())
            ragged = None if inside.all() else torch.from_numpy(real).to(device)
            blocks.append(Block(first, len(rows), length, ragged))
            first += tokens.size
        source = torch.from_numpy(np.concatenate(sources)).to(device)
        return cls(tuple(blocks), source, torch.from_numpy(slot).to(device))


def _groups(lengths: np.ndarray[Any, np.dtype[Any]]) -> list[slice]:
    """Cut ascending lengths into runs, each with at least `LEAST_REAL` of its rectangle filled."""
    groups, start, real = [], 0, 0
    for position, length in enumerate(lengths.tolist()):
        if position > start and real + length < LEAST_REAL * length * (position - start + 1):
            groups.append(slice(start, position))
            start, real = position, 0
        real += length
    groups.append(slice(start, len(lengths)))
    return groups


class _Pad(torch.autograd.Function):
    """Rows of tokens into slots; a slot of padding reads any row and its gradient is dropped."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        assert plan.source is not None
        return tokens.index_select(0, plan.source)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.index_select(0, ctx.plan.slot), None


class _Unpad(torch.autograd.Function):
    """Rows of slots back into tokens; slots of padding get no gradient."""

    @staticmethod
    def forward(ctx: Any, slots: Tensor, plan: Plan) -> Tensor:
        ctx.plan, ctx.rows = plan, len(slots)
        assert plan.slot is not None
        return slots.index_select(0, plan.slot)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        slots = gradient.new_zeros(ctx.rows, *gradient.shape[1:])
        return slots.index_copy_(0, ctx.plan.slot, gradient), None


_last = threading.local()


def _plan(boundaries: Tensor) -> Plan:
    """The plan of a pack, made once for all layers of a forward pass."""
    if getattr(_last, "boundaries", None) is not boundaries:
        _last.boundaries, _last.plan = boundaries, Plan.of(boundaries)
    plan: Plan = _last.plan
    return plan


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of each sequence of a pack to itself; of padded batches, what torch's own attention does.

    Args:
        module: The attention layer, as transformers calls its attention functions.
        query: (1, heads, tokens, size).
        key: The same, with as many heads or a divisor of them.
        value: Like `key`.
        attention_mask: None for a pack.
        dropout: Probability of dropping an attention weight.
        scaling: Factor of the scores; None: size^-1/2.
        is_causal: Whether a token sees only those before it; None: as the layer says.
        kwargs: `cu_seq_lens_q` (sequences + 1,), the boundaries of the pack.

    Returns:
        (1, tokens, heads, size), and None for the weights.
    """
    boundaries = kwargs.get("cu_seq_lens_q")
    if boundaries is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal=is_causal, **kwargs
        )
    # Rotated queries and keys are float32 where values are what autocast made them.
    query, key = query.to(value.dtype), key.to(value.dtype)
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    heads, tokens, size = query.shape[1:]
    plan = _plan(boundaries)
    causal = is_causal if is_causal is not None else bool(getattr(module, "is_causal", False))
    scale = scaling if scaling is not None else float(size**-0.5)
    rows = [part[0].transpose(0, 1).reshape(tokens, heads * size) for part in (query, key, value)]
    if plan.source is not None:
        rows = [_Pad.apply(part, plan) for part in rows]  # type: ignore[no-untyped-call]
    outputs = []
    for block in plan.blocks:
        inside = slice(block.first, block.first + block.count * block.length)
        parts = [p[inside].view(block.count, block.length, heads, size).transpose(1, 2) for p in rows]
        # The fused kernel reads one bias for all heads; a plain product needs each head's own.
        fused = block.length >= FUSED_FROM and dropout == 0
        copies = 1 if fused else heads
        bias = plan.once((block.first, causal, copies, query.dtype), partial(_bias, block, causal, copies, rows[0]))
        query, key, value = parts
        attend = _fused if fused else partial(_plain, probability=dropout)
        mixed = attend(query, key, value, bias, scale)
        outputs.append(mixed.transpose(1, 2).reshape(block.count * block.length, heads * size))
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    if plan.slot is not None:
        joined = _Unpad.apply(joined, plan)  # type: ignore[no-untyped-call]
    return joined.view(1, tokens, heads, size), None


def _fused(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Attention inside one rectangle, tensors (count, heads, length, size), by torch's kernel.

    The bias is (count, 1 or length, length).
    """
    mask = None if bias is None else bias[:, None]
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def _plain(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, *, probability: float
) -> Tensor:
    """The same by plain products, with dropout; the bias is (count * heads, 1 or length, length)."""
    count, heads, length, size = query.shape
    flat = (count * heads, length, size)
    start, beta = (query.new_empty(1, 1, 1), 0) if bias is None else (bias, 1)
    with torch.autocast(query.device.type, enabled=False):
        # Over the last dimension softmax computes in float32 whatever it reads; autocast would make two copies more.
        left, right = query.reshape(flat), key.reshape(flat)
        if length < KEYS_FIRST_BELOW:
            scores = torch.baddbmm(start.transpose(1, 2), right, left.transpose(1, 2), beta=beta, alpha=scale)
            weights = torch.softmax(scores, dim=1, dtype=torch.float32).to(value.dtype).transpose(1, 2)
        else:
            scores = torch.baddbmm(start, left, right.transpose(1, 2), beta=beta, alpha=scale)
            weights = torch.softmax(scores, dim=-1)
        return torch.bmm(dropout(weights, probability), value.reshape(flat)).view(count, heads, length, size)


def _bias(block: Block, causal: bool, copies: int, like: Tensor) -> Tensor | None:
    """What is added to scores so that a query reads what it may: 0 or -inf, (count * copies, 1 or length, length).

    None where it may read everything.
    """
    position = torch.arange(block.length, device=like.device)
    read = None if block.lengths is None else (position < block.lengths[:, None])[:, None, None]
    if causal:
        before = (position <= position[:, None])[None, None]
        read = before if read is None else read & before
    if read is None:
        return None
    bias = torch.zeros(read.shape, dtype=like.dtype, device=like.device).masked_fill_(~read, -torch.inf)
    return bias.expand(block.count, copies, *bias.shape[2:]).reshape(block.count * copies, *bias.shape[2:])


def _no_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask of a pack: its boundaries say everything; padded batches get the usual one."""
    from transformers.masking_utils import sdpa_mask

    return None if kwargs.get("attention_mask") is None else sdpa_mask(*args, **kwargs)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _no_mask)
