"""The fingerprint of an encoder: what its embeddings of a text depend on, in 32 hexadecimal digits."""

from __future__ import annotations

import hashlib
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor, nn

from gradate.engine.precision import Precision

FORMAT = 1
"""Raised when the engine's arithmetic changes by more than rounding: what was cached before is then of no use."""
KNOWN = ("torch", "transformers", "sentence_transformers", "peft", "gradate")
"""Packages whose code is not part of the fingerprint."""


class NoFingerprintError(ValueError):
    """A part of the encoder that its embeddings depend on cannot be read."""


def fingerprint(encoder: SentenceTransformer, precision: Precision, prompt: str | None = None) -> str:
    """Fingerprint of weights, tokenizer, modules with their settings, prompt, length limit and precision.

    Every call reads all weights (0.1 s for 22 M parameters): no cheaper sign, such as the tensors' version counters,
    sees every way in which training changes them.

    Args:
        encoder: The model, outside of any context that exchanges its parts for faster ones.
        precision: Precision of its arithmetic.
        prompt: Text put before every text; None: the encoder's default prompt, if any.

    Raises:
        NoFingerprintError: the weights are not plain tensors, or the tokenizer is none of the `tokenizers` library.
    """
    if prompt is None and encoder.default_prompt_name is not None:
        prompt = encoder.prompts.get(encoder.default_prompt_name)
    facts = {
        "format": FORMAT,
        "precision": precision.name,
        "prompt": prompt or "",
        "truncate_dim": encoder.truncate_dim,
        "max_seq_length": encoder.max_seq_length,
        "tokenizer": _tokenizer(encoder),
        "modules": [_settings(name, module) for name, module in encoder.named_children()],
        "models": [_config(name, module) for name, module in encoder.named_modules() if hasattr(module, "config")],
        "code": _foreign_code(encoder),
        "weights": _weights(encoder),
    }
    return hashlib.sha256(_json(facts)).hexdigest()[:32]


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()


def _weights(encoder: nn.Module) -> list[list[str]]:
    """Name, type, shape and digest of every parameter and buffer."""
    named = sorted(encoder.state_dict().items())
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        digests = list(pool.map(_digest, (value for _, value in named)))
    return [
        [name, str(value.dtype), str(list(value.shape)), digest]
        for (name, value), digest in zip(named, digests, strict=True)
    ]


def _digest(value: object) -> str:
    if not isinstance(value, Tensor):
        return hashlib.sha256(_json(value)).hexdigest()
    try:
        contents = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    except (RuntimeError, TypeError) as error:
        raise NoFingerprintError(f"weights of the kind {type(value).__name__} cannot be read") from error
    return hashlib.sha256(contents.data).hexdigest()


def _tokenizer(encoder: SentenceTransformer) -> dict[str, Any] | None:
    tokenizer = getattr(encoder[0], "tokenizer", None)
    if tokenizer is None:
        return None
    core = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(core, Tokenizer):
        raise NoFingerprintError(f"the tokenizer ({type(tokenizer).__name__}) cannot be read")
    state = json.loads(core.to_str())
    # Set anew by every call; the limit that counts is the encoder's.
    state.pop("truncation", None)
    state.pop("padding", None)
    return {
        "core": hashlib.sha256(_json(state)).hexdigest(),
        "truncation_side": getattr(tokenizer, "truncation_side", None),
        "inputs": getattr(tokenizer, "model_input_names", None),
    }


def _settings(name: str, module: nn.Module) -> dict[str, Any]:
    """Class and settings of one module of the encoder's chain."""
    backend = getattr(module, "backend", "torch")
    # An exported graph knows the digest of its files; in one of another kind the weights are out of sight.
    graph = getattr(getattr(module, "model", None), "digest", None)
    if backend != "torch" and graph is None:
        raise NoFingerprintError(f"the weights lie in a graph of the backend {backend}")
    # What a module writes when it is saved; `do_lower_case` acts too, but is no longer written.
    config: Any = getattr(module, "get_config_dict", dict)()
    lower = getattr(module, "do_lower_case", None)
    facts = {"name": name, "class": _class_name(type(module)), "lower": lower, "config": config}
    return facts if graph is None else {**facts, "graph": graph}


def _config(name: str, module: nn.Module) -> dict[str, Any]:
    """Configuration of a transformers model, without where it came from."""
    config: Any = module.config
    values = config.to_dict() if hasattr(config, "to_dict") else config
    if isinstance(values, dict):
        values = {k: v for k, v in values.items() if not k.startswith("_") and k != "transformers_version"}
    return {"name": name, "class": _class_name(type(module)), "config": values}


def _foreign_code(encoder: nn.Module) -> dict[str, str]:
    """Digest of the source of every module class that comes from elsewhere, for instance with the model."""
    classes = {type(module) for module in encoder.modules()}
    sources = {}
    for kind in classes:
        if kind.__module__.partition(".")[0] in KNOWN:
            continue
        try:
            sources[_class_name(kind)] = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
        except (OSError, TypeError):
            sources[_class_name(kind)] = "no source"
    return sources


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
