"""Writing a model folder whose transformer is an ONNX or OpenVINO graph, quantized to int8 where asked."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

from gradate.errors import GradateError, InputError
from gradate.models.backends import EXPORT_FILE, GRAPH_FILES, BackendName, import_openvino, is_exported, require
from gradate.models.graded import GradedModel

PROBE = ("one", "a few more words", "a text of some length, so that the three of them differ in how long they are")
OUTPUT = "last_hidden_state"
"""The graph's output, by the name that sentence-transformers' own backends ask for."""
CALIBRATION_TEXTS = 300
"""Texts from which OpenVINO's int8 ranges are read; NNCF's own default."""
LARGEST_PROTOBUF = 1_900_000_000
"""Bytes of weights that an ONNX file holds; those of a larger model lie in a file beside it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """A graph that was written.

    Args:
        backend: What runs it.
        quantization: `int8`, or None for the original's own numbers.
        reason: How it was quantized, for which instructions, and why; empty without quantization.
        bytes: Size of the graph and its weights.
        original_bytes: Size of the weights it takes the place of, as torch stores them.
    """

    backend: BackendName
    quantization: str | None
    reason: str
    bytes: int
    original_bytes: int


@dataclass(frozen=True)
class InstructionSet:
    """The CPU's instructions for products of 8-bit numbers.

    Args:
        name: For instance `avx512_vnni`.
        reason: The choice in words.
        seven_bits: Whether weights keep to 7 bits, because sums of two products would overflow 16.
    """

    name: str
    reason: str
    seven_bits: bool = False


def check_exportable(model: GradedModel, backend: BackendName, *, int8: bool) -> None:
    """Refuse what cannot be exported, before any work is done for it.

    Raises:
        InputError: a package is missing, or the encoder is no transformer over token numbers.
    """
    check_installed(backend, int8=int8)
    transformer = _transformer(model.encoder)
    if transformer is None:
        what = "only an encoder that starts with a transformer over tokens can be exported"
        raise InputError(what, where=model.name)
    if is_exported(model.encoder):
        raise InputError("is an exported model already", where=model.name, remedy="export the original")


def check_installed(backend: BackendName, *, int8: bool) -> None:
    """Refuse an export whose packages are missing.

    Raises:
        InputError: names them and the extra that brings them.
    """
    more = ("onnx", "onnxscript") if backend == "onnx" else ("nncf",) if int8 else ()
    require(backend, *more)


def write_exported(
    model: GradedModel, folder: Path, backend: BackendName, *, int8: bool, calibration: Sequence[str] = ()
) -> Written:
    """Write the model with a graph in the place of its transformer's weights; head, pooling and all else stay.

    The graph lies where sentence-transformers' own backends look: `onnx/model.onnx`, `openvino/openvino_model.xml`.

    Args:
        model: The original; see `check_exportable`.
        folder: An empty folder.
        backend: `onnx` or `openvino`.
        int8: Quantize: weights and, as they come (ONNX) or by calibrated ranges (OpenVINO), activations.
        calibration: Texts whose activations set OpenVINO's ranges; the first `CALIBRATION_TEXTS` distinct ones.

    Raises:
        GradateError: the transformer does something the backend's converter cannot follow.
    """
    model.save(folder)
    module = _module_folder(folder)
    weights = [*module.glob("*.safetensors"), *module.glob("*.safetensors.index.json")]
    original = sum(file.stat().st_size for file in weights)
    for file in weights:
        file.unlink()
    graph = module / GRAPH_FILES[backend]
    graph.parent.mkdir()
    transformer = _transformer(model.encoder)
    assert transformer is not None
    try:
        with _quiet():
            inputs = _inputs(model.encoder, transformer, PROBE)
            program = _trace(transformer, inputs)
            if backend == "onnx":
                large = original > LARGEST_PROTOBUF
                reason = _write_onnx(program, list(inputs), graph, int8=int8, large=large)
            else:
                items = _calibration_items(model.encoder, transformer, calibration) if int8 else []
                reason = _write_openvino(program, list(inputs), graph, items)
    except (OSError, GradateError):
        raise
    except Exception as error:
        line = " ".join(str(error).split())[:300] or type(error).__name__
        raise GradateError(f"{model.name}: its transformer cannot be converted to {backend}: {line}") from error
    size = sum(file.stat().st_size for file in graph.parent.iterdir())
    written = Written(backend, "int8" if int8 else None, reason, size, original)
    # Whoever opens the folder reads here what the graph computes in.
    (folder / EXPORT_FILE).write_text(json.dumps(asdict(written)), encoding="utf-8")
    return written


def instruction_set() -> InstructionSet:
    """The fastest instructions this CPU has for products of 8-bit numbers, as ONNX Runtime uses them.

    Source: ONNX Runtime's notes on quantization, "when to use reduce-range".
    """
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    architecture = str(capabilities.get("architecture", "unknown"))
    for name in ("amx_int8", "avx512_vnni", "avx_vnni"):
        if capabilities.get(name):
            return InstructionSet(name, f"this CPU has {name}")
    for name in ("avx512_f", "avx2"):
        if capabilities.get(name):
            reason = f"this CPU has {name} without VNNI: weights in 7 bits, so that sums stay within 16"
            return InstructionSet(name, reason, seven_bits=True)
    return InstructionSet(architecture, f"this CPU is {architecture}")


class _TokenEmbeddings(nn.Module):
    """A transformer reduced to its last hidden state: a pooler nobody reads must not be in the graph."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        hidden: Tensor = self.model(**inputs, return_dict=True).last_hidden_state
        return hidden


def _transformer(encoder: SentenceTransformer) -> Transformer | None:
    first = next(iter(encoder.children()), None)
    if not isinstance(first, Transformer) or first.transformer_task != "feature-extraction":
        return None
    text = first.modality_config.get("text", {})
    reads_tokens = text.get("method") == "forward" and text.get("method_output_name") == OUTPUT
    return first if reads_tokens else None


def _module_folder(folder: Path) -> Path:
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return folder / str(modules[0]["path"])


def _inputs(encoder: SentenceTransformer, transformer: Transformer, texts: Sequence[str]) -> dict[str, Tensor]:
    known = inspect.signature(transformer.model.forward).parameters
    features = encoder.preprocess(list(texts))
    return {name: value for name, value in features.items() if isinstance(value, Tensor) and name in known}


def _trace(transformer: Transformer, inputs: dict[str, Tensor]) -> torch.export.ExportedProgram:
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = {"inputs": dict.fromkeys(inputs, free)}
    with torch.no_grad():
        # torch.export, not torch.jit.trace: a trace bakes the mask of the texts it saw into the graph.
        return torch.export.export(
            _TokenEmbeddings(transformer.model).eval(), (), {"inputs": inputs}, dynamic_shapes=shapes, strict=False
        )


def _write_onnx(
    program: torch.export.ExportedProgram, names: list[str], graph: Path, *, int8: bool, large: bool
) -> str:
    with tempfile.TemporaryDirectory(dir=graph.parent) as temporary:
        plain = Path(temporary) / graph.name if int8 else graph
        torch.onnx.export(
            program,
            f=str(plain),
            input_names=names,
            output_names=[OUTPUT],
            external_data=large,
            verbose=False,
        )
        return _quantize_onnx(plain, graph, large=large) if int8 else ""


def _quantize_onnx(plain: Path, graph: Path, *, large: bool) -> str:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    chosen = instruction_set()
    prepared = plain.with_name("prepared.onnx")
    quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True, save_as_external_data=large)
    quantize_dynamic(
        str(prepared),
        str(graph),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=chosen.seven_bits,
        use_external_data_format=large,
    )
    return f"dynamic int8 for {chosen.name}: {chosen.reason}"


def _calibration_items(
    encoder: SentenceTransformer, transformer: Transformer, texts: Sequence[str]
) -> list[dict[str, Any]]:
    distinct = list(dict.fromkeys(texts))[:CALIBRATION_TEXTS]
    return [
        {name: value.numpy() for name, value in _inputs(encoder, transformer, [text]).items()} for text in distinct
    ]


def _write_openvino(
    program: torch.export.ExportedProgram, names: list[str], graph: Path, items: list[dict[str, Any]]
) -> str:
    openvino = import_openvino()
    converted, reason = openvino.convert_model(program), ""
    for name, entry in zip([*names, OUTPUT], [*converted.inputs, *converted.outputs], strict=True):
        entry.get_tensor().set_names({name})
    if items:
        import nncf

        converted = nncf.quantize(
            converted, nncf.Dataset(items), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(items)
        )
        reason = f"static int8, calibrated on {len(items)} texts; OpenVINO picks the instructions where it runs"
    openvino.save_model(converted, str(graph), compress_to_fp16=False)
    return reason


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what converters print, log and warn about their own insides off the user's terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
