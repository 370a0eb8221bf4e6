"""From a model's name to an encoder: `bundled`, a folder or a Hub name; safetensors only."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import ORIGINAL_TRANSFORMER_MODELS
from transformers.utils import logging as transformers_logging

from gradate.errors import InputError
from gradate.models.backends import BackendName, find_graph, open_exported, require
from gradate.models.bundled import bundled_path
from gradate.models.head import HEAD_FOLDER
from gradate.models.tokenizer import provide_padding

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
# What a trainer leaves beside a model; no part of its weights.
TRAINER_FILES = ("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "rng_state*.pth")
OTHER_BACKENDS = ("onnx/*", "openvino/*", "coreml/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf")
DEFAULT_ORGANIZATION = "sentence-transformers"

logger = logging.getLogger(__name__)
TRUST = "read that code, and pass --trust-remote-code (trust_remote_code=True) if you trust it"


def resolve_model(name: str | Path, *, revision: str | None = None) -> Path:
    """Folder that holds the model, downloaded from the Hub where `name` is neither `bundled` nor a folder.

    Pickles are never downloaded. Without a connection the Hub's local cache is used.

    Args:
        name: `bundled`, a folder, or a Hub name (`owner/model`; a bare name means `sentence-transformers/…`).
        revision: Branch, tag or commit on the Hub.

    Raises:
        InputError: nothing there, or the Hub cannot be reached.
    """
    text = str(name)
    if text == "bundled":
        return bundled_path()
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise InputError("is a file, not a model folder", where=path, remedy="name the folder that holds it")
    if isinstance(name, Path) or not _looks_like_hub_name(text):
        raise InputError(
            "no such model folder", where=text, remedy="a model is 'bundled', a folder, or a Hub name like owner/model"
        )
    return _download(text, revision)


def open_encoder(
    folder: Path, *, device: str | None = None, trust_remote_code: bool = False, name: str | None = None
) -> SentenceTransformer:
    """Open a local model folder in float32, from safetensors or an exported graph, without touching the network.

    Args:
        folder: What `resolve_model` returned.
        device: `cpu`, `cuda:0`, …; None chooses. An exported graph computes on the CPU.
        trust_remote_code: Run Python code that comes with the model. Such code may download more.
        name: What to call the model in error messages; the folder by default.

    Raises:
        InputError: the folder holds no model, only pickled weights, a PEFT adapter, or something broken; or a graph
            whose runtime is not installed, or that was asked for on another device.
    """
    where = name or str(folder)
    graphs = check_folder(folder, where)
    backend = next(iter(graphs.values()), None)
    if backend is not None:
        require(backend, where=where)
        if device not in (None, "cpu"):
            what = f"an exported graph computes on the CPU, not on {device}"
            raise InputError(what, where=where, remedy="leave the device out, or take the original model")
    try:
        with quiet_progress():
            if backend is not None:
                encoder = open_exported(folder, backend, graphs, trust_remote_code=trust_remote_code)
            else:
                encoder = SentenceTransformer(
                    str(folder),
                    device=device,
                    trust_remote_code=trust_remote_code,
                    local_files_only=not trust_remote_code,
                    model_kwargs={"dtype": torch.float32, "use_safetensors": True},
                )
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise InputError("the model brings Python code of its own", where=where, remedy=TRUST) from error
        reason = f"cannot be opened as a sentence-transformers model: {_one_line(error)}"
        raise InputError(reason, where=where, remedy="restore the folder from its source") from error
    if backend is None and not trust_remote_code:
        _check_class(encoder, folder, where)
    provide_padding(encoder)
    # Else sentence-transformers asks the Hub about the base model whenever it writes a model card.
    encoder.model_card_data.local_files_only = True
    return encoder.eval()


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Hide transformers' progress bars for reading and writing weights."""
    enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if enabled:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def find_pickles(folder: Path) -> list[Path]:
    """Files under `folder` whose suffix says that they are pickles, sorted; none is opened."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in PICKLE_SUFFIXES and path.is_file())
    return sorted(path for path in found if not _is_openvino_weights(path))


def _is_openvino_weights(path: Path) -> bool:
    """Whether this is the bare array of numbers that OpenVINO keeps beside a graph of the same name."""
    return path.parent.name == "openvino" and path.suffix == ".bin" and path.with_suffix(".xml").is_file()


def _looks_like_hub_name(text: str) -> bool:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", text):
        return False
    # `runs/mine` where runs/ is a folder here is a mistyped path, not somebody's repository.
    return "/" not in text or not Path(text).parent.is_dir()


def _download(name: str, revision: str | None) -> Path:
    repository = name
    if "/" not in name and name.lower() not in ORIGINAL_TRANSFORMER_MODELS:
        repository = f"{DEFAULT_ORGANIZATION}/{name}"
    patterns = [*(f"*{suffix}" for suffix in PICKLE_SUFFIXES), *OTHER_BACKENDS]
    try:
        return Path(snapshot_download(repository, revision=revision, ignore_patterns=patterns))
    except HFValidationError as error:
        raise InputError(f"is no valid Hub name: {_one_line(error)}", where=name) from error
    except RepositoryNotFoundError as error:
        raise InputError(
            f"no such folder, and no model {repository!r} that you may read at {constants.ENDPOINT}",
            where=name,
            remedy="check the spelling; a private or gated model needs HF_TOKEN",
        ) from error
    except RevisionNotFoundError as error:
        raise InputError(f"{repository!r} has no revision {revision!r}", where=name) from error
    except Exception as error:
        raise InputError(
            f"no such folder, not in the Hub's local cache, and the Hub ({constants.ENDPOINT}) cannot be reached: "
            f"{_one_line(error.__cause__ or error)}",
            where=name,
            remedy="name a local folder or 'bundled', or try again with a connection",
        ) from error


def check_folder(folder: Path, where: str) -> dict[str, BackendName]:
    """Refuse what cannot be opened safely.

    Args:
        folder: What `resolve_model` returned.
        where: What to call the model in error messages.

    Returns:
        The backend of each module that is an exported graph, by the module's class.

    Raises:
        InputError: the folder holds no model, only pickled weights, or a PEFT adapter.
    """
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            raise _adapter_error(folder, where)
        inner = folder / "model"
        remedy = f"did you mean {inner}?" if (inner / "modules.json").is_file() else "name the folder that holds them"
        raise InputError("is no model folder: it has neither modules.json nor config.json", where=where, remedy=remedy)
    graphs: dict[str, BackendName] = {}
    for module, kind in list_modules(folder, where):
        if (module / "adapter_config.json").is_file():
            raise _adapter_error(module, where)
        if kind.endswith("Transformer") and (backend := find_graph(module)) is not None:
            graphs[kind] = backend
            continue
        pickles = [p for p in _direct_pickles(module) if not any(p.match(pattern) for pattern in TRAINER_FILES)]
        if pickles and not any(module.glob("*.safetensors")):
            raise InputError(
                f"the weights are a pickle ({pickles[0].relative_to(folder)}), which may run code and is never opened",
                where=where,
                remedy="convert them where you trust their origin: SentenceTransformer(PATH).save_pretrained(NEW)",
            )
        if kind.endswith("Transformer") and not any(module.glob("*.safetensors")):
            raise InputError(
                "holds no safetensors weights (pickled ones are neither downloaded nor opened)",
                where=where,
                remedy="choose a revision or a copy with model.safetensors",
            )
    head = folder / HEAD_FOLDER
    if head.is_dir() and (pickles := _direct_pickles(head)) and not any(head.glob("*.safetensors")):
        raise InputError(
            f"the pair head is a pickle ({pickles[0].relative_to(folder)}), which may run code and is never opened",
            where=where,
            remedy="restore graded_head/model.safetensors, or delete graded_head and fit a head with: gradate train",
        )
    if unread := find_pickles(folder):
        names = ", ".join(str(path.relative_to(folder)) for path in unread)
        logger.warning(
            "%s: holds pickles (%s): not opened, the weights beside them are read; delete them", where, names
        )
    return graphs


def _check_class(encoder: SentenceTransformer, folder: Path, where: str) -> None:
    """Refuse weights made for code that the model brings, where transformers has put them into a class of its own.

    A model may call itself `bert` and bring a class with other position embeddings, for instance; without that class
    it opens, and half of it is random.
    """
    for (place, _), module in zip(list_modules(folder, where), encoder, strict=False):
        config = place / "config.json"
        if not isinstance(module, Transformer) or not config.is_file():
            continue
        own = json.loads(config.read_text(encoding="utf-8")).get("auto_map", {}).get("AutoModel", "").split(".")[-1]
        native = type(module.auto_model).__name__
        if own and own != native:
            raise InputError(f"was made with {own}, Python code of its own, not {native}", where=where, remedy=TRUST)
        if own:
            logger.warning("%s brings Python code of its own, which is not run: transformers' %s is", where, native)


def list_modules(folder: Path, where: str) -> list[tuple[Path, str]]:
    """Folder and class of each module; a folder without modules.json is one transformer.

    Raises:
        InputError: modules.json is broken, or leads out of the folder.
    """
    modules_file = folder / "modules.json"
    if not modules_file.is_file():
        return [(folder, "Transformer")]
    try:
        modules: list[dict[str, Any]] = json.loads(modules_file.read_text(encoding="utf-8"))
        paths = [(Path(module["path"]), str(module["type"])) for module in modules]
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise InputError(f"modules.json cannot be read: {_one_line(error)}", where=where) from error
    if any(path.is_absolute() or ".." in path.parts for path, _ in paths):
        raise InputError("modules.json names a path outside the model folder", where=where)
    return [(folder / path, kind) for path, kind in paths]


def _direct_pickles(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in PICKLE_SUFFIXES and path.is_file())


def _adapter_error(folder: Path, where: str) -> InputError:
    try:
        base = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (ValueError, OSError, AttributeError):
        base = None
    return InputError(
        f"holds a PEFT adapter of {base or 'an unnamed base'}, not a whole model",
        where=where,
        remedy="merge the adapter into its base (peft: merge_and_unload) and name the folder saved from that",
    )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."
