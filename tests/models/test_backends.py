from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from gradate.engine.fingerprint import fingerprint
from gradate.errors import InputError
from gradate.evaluation.protocol import evaluate
from gradate.models import backends
from gradate.models.backends import BACKENDS, BackendName, Graph, find_graph, is_exported
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.models.loading import find_pickles, open_encoder
from gradate.runs.run import train
from gradate.scale import LabelScale
from tests.graded import graded_pairs, write_csv
from tests.graphs import needs, plant_graph, pretend_installed
from tests.tiny import tiny_encoder

PAIRS = [("one text", "another text"), ("a", "a rather longer text than that"), ("", "x")]


@pytest.fixture
def original() -> GradedModel:
    torch.manual_seed(0)
    return GradedModel(tiny_encoder(), PairHead(32), LabelScale.from_values([0, 1, 2]), precision="fp32")


def _exported(original: GradedModel, folder: Path, backend: BackendName, *, int8: bool = False) -> Path:
    original.save(folder)
    (folder / "model.safetensors").unlink()
    plant_graph(folder, backend, int8=int8)
    return folder


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exported_folder_opens_and_predicts_as_the_original(
    backend: BackendName, original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[str]
) -> None:
    pretend_installed(monkeypatch, backend)
    model = GradedModel.from_pretrained(_exported(original, tmp_path / "m", backend), precision="auto")
    assert is_exported(model.encoder) and not is_exported(original.encoder)
    assert model.encoder.get_backend() == backend
    np.testing.assert_allclose(model.predict(PAIRS), original.predict(PAIRS), atol=1e-6)
    np.testing.assert_allclose(model.similarity(PAIRS), original.similarity(PAIRS), atol=1e-6)
    np.testing.assert_allclose(model.encode("one text"), original.encode("one text"), atol=1e-6)
    assert no_network == []


def test_prompts_and_limits_travel(original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original.encoder.prompts = {"query": "q q q "}
    original.encoder.max_seq_length = 9
    pretend_installed(monkeypatch, "onnx")
    model = GradedModel.from_pretrained(_exported(original, tmp_path / "m", "onnx"))
    text = "a b c d e f g h i j k l m"
    for prompt in (None, "query"):
        found, expected = (m.encode(text, prompt_name=prompt) for m in (model, original))
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert model.score([(text, "x")]).truncated == 1


def test_the_precision_is_the_graphs_own(
    original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "onnx")
    folder = _exported(original, tmp_path / "m", "onnx", int8=True)
    model = GradedModel.from_pretrained(folder)
    assert (model.precision.name, model.precision.reason) == ("int8", "the exported graph's own (ONNX Runtime)")
    found = evaluate(model, pairs=graded_pairs(10), precision="auto").to_json()
    assert found["precision"] == "int8"
    with pytest.raises(InputError, match=r"computes in int8, not in bf16 \(leave it at auto"):
        GradedModel.from_pretrained(folder, precision="bf16")


def test_a_graph_is_neither_saved_nor_trained(
    original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "onnx")
    folder = _exported(original, tmp_path / "m", "onnx")
    model = GradedModel.from_pretrained(folder)
    with pytest.raises(InputError, match=r"cannot be saved again \(copy its folder"):
        model.save(tmp_path / "again")
    assert not (tmp_path / "again").exists()
    pairs = write_csv(tmp_path / "pairs.csv", graded_pairs(60))
    with pytest.raises(InputError, match="an exported model cannot be trained"):
        train("head-only", pairs=pairs, out=tmp_path / "run", overrides=[f"encoder={folder}"])


def test_weights_of_torch_come_before_a_graph(original: GradedModel, tmp_path: Path) -> None:
    folder = original.save(tmp_path / "m")
    plant_graph(folder, "onnx")
    assert find_graph(folder) is None
    assert not is_exported(open_encoder(folder))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_runtime_is_one_line_that_names_the_extra(
    backend: BackendName, original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _exported(original, tmp_path / "m", backend)
    monkeypatch.setitem(sys.modules, {"onnx": "onnxruntime", "openvino": "openvino"}[backend], None)
    with pytest.raises(InputError, match=rf'not installed \(pip install "gradate\[{backend}\]"\)') as caught:
        GradedModel.from_pretrained(folder)
    assert str(caught.value).startswith(f"{folder}: ") and "\n" not in str(caught.value)


def test_a_graph_has_a_fingerprint_that_follows_its_files(
    original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "openvino")
    folder = _exported(original, tmp_path / "m", "openvino")

    def identity() -> str:
        model = GradedModel.from_pretrained(folder)
        return fingerprint(model.encoder, model.precision)

    first = identity()
    assert first == identity() != fingerprint(original.encoder, original.precision)
    (folder / "openvino" / "openvino_model.bin").write_bytes(b"others")
    assert identity() != first


def test_a_graph_computes_on_the_cpu(original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, "onnx")
    folder = _exported(original, tmp_path / "m", "onnx")
    assert open_encoder(folder, device="cpu").device.type == "cpu"
    with pytest.raises(InputError, match="computes on the CPU, not on cuda"):
        open_encoder(folder, device="cuda")


def test_openvinos_numbers_are_no_pickle_beside_their_graph_and_nowhere_else(
    original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend_installed(monkeypatch, "openvino")
    folder = _exported(original, tmp_path / "m", "openvino")
    assert find_pickles(folder) == []
    with caplog.at_level(logging.WARNING, logger="gradate"):
        open_encoder(folder)
    assert caplog.text == ""
    for name in ("openvino/other.bin", "openvino/openvino_model.pt", "openvino_model.bin", "onnx/openvino_model.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
        (folder / name).with_name("other.txt").write_bytes(b"")
        assert find_pickles(folder) == [folder / name]
        (folder / name).unlink()
    (folder / "openvino_model.xml").write_bytes(b"")
    (folder / "openvino_model.bin").write_bytes(b"")
    assert find_pickles(folder) == [folder / "openvino_model.bin"]
    with caplog.at_level(logging.WARNING, logger="gradate"):
        open_encoder(folder)
    assert "holds pickles (openvino_model.bin): not opened" in caplog.text


@pytest.mark.parametrize("backend", [pytest.param(backend, marks=needs(backend)) for backend in BACKENDS])
def test_a_broken_graph_is_one_line(backend: BackendName, original: GradedModel, tmp_path: Path) -> None:
    folder = _exported(original, tmp_path / "m", backend)
    with pytest.raises(InputError, match="cannot be opened as a sentence-transformers model") as caught:
        open_encoder(folder)
    assert "\n" not in str(caught.value)


def test_several_threads_share_a_graph(original: GradedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, "onnx")
    graph = Graph(_exported(original, tmp_path / "m", "onnx"), "onnx", original.encoder.transformers_model.config)
    features = {"input_ids": torch.tensor([[2, 5, 3]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    expected = original.encoder.transformers_model(**features).last_hidden_state
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: graph(**features).last_hidden_state, range(8)))
    for hidden in found:
        torch.testing.assert_close(hidden, expected)


@needs("openvino")
def test_openvino_reports_nothing_to_its_makers() -> None:
    code = (
        "from gradate.models.backends import import_openvino\n"
        "import_openvino()\n"
        "import sys\n"
        "assert sys.modules['openvino_telemetry'] is None\n"
        "assert not [name for name in sys.modules if name.startswith('openvino_telemetry.')]\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert backends.BACKENDS == ("onnx", "openvino")
