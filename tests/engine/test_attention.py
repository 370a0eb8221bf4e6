"""Packed attention: the same numbers and gradients as padded attention, whatever the lengths."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gradate.engine import attention
from gradate.engine.attention import Plan, packed_attention

HEADS, SIZE = 3, 8


def boundaries(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)


def one_by_one(query: Tensor, key: Tensor, value: Tensor, lengths: list[int], causal: bool) -> Tensor:
    parts = [torch.split(t, lengths, dim=2) for t in (query, key, value)]
    mixed = [
        nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal) for q, k, v in zip(*parts, strict=True)
    ]
    return torch.cat(mixed, dim=2).transpose(1, 2)


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), causal=st.booleans())
def test_values_and_gradients_are_those_of_each_text_alone(lengths: list[int], causal: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(1, HEADS, sum(lengths), SIZE, requires_grad=True) for _ in range(3)]
    weight = torch.randn(1, sum(lengths), HEADS, SIZE)
    expected = one_by_one(*inputs, lengths, causal)
    gradients = torch.autograd.grad((expected * weight).sum(), inputs)
    packed, _ = packed_attention(nn.Identity(), *inputs, None, is_causal=causal, cu_seq_lens_q=boundaries(lengths))
    torch.testing.assert_close(packed, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(torch.autograd.grad((packed * weight).sum(), inputs), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_long_texts_take_the_fused_kernel_and_agree(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    lengths = [200, 230, 5]
    inputs = [torch.randn(1, HEADS, sum(lengths), SIZE) for _ in range(3)]
    call = partial(packed_attention, nn.Identity(), *inputs, None, is_causal=causal)
    fused, _ = call(cu_seq_lens_q=boundaries(lengths))
    masks = [made.numel() for made in attention._last.plan.made.values() if made is not None]
    assert max(masks) <= 3 * 230 * (230 if causal else 1), "one mask serves all heads"
    monkeypatch.setattr(attention, "FUSED_FROM", 10_000)
    plain, _ = call(cu_seq_lens_q=boundaries(lengths))
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=1e-4)


def test_rotated_queries_and_keys_meet_values_in_their_precision() -> None:
    query, key = torch.randn(1, HEADS, 9, SIZE), torch.randn(1, HEADS, 9, SIZE)
    value = torch.randn(1, HEADS, 9, SIZE).bfloat16()
    packed, _ = packed_attention(nn.Identity(), query, key, value, None, cu_seq_lens_q=boundaries([4, 5]))
    assert packed.dtype == torch.bfloat16
    expected = one_by_one(query, key, value.float(), [4, 5], False)
    torch.testing.assert_close(packed.float(), expected, atol=5e-2, rtol=5e-2)


def test_fewer_key_heads_than_query_heads() -> None:
    layer = nn.Identity()
    layer.num_key_value_groups = 3  # type: ignore[assignment]
    query, key, value = torch.randn(1, 6, 9, SIZE), torch.randn(1, 2, 9, SIZE), torch.randn(1, 2, 9, SIZE)
    packed, _ = packed_attention(layer, query, key, value, None, cu_seq_lens_q=boundaries([4, 5]))
    repeated = [t.repeat_interleave(3, dim=1) for t in (key, value)]
    torch.testing.assert_close(packed, one_by_one(query, *repeated, [4, 5], False), atol=1e-5, rtol=1e-5)


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=50))
def test_a_plan_holds_every_token_once_and_little_padding(lengths: list[int]) -> None:
    plan = Plan.of(boundaries(lengths))
    slots = sum(block.count * block.length for block in plan.blocks)
    assert sum(lengths) >= attention.LEAST_REAL * slots
    assert sum(block.count for block in plan.blocks) == len(lengths)
    if plan.slot is not None and plan.source is not None:
        assert plan.source[plan.slot].tolist() == list(range(sum(lengths)))
        assert len(set(plan.slot.tolist())) == sum(lengths)


def test_equal_lengths_move_nothing() -> None:
    assert Plan.of(boundaries([4, 4, 4])).source is None
