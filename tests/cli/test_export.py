from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import GRADES
from tests.graphs import pretend_installed, writer

SCALE = ",".join(GRADES)


@pytest.fixture
def backend(monkeypatch):
    pretend_installed(monkeypatch, "onnx", distortion=0.01)
    monkeypatch.setattr("gradate.runs.export.write_exported", writer("onnx"))
    monkeypatch.setattr("gradate.runs.export.SPEED_TEXTS", 20)


def test_an_export_says_what_it_costs(gradate, graded_model, pairs_file, tmp_path, backend):
    out = tmp_path / "out"
    answer = gradate(
        "export", graded_model, "--backend", "onnx", "--int8", "--out", out, "--pairs", pairs_file, "--json"
    )
    assert answer.code == 0, answer.err
    found = answer.json
    assert (found["model"], found["backend"], found["quantization"]) == (str(graded_model), "onnx", "int8")
    assert set(found["cosine"]) == {"min", "mean", "texts"}
    assert {"before", "after", "difference"} <= set(found["quality"])
    assert {"original", "exported", "ratio"} <= set(found["texts_per_second"])
    assert found["original_bytes"] > found["bytes"] > 0
    assert "made up" in answer.err
    assert gradate("score", out, "how do i pay", "my parcel is late").code == 0
    evaluated = gradate("evaluate", out, "--pairs", pairs_file, "--json")
    assert evaluated.json["precision"] == "int8"


def test_for_people_there_are_two_tables_and_the_place(gradate, plain_model, pairs_file, tmp_path, backend):
    words = ("--pairs", pairs_file, "--scale", SCALE)
    answer = gradate("export", plain_model, "--backend", "onnx", "--out", tmp_path / "out", *words)
    assert answer.code == 0, answer.err
    assert "5 test pairs" in answer.out and "Spearman of the cosine" in answer.out
    assert "quadratic weighted kappa" not in answer.out  # no head, so no such row
    assert "texts per second" in answer.out and "megabytes" in answer.out
    assert answer.out.splitlines()[-1].split() == ["out", str(tmp_path / "out")]


def test_an_out_that_is_not_empty_is_refused_without_overwrite(gradate, graded_model, pairs_file, tmp_path, backend):
    out = tmp_path / "out"
    words = ("export", graded_model, "--backend", "onnx", "--out", out, "--pairs", pairs_file)
    assert gradate(*words).code == 0
    before = (out / "export.json").read_bytes()
    answer = gradate(*words)
    assert answer.code == 2
    assert "is not empty (name another folder, or pass --overwrite)" in answer.err
    assert (out / "export.json").read_bytes() == before
    assert gradate(*words, "--int8", "--overwrite").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--backend'"),
        (["--backend", "tflite", "--out", "x"], "--backend"),
        (["--backend", "onnx"], "Missing option '--out'"),
        (["--backend", "onnx", "--out", "x", "--data", "a", "--pairs", "b"], "choose one"),
        (["--backend", "onnx", "--int8", "--out", "x", "--calibration", "a"], "only OpenVINO's int8"),
        (["--backend", "onnx", "--out", "x", "--pairs", "gone.csv", "--scale", SCALE], "gone.csv"),
    ],
)
def test_wrong_use_is_refused(arguments, said, gradate, plain_model, backend):
    answer = gradate("export", plain_model, *arguments)
    assert answer.code == 2
    assert said in answer.err and answer.err.count("\n") == 1


@pytest.mark.parametrize(("backend", "package"), [("onnx", "onnxscript"), ("openvino", "openvino")])
def test_a_missing_extra_is_one_line(backend, package, gradate, plain_model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    answer = gradate("export", plain_model, "--backend", backend, "--out", tmp_path / "out")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert f'not installed (pip install "gradate[{backend}]")' in answer.err
    assert not (tmp_path / "out").exists()
