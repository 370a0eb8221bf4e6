"""Frozen weights held in four bits while adapters train beside them (QLoRA), and the whole weights back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch import nn

from gradate.errors import InputError


def require_bitsandbytes() -> Any:
    """The layers of bitsandbytes.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module("bitsandbytes.nn.modules")
    except ImportError as error:
        remedy = 'pip install "gradate[4bit]", or leave lora.bits out'
        raise InputError("bitsandbytes is not installed", where="lora.bits", remedy=remedy) from error


@contextmanager
def held_in_four_bits(model: nn.Module) -> Iterator[None]:
    """Hold every linear layer's weights as NF4 with doubly quantized constants, by bitsandbytes.

    Meant for adapters that are put around the layers meanwhile: on leaving, the whole weights come back below them,
    and are what the adapters can be merged into. Until then they wait in main memory.

    Args:
        model: A transformer, changed in place.

    Raises:
        InputError: bitsandbytes is not installed.

    Source: Dettmers et al. (2023), "QLoRA"; Zhang & Li (2024), Pcc-tuning.
    """
    bitsandbytes = require_bitsandbytes()

    def quantized(layer: nn.Linear) -> Any:
        small = bitsandbytes.Linear4bit(
            layer.in_features, layer.out_features, layer.bias is not None, quant_type="nf4", device="meta"
        )
        small.weight = bitsandbytes.Params4bit(
            layer.weight.detach().clone(), requires_grad=False, quant_type="nf4", compress_statistics=True
        )
        if layer.bias is not None:
            small.bias = nn.Parameter(layer.bias.detach().clone(), requires_grad=False)
        # Else some CPUs repack the weights of a layer in evaluation, for good, and only widths of whole blocks.
        small.support_avx512bf16_for_cpu = False
        return small.to(layer.weight.device)

    whole: dict[int, nn.Linear] = {}
    for parent, name, layer in list(_children(model, nn.Linear)):
        small = quantized(layer)
        setattr(parent, name, small)
        whole[id(small)] = layer.to("cpu")
    try:
        yield
    finally:
        for parent, name, layer in list(_children(model, bitsandbytes.Linear4bit)):
            setattr(parent, name, whole[id(layer)].to(layer.weight.device))


def _children(model: nn.Module, kind: type[nn.Module]) -> Iterator[tuple[nn.Module, str, Any]]:
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is kind:
                yield parent, name, child
