"""Folding trained PEFT adapters into the weights they adapt."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from torch import nn


def has_adapters(encoder: SentenceTransformer) -> bool:
    """Whether some layer of the encoder carries a PEFT adapter."""
    return any(_is_adapted(module) for module in encoder.modules())


def merge_adapters(encoder: SentenceTransformer) -> None:
    """Fold every PEFT adapter (LoRA, …) into its layer, in place, so that the encoder is a plain one again.

    Args:
        encoder: An encoder after `add_adapter`, or one whose transformer `peft.get_peft_model` wraps.
    """
    for parent in list(encoder.modules()):
        for name, child in list(parent.named_children()):
            if _is_adapted(child):
                setattr(parent, name, _merged(child))
    module: Any
    for module in encoder.modules():
        if getattr(module, "_hf_peft_config_loaded", False):
            # Else transformers would save an adapter that is no longer there instead of the weights.
            module._hf_peft_config_loaded = False
            del module.peft_config


def _is_adapted(module: nn.Module) -> bool:
    return any(hasattr(module, name) for name in ("merge_and_unload", *_UNLOADERS))


def _merged(module: Any) -> nn.Module:
    if hasattr(module, "merge_and_unload"):
        plain = module.merge_and_unload(safe_merge=True)
    elif hasattr(module, "unload_and_optionally_merge_module"):
        plain = module.unload_and_optionally_merge_module(merge=True, safe_merge=True, adapter_names=None)
    else:
        module.merge(safe_merge=True)
        plain = module.get_base_layer()
    assert isinstance(plain, nn.Module)
    return plain


_UNLOADERS = ("unload_and_optionally_merge_module", "get_base_layer")
