from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gradate.data.benchmarks import Benchmark, Subset, Task
from gradate.errors import GradateError, InputError
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.runs import export as module
from gradate.runs.export import export
from gradate.scale import LabelScale
from tests.graded import SCALE, graded_pairs, write_csv
from tests.graphs import pretend_installed, writer
from tests.tiny import tiny_encoder

KEYS = [
    "model",
    "out",
    "backend",
    "quantization",
    "reason",
    "bytes",
    "original_bytes",
    "cosine",
    "quality",
    "texts_per_second",
    "notes",
]


@pytest.fixture
def original(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return GradedModel(tiny_encoder(), PairHead(32), SCALE, precision="fp32").save(tmp_path / "original")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX backend whose graphs are a little off."""
    pretend_installed(monkeypatch, "onnx", distortion=0.05)
    monkeypatch.setattr(module, "write_exported", writer("onnx"))
    monkeypatch.setattr(module, "SPEED_TEXTS", 20)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "pairs.csv", graded_pairs(30))


@pytest.mark.usefixtures("backend")
def test_what_an_export_costs_is_measured_and_kept_with_it(
    original: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "onnx", distortion=0.3)
    out = tmp_path / "out"
    found = export(original, out, "onnx", int8=True, pairs=pairs).to_json()
    assert list(found) == KEYS
    assert (found["model"], found["out"], found["backend"]) == (str(original), str(out), "onnx")
    assert (found["quantization"], found["bytes"]) == ("int8", 5)
    assert 0.9 < found["cosine"]["min"] <= found["cosine"]["mean"] < 1
    quality = found["quality"]
    assert (quality["measured_on"], quality["before"]["n"], quality["after"]["n"]) == ("pairs", 30, 30)
    gain = quality["difference"]["spearman_cosine"]
    assert gain["value"] == pytest.approx(quality["after"]["spearman_cosine"] - quality["before"]["spearman_cosine"])
    assert gain["low"] < gain["high"]
    assert quality["difference"]["spearman_head"]["value"] is not None
    speed = found["texts_per_second"]
    assert speed["original"] > 0 and speed["exported"] > 0 and speed["ratio"] > 0
    assert speed["texts"] == 20 and found["cosine"]["texts"] == len({*graded_pairs(30).text1, *graded_pairs(30).text2})
    assert any("batch by batch" in note for note in found["notes"])
    assert json.loads((out / "export.json").read_text(encoding="utf-8")) == found
    assert "exported to onnx (int8)" in (out / "README.md").read_text(encoding="utf-8")
    assert GradedModel.from_pretrained(out).precision.name == "int8"


@pytest.mark.usefixtures("backend")
def test_without_pairs_the_starter_sets_test_pairs_are_measured(original: Path, tmp_path: Path) -> None:
    found = export(original, tmp_path / "out", "onnx").to_json()
    assert (found["quality"]["measured_on"], found["quality"]["before"]["n"]) == ("starter-test", 224)
    assert (found["quantization"], found["reason"]) == (None, "")


@pytest.mark.usefixtures("backend")
def test_with_data_the_seven_sets_are_measured(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subset = Subset("all", ["a b", "a c", "x y", "q"], ["a b", "z", "x y z", "b"], [5.0, 1.0, 4.0, 0.0], 0)
    names = ("STS12", "STS-B")
    monkeypatch.setattr(
        module, "load_seven_sts", lambda _: Benchmark("seven-sts", {n: Task(n, (subset,)) for n in names})
    )
    quality = export(original, tmp_path / "out", "onnx", data=[]).to_json()["quality"]
    assert quality["measured_on"] == "seven-sts"
    assert set(quality["difference"]) == {*names, "average"}
    assert quality["before"]["average"] is not None and "low" in quality["difference"]["average"]


@pytest.mark.usefixtures("backend")
def test_a_folder_in_the_way_is_kept_unless_it_may_be_replaced(original: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        export(original, out, "onnx", pairs=pairs)
    with pytest.raises(InputError, match="holds no model"):
        export(original, out, "onnx", pairs=pairs, overwrite=True)
    assert (out / "mine.txt").read_text() == "mine"
    (out / "mine.txt").unlink()
    export(original, out, "onnx", pairs=pairs)
    export(original, out, "onnx", pairs=pairs, int8=True, overwrite=True)
    assert GradedModel.from_pretrained(out).precision.name == "int8"


@pytest.mark.usefixtures("backend")
def test_a_graph_that_computes_something_else_is_not_written(
    original: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "onnx", distortion=3.0)
    with pytest.raises(GradateError, match="does not compute what the model computes"):
        export(original, tmp_path / "out", "onnx", pairs=pairs)
    assert {path.name for path in tmp_path.iterdir()} == {"original", "pairs.csv"}
    # Of int8 the same is the cost, and is said.
    assert export(original, tmp_path / "out", "onnx", pairs=pairs, int8=True).cosine.min < 0.99


@pytest.mark.usefixtures("backend")
def test_a_failure_while_measuring_leaves_nothing(
    original: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "texts_per_second", fail)
    with pytest.raises(KeyboardInterrupt):
        export(original, tmp_path / "out", "onnx", pairs=pairs)
    assert {path.name for path in tmp_path.iterdir()} == {"original", "pairs.csv"}


@pytest.mark.usefixtures("backend")
def test_measurements_and_calibration_that_do_not_fit_are_refused(original: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"two measurements \(choose one\)"):
        export(original, tmp_path / "out", "onnx", data=["x"], pairs="y.csv")
    with pytest.raises(InputError, match="only OpenVINO's int8 is calibrated"):
        export(original, tmp_path / "out", "onnx", int8=True, calibration="y.csv")
    with pytest.raises(InputError, match=r"gone\.csv"):
        export(original, tmp_path / "out", "onnx", pairs="gone.csv")
    assert not (tmp_path / "out").exists()


def test_openvino_is_calibrated_on_ones_own_texts_or_the_starters(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_installed(monkeypatch, "openvino")
    seen: list[list[str]] = []

    def write(*arguments: object, calibration: list[str], **options: object) -> object:
        seen.append(calibration)
        return writer("openvino")(*arguments, calibration=calibration, **options)

    monkeypatch.setattr(module, "write_exported", write)
    own = graded_pairs(10)
    pairs = write_csv(tmp_path / "own.csv", own)
    monkeypatch.setattr(module, "SPEED_TEXTS", 20)
    export(original, tmp_path / "a", "openvino", int8=True, pairs=pairs, calibration=pairs)
    export(original, tmp_path / "b", "openvino", int8=True, pairs=pairs)
    export(original, tmp_path / "c", "openvino", pairs=pairs)
    assert set(seen[0]) == {*own.text1, *own.text2}
    assert len(set(seen[1])) >= 300
    assert seen[2] == []


@pytest.mark.usefixtures("backend")
def test_grades_on_another_scale_compare_by_correlation_alone(original: Path, tmp_path: Path) -> None:
    other = graded_pairs(30, scale=LabelScale.from_values([0, 10, 20, 30]))
    pairs = write_csv(tmp_path / "pairs.csv", other)
    found = export(original, tmp_path / "out", "onnx", pairs=pairs, scale=other.scale).to_json()
    assert set(found["quality"]["difference"]) == {"spearman_cosine", "spearman_head"}
    assert any("the model predicts on" in note for note in found["notes"])
