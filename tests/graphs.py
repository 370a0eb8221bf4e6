"""Exported folders without a runtime: a graph file of a few bytes that the tiny encoder itself stands in for."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradate.models import backends
from gradate.models.backends import EXPORT_FILE, GRAPH_FILES, BackendName
from gradate.models.export import Written
from gradate.models.graded import GradedModel
from tests.tiny import tiny_encoder

PACKAGES = {"onnx": ("onnx", "onnxruntime", "onnxscript"), "openvino": ("openvino", "nncf")}


def needs(backend: BackendName) -> Any:
    """Mark that skips a test where the packages of a backend are not installed."""
    missing = [name for name in PACKAGES[backend] if importlib.util.find_spec(name) is None]
    reason = f'{", ".join(missing)} not installed: pip install "gradate[{backend}]"'
    return pytest.mark.skipif(bool(missing), reason=reason)


def pretend_installed(monkeypatch: pytest.MonkeyPatch, backend: BackendName, *, distortion: float = 0.0) -> None:
    """Make the packages of a backend look installed, and its graphs compute what `tiny_encoder()` computes.

    Args:
        monkeypatch: Takes it back after the test.
        backend: `onnx` or `openvino`.
        distortion: Size of the noise that every token embedding gets.
    """

    def open_graph(file: Path) -> Any:
        assert file.is_file()
        model = tiny_encoder()[0].model
        generator = np.random.default_rng(0)

        def run(features: dict[str, Any]) -> Any:
            with torch.no_grad():
                hidden = model(**{name: torch.from_numpy(value) for name, value in features.items()}).last_hidden_state
            noise = generator.normal(size=hidden.shape).astype(np.float32)
            return hidden.numpy() + distortion * noise

        return ["input_ids", "attention_mask"], run, "fp32"

    monkeypatch.setattr(backends, "_is_installed", lambda name: True)
    monkeypatch.setattr(backends, "_OPENERS", {backend: open_graph})


def writer(backend: BackendName) -> Callable[..., Written]:
    """Stands in for `write_exported`: the same folder, with a graph file that `pretend_installed` opens."""

    def write(model: GradedModel, folder: Path, _: str, *, int8: bool, calibration: list[str]) -> Written:
        model.save(folder)
        weights = folder / "model.safetensors"
        original = weights.stat().st_size
        weights.unlink()
        plant_graph(folder, backend, int8=int8)
        return Written(backend, "int8" if int8 else None, "made up" if int8 else "", 5, original)

    return write


def plant_graph(folder: Path, backend: BackendName, *, int8: bool = False) -> None:
    """Put a graph file, and what `gradate export` says of it, into a model folder."""
    graph = folder / GRAPH_FILES[backend]
    graph.parent.mkdir()
    graph.write_bytes(b"graph")
    if backend == "openvino":
        graph.with_suffix(".bin").write_bytes(b"numbers")
    (folder / EXPORT_FILE).write_text(json.dumps({"quantization": "int8" if int8 else None}), encoding="utf-8")
