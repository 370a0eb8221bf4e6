"""Likeness: whether the weights of several models may be averaged, number by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from gradate.errors import InputError
from gradate.models.checkpoint import Checkpoint, Stored
from gradate.models.head import HEAD_FOLDER
from gradate.models.loading import list_modules

_CONFIGURATIONS = ("config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
# What a configuration says of its own making.
_ORIGINS = ("__version__", "transformers_version", "_name_or_path", "dtype", "torch_dtype")
# How texts are cut and filled up is no matter of what a token means.
_BATCHING = ("truncation", "padding", "version")
_VOCABULARIES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
_REMEDY = "fuse models of one architecture; save an old one anew: SentenceTransformer(PATH).save_pretrained(NEW)"


def require_alike(base: Checkpoint, runs: Sequence[Checkpoint]) -> None:
    """Refuse models whose weights do not correspond.

    The runs must agree in modules, tokenizer and tensors. Of the base, which gives weights alone, tokenizer and
    floating-point tensors are compared: how an older version of a library wrote down its pooling does not matter.

    Raises:
        InputError: names the model and what is different in it.
    """
    first = runs[0]
    for run in runs[1:]:
        _same_modules(first, run)
        _same_tokenizer(first, run)
        _same_tensors(first, run)
    _same_tokenizer(first, base)
    _same_tensors(first, base, floating=True)


def _same_modules(first: Checkpoint, other: Checkpoint) -> None:
    kinds, others = (
        [kind.split(".")[-1] for _, kind in list_modules(model.folder, model.name)] for model in (first, other)
    )
    if kinds != others:
        what = f"its modules are {', '.join(others)}, those of {first.name} are {', '.join(kinds)}"
        raise InputError(what, where=other.name, remedy=_REMEDY)
    configs, other_configs = (_configurations(model) for model in (first, other))
    for file in sorted({*configs, *other_configs}):
        mine, its = (found.get(file, {}) for found in (configs, other_configs))
        for key in sorted({*mine, *its}):
            if mine.get(key) != its.get(key):
                what = f"{file} says {key} = {its.get(key)!r}, that of {first.name} says {mine.get(key)!r}"
                raise InputError(what, where=other.name, remedy=_REMEDY)


def _configurations(model: Checkpoint) -> dict[str, dict[str, Any]]:
    """Configurations by their place in the folder, without what they say of their own making."""
    found = {}
    for name in _CONFIGURATIONS:
        for path in sorted(model.folder.rglob(name)):
            file = path.relative_to(model.folder)
            if HEAD_FOLDER not in file.parts:
                found[file.as_posix()] = {k: v for k, v in _read(path, model).items() if k not in _ORIGINS}
    return found


def _same_tokenizer(first: Checkpoint, other: Checkpoint) -> None:
    if _tokenizer(first) != _tokenizer(other):
        raise InputError(f"has another tokenizer than {first.name}", where=other.name, remedy=_REMEDY)


def _tokenizer(model: Checkpoint) -> dict[str, Any]:
    """What says which token a row of the embeddings belongs to."""
    for path in sorted(model.folder.rglob("tokenizer.json")):
        return {key: value for key, value in _read(path, model).items() if key not in _BATCHING}
    return {path.name: path.read_bytes() for name in _VOCABULARIES for path in sorted(model.folder.rglob(name))}


def text_length(model: Checkpoint) -> int | None:
    """Tokens that a model's tokenizer takes of a text; None where its configuration sets no limit."""
    for path in sorted(model.folder.rglob("tokenizer_config.json")):
        limit = _read(path, model).get("model_max_length")
        return None if limit is None or limit >= VERY_LARGE_INTEGER else int(limit)
    return None


def _read(path: Path, model: Checkpoint) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        content = error
    if not isinstance(content, dict):
        what = f"{path.relative_to(model.folder)} cannot be read as JSON"
        raise InputError(what, where=model.name, remedy="restore the folder from its source")
    return content


def _same_tensors(first: Checkpoint, other: Checkpoint, *, floating: bool = False) -> None:
    mine, its = (
        {name: _form(t) for name, t in model.tensors.items() if t.dtype.is_floating_point or not floating}
        for model in (first, other)
    )
    for name in sorted({*mine, *its}):
        if name not in its:
            raise InputError(f"lacks the tensor {name}, which {first.name} has", where=other.name, remedy=_REMEDY)
        if name not in mine:
            raise InputError(f"has the tensor {name}, which {first.name} lacks", where=other.name, remedy=_REMEDY)
        if mine[name] != its[name]:
            what = f"the tensor {name} holds {its[name]}, that of {first.name} {mine[name]}"
            raise InputError(what, where=other.name, remedy=_REMEDY)


def _form(tensor: Stored) -> str:
    size = "×".join(map(str, tensor.shape)) or "1"
    return f"{size} {'numbers' if tensor.dtype.is_floating_point else 'integers'}"
