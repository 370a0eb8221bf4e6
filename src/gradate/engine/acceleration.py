"""Acceleration: cheap passes for training, put around an encoder for as long as a stage lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers.activations import GELUActivation

from gradate.engine.allocator import keep_freed_memory
from gradate.engine.dropout import dropout
from gradate.engine.embedding import EmbeddingByRows
from gradate.engine.linear import LinearInBfloat16
from gradate.engine.packing import packed
from gradate.engine.precision import Precision

LARGE_TABLE = 1 << 20
"""Numbers in an embedding table from which on its gradient is kept by rows."""


@dataclass(frozen=True)
class Acceleration:
    """What was put around an encoder; each is the same computation, done with less work."""

    packed: bool
    """Texts of a batch without padding between them."""
    linears: int
    """Linear layers with lasting bfloat16 weights."""
    tables: int
    """Embedding tables with gradients by rows."""

    def __str__(self) -> str:
        parts = ["packed without padding" if self.packed else "padded"]
        if self.linears:
            parts.append(f"{self.linears} linear layers in bf16 over fp32 weights")
        if self.tables:
            parts.append("embedding gradients by rows")
        return ", ".join(parts)


@contextmanager
def accelerated(encoder: SentenceTransformer, precision: Precision) -> Iterator[Acceleration]:
    """Train `encoder` with packed batches, lasting bfloat16 weights, cheap dropout and embedding gradients by rows.

    On a GPU, and with several processes, gradients must go through autograd's own hooks and kernels: only what keeps
    them is changed there. Parameters, their names and their gradients' dtype stay as they are.

    Args:
        encoder: Its layers compute differently until the context ends.
        precision: bf16 layers only where this is bf16.
    """
    on_cpu = encoder.device.type == "cpu"
    alone = not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
    changed: list[nn.Module] = []
    linears: list[LinearInBfloat16] = []
    tables = 0

    def change(layer: nn.Module, forward: Callable[..., Tensor]) -> None:
        # An instance attribute hides the class's method, and deleting it restores that.
        layer.forward = forward
        changed.append(layer)

    def expire(*_: object) -> None:
        # torch's fused optimisers change weights without counting up their version.
        for linear in linears:
            linear.expire()

    hook = register_optimizer_step_post_hook(expire)
    try:
        if on_cpu:
            keep_freed_memory()
        with packed(encoder) as packs:
            for layer in encoder.modules() if on_cpu else ():
                if "forward" in vars(layer):
                    continue  # accelerated already, by a stage that is being evaluated
                if type(layer) is nn.Dropout:
                    change(layer, _dropout_of(layer))
                elif type(layer) is nn.Linear and precision.name == "bf16" and alone:
                    linears.append(LinearInBfloat16(layer))
                    change(layer, linears[-1])
                elif type(layer) is nn.Embedding and alone and _is_large_and_unshared(layer, encoder):
                    change(layer, EmbeddingByRows(layer))
                    tables += 1
            for layer in [part for part in encoder.modules() if _is_linear_with_gelu(part)]:
                change(layer, _linear_with_gelu(layer))
            yield Acceleration(packs, len(linears), tables)
    finally:
        hook.remove()
        for layer in changed:
            del layer.forward


def _dropout_of(layer: nn.Dropout) -> Callable[[Tensor], Tensor]:
    return lambda input: dropout(input, layer.p if layer.training else 0.0)


def _is_linear_with_gelu(layer: nn.Module) -> bool:
    """Whether this is the first half of BERT's feed-forward part, or of a copy of it, over a bfloat16 linear layer."""
    parts = dict(layer.named_children())
    return (
        type(layer).__name__.endswith("Intermediate")
        and parts.keys() == {"dense", "intermediate_act_fn"}
        and "forward" not in vars(layer)
        and isinstance(vars(parts["dense"]).get("forward"), LinearInBfloat16)
        and type(parts["intermediate_act_fn"]) is GELUActivation
    )


def _linear_with_gelu(layer: Any) -> Callable[[Tensor], Tensor]:
    linear: LinearInBfloat16 = layer.dense.forward
    plain = type(layer).forward

    def forward(hidden_states: Tensor) -> Tensor:
        output: Tensor = plain(layer, hidden_states) if torch.is_grad_enabled() else linear.with_gelu(hidden_states)
        return output

    return forward


def _is_large_and_unshared(table: nn.Embedding, encoder: nn.Module) -> bool:
    owners = sum(parameter is table.weight for part in encoder.modules() for parameter in part._parameters.values())
    plain = table.max_norm is None and not table.scale_grad_by_freq and not table.sparse
    return plain and owners == 1 and table.weight.requires_grad and table.weight.numel() >= LARGE_TABLE
