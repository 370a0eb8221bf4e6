"""Linear layers whose products run in bfloat16 over float32 weights, without a cast of every weight in every pass."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch
from torch import Tensor, nn

HAS_BLOCKS = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.ops.mkldnn._is_mkldnn_bf16_supported()
"""Whether oneDNN has products of bfloat16 for this processor."""


class LinearInBfloat16:
    """A linear layer's forward pass in bfloat16; its weights and their gradients stay in float32.

    What autocast computes, minus its copies: the bfloat16 weights are kept and refreshed only when the weights have
    changed, and weight gradients are written into one lasting buffer. Changes through autograd's eyes are seen; after
    those past them, a fused optimiser's above all, `expire` must be called.

    Args:
        layer: Keeps its parameters; only its products are done here.
    """

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer
        self.weight = _Weight(layer.weight)
        self.bias = _Kept(layer.bias) if layer.bias is not None else None

    def __call__(self, input: Tensor) -> Tensor:
        """Product with the weights, (…, out) in bfloat16, of an input (…, in)."""
        if not torch.is_grad_enabled():
            return self.weight.product(_low(input), self.bias)
        output: Tensor = _Product.apply(  # type: ignore[no-untyped-call]
            input, self.layer.weight, self.layer.bias, self.weight, self.bias
        )
        return output

    def with_gelu(self, input: Tensor) -> Tensor:
        """The same product through GELU, where there is no graph; one pass less over the widest numbers there are."""
        return self.weight.product(_low(input), self.bias, gelu=True)

    def expire(self) -> None:
        """Make the copies anew in the next pass."""
        for kept in (self.weight, self.bias):
            if kept is not None:
                kept.expire()


_last = threading.local()


def _low(input: Tensor) -> Tensor:
    """The input in bfloat16: one copy for layers that read the same one after another, as queries, keys, values do."""
    if input.dtype == torch.bfloat16 or input.is_inference():
        return input.to(torch.bfloat16)
    kept = getattr(_last, "input", None)
    if kept is None or kept() is not input or _last.version != input._version:
        _last.input, _last.version, _last.low = weakref.ref(input), input._version, input.to(torch.bfloat16)
    low: Tensor = _last.low
    return low


class _Kept:
    """A parameter's bfloat16 copy and its gradient's buffer."""

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.copy: Tensor | None = None
        self.version = -1
        self.gradient: Tensor | None = None

    def current(self) -> Tensor:
        """The copy, made anew if the parameter has changed since."""
        # Threads that meet here make the same copy twice; none may see one that another has only begun.
        kept, version = self.copy, self.parameter._version
        if kept is None or self.version != version:
            kept = self.parameter.detach().to(torch.bfloat16) if kept is None else kept.copy_(self.parameter.detach())
            self.copy, self.version = kept, version
        return kept

    def expire(self) -> None:
        """Make the copy anew when it is needed next."""
        self.version = -1

    def accumulate(self, gradient: Tensor) -> None:
        """Add to the parameter's gradient as autograd would, into a buffer that outlives the step."""
        if self.parameter.grad is not None:
            self.parameter.grad.add_(gradient)
            return
        if self.gradient is None:
            self.gradient = torch.empty_like(self.parameter, requires_grad=False)
        self.parameter.grad = self.gradient.copy_(gradient)


class _Weight(_Kept):
    """A weight matrix; for passes without a graph in blocks, as oneDNN's products want it."""

    def __init__(self, parameter: Tensor) -> None:
        super().__init__(parameter)
        self.blocks: tuple[int, Tensor] | None = None

    def product(self, input: Tensor, bias: _Kept | None, *, gelu: bool = False) -> Tensor:
        """Product (…, out) with an input (…, in), both bfloat16, through GELU if asked; no graph."""
        offset = None if bias is None else bias.current()
        if not HAS_BLOCKS or input.device.type != "cpu":
            output = nn.functional.linear(input, self.current(), offset)
            return nn.functional.gelu(output) if gelu else output
        kept, version = self.blocks, self.parameter._version
        if kept is None or kept[0] != version:
            low = self.parameter.detach().to(torch.bfloat16)
            self.blocks = kept = version, torch.ops.mkldnn._reorder_linear_weight(low)
        name, algorithm = ("gelu", "none") if gelu else ("none", "")
        activated: Tensor = torch.ops.mkldnn._linear_pointwise(input, kept[1], offset, name, [], algorithm)
        return activated

    def expire(self) -> None:
        super().expire()
        self.blocks = None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, kept: _Kept, offset: _Kept) -> Tensor:
        low = _low(input)
        ctx.save_for_backward(low)
        ctx.kept, ctx.offset, ctx.dtype = kept, offset, input.dtype
        return nn.functional.linear(low, kept.current(), None if offset is None else offset.current())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (low,) = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1]).to(torch.bfloat16)
        if ctx.needs_input_grad[1]:
            ctx.kept.accumulate(flat.t() @ low.reshape(-1, low.shape[-1]))
        if ctx.needs_input_grad[2]:
            # Summed in float32 by the kernel; asked for float32, it would copy all of the gradient first.
            ctx.offset.accumulate(flat.sum(dim=0))
        by_input = None
        if ctx.needs_input_grad[0]:
            by_input = (flat @ ctx.kept.copy).view(*low.shape).to(ctx.dtype)
        return by_input, None, None, None, None
