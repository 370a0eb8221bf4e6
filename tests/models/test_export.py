from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import MPNetConfig, MPNetModel, XLMRobertaConfig, XLMRobertaModel

from gradate.errors import GradateError, InputError
from gradate.models import export
from gradate.models.backends import BACKENDS, BackendName
from gradate.models.export import check_exportable, instruction_set, write_exported
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.scale import LabelScale
from tests.graphs import needs, plant_graph, pretend_installed
from tests.tiny import VOCABULARY, tiny_encoder

TEXTS = [
    "a b c",
    "one text",
    "x",
    "",
    "a rather longer text of many letters, longer than any in the probe of the export",
]
REAL = [
    pytest.param(backend, int8, id=f"{backend}-{'int8' if int8 else 'fp32'}", marks=needs(backend))
    for backend in BACKENDS
    for int8 in (False, True)
]


def _model() -> GradedModel:
    torch.manual_seed(0)
    return GradedModel(tiny_encoder(), PairHead(32), LabelScale.from_values([0, 1, 2]), precision="fp32")


@pytest.mark.parametrize(("backend", "int8"), REAL)
def test_a_written_graph_computes_what_the_model_computes(backend: BackendName, int8: bool, tmp_path: Path) -> None:
    original = _model()
    written = write_exported(original, tmp_path, backend, int8=int8, calibration=[*TEXTS, *TEXTS])
    assert (written.backend, written.quantization) == (backend, "int8" if int8 else None)
    assert bool(written.reason) is int8
    graph = next(tmp_path.glob("*/*.onnx" if backend == "onnx" else "*/*.xml")).parent
    assert written.bytes == sum(file.stat().st_size for file in graph.iterdir())
    assert not list(tmp_path.glob("*.safetensors"))
    exported = GradedModel.from_pretrained(tmp_path)
    assert exported.precision.name == ("int8" if int8 else exported.precision.name)
    # One text and several, short and long: sizes of a batch are free in the graph.
    for texts in (TEXTS, TEXTS[:1], [TEXTS[-1]] * 3):
        cosines = (np.asarray(exported.encode(texts)) * np.asarray(original.encode(texts))).sum(axis=1)
        assert cosines.min() > (0.99 if int8 else 0.999)
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    np.testing.assert_allclose(exported.predict(pairs), original.predict(pairs), atol=0.2 if int8 else 0.02)


@pytest.mark.parametrize("family", ["xlm-roberta", "mpnet"])
@pytest.mark.parametrize("backend", [pytest.param(backend, marks=needs(backend)) for backend in BACKENDS])
def test_other_families_of_encoders_convert(backend: BackendName, family: str, tmp_path: Path) -> None:
    original = _model()
    sizes = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 80,
    }
    torch.manual_seed(1)
    other = MPNetModel(MPNetConfig(**sizes)) if family == "mpnet" else XLMRobertaModel(XLMRobertaConfig(**sizes))
    original.encoder[0].model = other.eval()
    write_exported(original, tmp_path, backend, int8=False)
    exported = GradedModel.from_pretrained(tmp_path)
    cosines = (np.asarray(exported.encode(TEXTS)) * np.asarray(original.encode(TEXTS))).sum(axis=1)
    assert cosines.min() > 0.999


@needs("onnx")
@pytest.mark.parametrize("int8", [False, True])
def test_a_large_model_keeps_its_weights_beside_the_graph(
    int8: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LARGEST_PROTOBUF", 0)
    original = _model()
    written = write_exported(original, tmp_path, "onnx", int8=int8)
    assert len(list((tmp_path / "onnx").iterdir())) == 2
    assert written.bytes == sum(file.stat().st_size for file in (tmp_path / "onnx").iterdir())
    exported = GradedModel.from_pretrained(tmp_path)
    assert (np.asarray(exported.encode(TEXTS)) * np.asarray(original.encode(TEXTS))).sum(axis=1).min() > 0.99


def test_a_conversion_that_fails_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("unsupported\noperator")

    monkeypatch.setattr(export, "_trace", fail)
    with pytest.raises(GradateError, match="model: its transformer cannot be converted to onnx: unsupported operator"):
        write_exported(_model(), tmp_path, "onnx", int8=False)


@pytest.mark.parametrize(
    ("backend", "int8", "package"),
    [
        ("onnx", False, "onnxruntime"),
        ("onnx", True, "onnxscript"),
        ("openvino", False, "openvino"),
        ("openvino", True, "nncf"),
    ],
)
def test_missing_packages_are_named(
    backend: BackendName, int8: bool, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf'{package}.* not installed \(pip install "gradate\[{backend}\]"\)'):
        check_exportable(_model(), backend, int8=int8)


def test_what_is_no_transformer_or_a_graph_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, "onnx")
    static = StaticEmbedding(tiny_encoder().tokenizer.backend_tokenizer, embedding_dim=8)
    encoder = SentenceTransformer(modules=[static], device="cpu", local_files_only=True)
    with pytest.raises(InputError, match="only an encoder that starts with a transformer"):
        check_exportable(GradedModel(encoder, name="static"), "onnx", int8=False)
    _model().save(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    plant_graph(tmp_path / "m", "onnx")
    with pytest.raises(InputError, match=r"is an exported model already \(export the original\)"):
        check_exportable(GradedModel.from_pretrained(tmp_path / "m"), "onnx", int8=False)


@pytest.mark.parametrize(
    ("capabilities", "name", "seven_bits"),
    [
        ({"architecture": "x86_64", "avx512_vnni": True, "avx512_f": True, "avx2": True}, "avx512_vnni", False),
        ({"architecture": "x86_64", "amx_int8": True, "avx512_vnni": True}, "amx_int8", False),
        ({"architecture": "x86_64", "avx_vnni": True, "avx2": True}, "avx_vnni", False),
        ({"architecture": "x86_64", "avx512_f": True, "avx2": True}, "avx512_f", True),
        ({"architecture": "x86_64", "avx512_f": False, "avx2": True}, "avx2", True),
        ({"architecture": "aarch64"}, "aarch64", False),
    ],
)
def test_the_instructions_follow_the_cpu(
    capabilities: dict[str, object], name: str, seven_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    chosen = instruction_set()
    assert (chosen.name, chosen.seven_bits) == (name, seven_bits)
    assert name in chosen.reason and ("7 bits" in chosen.reason) is seven_bits


@needs("onnx")
def test_what_was_written_is_said_in_the_folder(tmp_path: Path) -> None:
    written = write_exported(_model(), tmp_path, "onnx", int8=True)
    assert written.reason == f"dynamic int8 for {instruction_set().name}: {instruction_set().reason}"
    assert json.loads((tmp_path / "export.json").read_text())["quantization"] == "int8"
