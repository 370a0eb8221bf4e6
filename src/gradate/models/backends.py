"""Exported graphs: an encoder whose transformer runs in ONNX Runtime or OpenVINO in the place of torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import nn
from transformers import PretrainedConfig
from transformers.modeling_outputs import BaseModelOutput

from gradate.engine.precision import Precision, PrecisionName, resolve_precision
from gradate.errors import InputError

BackendName: TypeAlias = Literal["onnx", "openvino"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
GRAPH_FILES: Mapping[BackendName, str] = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}
"""Where a module's graph lies: the places where sentence-transformers' own backends look."""
EXPORT_FILE = "export.json"
"""What `gradate export` measured, beside modules.json."""
_RUNTIME: Mapping[BackendName, tuple[str, ...]] = {"onnx": ("onnxruntime",), "openvino": ("openvino",)}
_TITLES: Mapping[BackendName, str] = {"onnx": "ONNX Runtime", "openvino": "OpenVINO"}

Array: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = Callable[[dict[str, Array]], Array]


def find_graph(module: Path) -> BackendName | None:
    """The backend whose graph lies in a module's folder, where the weights of torch do not; else None."""
    if any(module.glob("*.safetensors")):
        return None
    return next((backend for backend, file in GRAPH_FILES.items() if (module / file).is_file()), None)


def require(backend: BackendName, *more: str, where: object = None) -> None:
    """Check that the packages of a backend are installed.

    Args:
        backend: `onnx` or `openvino`.
        more: Packages needed beside the runtime.
        where: The model that needs them.

    Raises:
        InputError: one is missing; the line names the extra.
    """
    # What a test or a program set to None in sys.modules counts as missing, as for `import`.
    missing = [name for name in (*_RUNTIME[backend], *more) if not _is_installed(name)]
    if missing:
        what = f"{_TITLES[backend]} is needed, and {', '.join(missing)} is not installed"
        raise InputError(what, where=where, remedy=f'pip install "gradate[{backend}]"')


def open_exported(
    folder: Path, backend: BackendName, kinds: Iterable[str], *, trust_remote_code: bool = False
) -> SentenceTransformer:
    """Open a folder that `gradate export` wrote; it computes on the CPU.

    Args:
        folder: The model folder.
        backend: See `find_graph`.
        kinds: Class names, as modules.json has them, of the modules that are graphs.
        trust_remote_code: Run Python code that comes with the model.
    """
    # sentence-transformers opens such folders through optimum, whose releases end before transformers 5.23; this takes
    # its own class with only the graph's loading replaced, and all else (tokens, pooling, prompts) stays its own.
    return SentenceTransformer._load_with_module_classes(
        str(folder),
        dict.fromkeys(kinds, GraphTransformer),
        device="cpu",
        backend=backend,
        trust_remote_code=trust_remote_code,
        local_files_only=not trust_remote_code,
    )


def is_exported(encoder: SentenceTransformer) -> bool:
    """Whether the encoder's transformer is a graph: it computes, but can be neither trained nor saved."""
    graph: object = encoder.transformers_model
    return isinstance(graph, Graph)


def encoder_precision(name: PrecisionName | str, encoder: SentenceTransformer) -> Precision:
    """The precision of an encoder's forward passes: a graph has its own, everything else the one asked for.

    Args:
        name: `auto`, `fp32`, `tf32` or `bf16`.
        encoder: A sentence-transformers model.

    Raises:
        InputError: another name, or one that is not the graph's.
    """
    graph: object = encoder.transformers_model
    if not isinstance(graph, Graph):
        return resolve_precision(name, encoder.device)
    if name not in ("auto", graph.precision.name):
        what = f"this exported model computes in {graph.precision.name}, not in {name}"
        raise InputError(what, where="precision", remedy="leave it at auto, or take the original model")
    return graph.precision


class Graph(nn.Module):
    """A transformer's graph from token numbers to token embeddings; without parameters, so it cannot be trained.

    Args:
        folder: Folder of the module the graph belongs to.
        backend: What runs it.
        config: The transformer's configuration.

    Attributes:
        precision: What the graph computes in.
    """

    def __init__(self, folder: Path, backend: BackendName, config: PretrainedConfig) -> None:
        super().__init__()
        self.config = config
        self._file = folder / GRAPH_FILES[backend]
        self._names, self._run, computes_in = _OPENERS[backend](self._file)
        name = "int8" if _is_quantized(folder) else computes_in
        self.precision = Precision(name, f"the exported graph's own ({_TITLES[backend]})")

    @cached_property
    def digest(self) -> str:
        """Digest of the graph's files: what its token embeddings depend on, in the place of weights."""
        whole = hashlib.sha256()
        for file in sorted(file for file in self._file.parent.iterdir() if file.is_file()):
            with file.open("rb") as opened:
                while chunk := opened.read(1 << 20):
                    whole.update(chunk)
        return whole.hexdigest()

    def forward(self, **features: Any) -> BaseModelOutput:
        """Token embeddings (batch, tokens, dim) of what the tokenizer gave."""
        # Names and number of a graph's inputs differ from model to model, as those of the model it was made from.
        hidden = self._run({name: features[name].numpy() for name in self._names})
        return BaseModelOutput(last_hidden_state=torch.from_numpy(hidden))

    def save_pretrained(self, *_: object, **__: object) -> None:
        """A graph is not written again.

        Raises:
            InputError: always.
        """
        raise InputError("an exported model cannot be saved again", remedy="copy its folder, or save the original")


class GraphTransformer(Transformer):
    """sentence-transformers' transformer module over a graph."""

    def _load_model(  # type: ignore[override]
        self,
        model_name_or_path: str,
        transformer_task: str,
        config: PretrainedConfig,
        backend: str,
        is_peft_model: bool,
        **model_kwargs: Any,
    ) -> nn.Module:
        return Graph(Path(model_name_or_path) / model_kwargs.get("subfolder", ""), cast(BackendName, backend), config)


def import_openvino() -> Any:
    """OpenVINO without its usage statistics, which it would send to its makers from its import on."""
    # OpenVINO and NNCF both do without this package where it is missing.
    sys.modules.setdefault("openvino_telemetry", cast(Any, None))
    import openvino

    return openvino


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return importlib.util.find_spec(name) is not None


def _is_quantized(folder: Path) -> bool:
    """What the export wrote down about the graph; one from elsewhere counts as not quantized."""
    for place in (folder, folder.parent):
        try:
            found = json.loads((place / EXPORT_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return isinstance(found, dict) and found.get("quantization") == "int8"
    return False


Opened: TypeAlias = tuple[list[str], Run, Literal["fp32", "bf16"]]


def _open_onnx(file: Path) -> Opened:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The engine passes one batch a core; a pool of the graph's own would only compete with it.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run(features: dict[str, Array]) -> Array:
        return np.asarray(session.run(None, features)[0])

    return [entry.name for entry in session.get_inputs()], run, "fp32"


def _open_openvino(file: Path) -> Opened:
    openvino = import_openvino()
    threads = torch.get_num_threads()
    compiled = openvino.Core().compile_model(
        str(file), "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": threads}
    )
    requests = threading.local()  # a request serves one thread at a time

    def run(features: dict[str, Array]) -> Array:
        if not hasattr(requests, "own"):
            requests.own = compiled.create_infer_request()
        # Copied: the next call would overwrite the request's memory.
        return np.array(requests.own.infer(features)[0])

    in_bf16 = "bfloat16" in str(compiled.get_property("INFERENCE_PRECISION_HINT"))
    return [entry.get_any_name() for entry in compiled.inputs], run, "bf16" if in_bf16 else "fp32"


_OPENERS: Mapping[BackendName, Callable[[Path], Opened]] = {"onnx": _open_onnx, "openvino": _open_openvino}
