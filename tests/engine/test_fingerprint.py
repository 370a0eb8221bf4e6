"""The fingerprint: the same for the same features, another for others."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense

from gradate.engine.encoding import encode_distinct
from gradate.engine.fingerprint import NoFingerprintError, fingerprint
from gradate.engine.precision import Precision
from tests.tiny import DIMENSION, tiny_encoder

FP32 = Precision("fp32", "test")


def test_neither_use_nor_a_copy_nor_the_mode_changes_it(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "model")
    before = fingerprint(encoder, FP32)
    assert len(before) == 32 and int(before, 16)
    encode_distinct(encoder, ["a", "b c"], precision=Precision("bf16", "test"))
    encoder.encode(["a", "d e f"])
    encoder.train()
    assert fingerprint(encoder, FP32) == before
    assert fingerprint(SentenceTransformer(str(tmp_path / "model"), device="cpu"), FP32) == before
    assert fingerprint(encoder, Precision("fp32", "another reason")) == before


def test_every_part_counts() -> None:
    seen = {fingerprint(tiny_encoder(), FP32)}

    def is_new(encoder: SentenceTransformer, precision: Precision = FP32, prompt: str | None = None) -> bool:
        count = len(seen)
        seen.add(fingerprint(encoder, precision, prompt))
        return len(seen) > count

    assert is_new(tiny_encoder(), Precision("bf16", "test"))
    assert is_new(tiny_encoder(), prompt="find: ") and not is_new(tiny_encoder(), prompt="")
    assert is_new(tiny_encoder(normalize=False)) and is_new(tiny_encoder(seed=1))
    for change in (
        lambda e: setattr(e, "truncate_dim", 8),
        lambda e: setattr(e, "max_seq_length", 8),
        lambda e: setattr(e[0], "do_lower_case", True),
        lambda e: setattr(e[0].model.config, "hidden_act", "relu"),
        lambda e: setattr(e[1], "pooling_mode", "max"),
        lambda e: setattr(e.tokenizer, "truncation_side", "left"),
        lambda e: e.tokenizer.add_tokens(["refund"]),
        lambda e: e.append(Dense(DIMENSION, 4)),
    ):
        encoder = tiny_encoder()
        change(encoder)
        assert is_new(encoder)
        assert fingerprint(encoder, FP32) in seen


def test_the_last_bit_of_one_weight_counts() -> None:
    encoder = tiny_encoder()
    before = fingerprint(encoder, FP32)
    weight = encoder[0].model.encoder.layer[1].output.dense.weight
    with torch.no_grad():
        weight.data.view(torch.int32)[3, 5] ^= 1
    assert fingerprint(encoder, FP32) != before
    with torch.no_grad():
        weight.data.view(torch.int32)[3, 5] ^= 1
    assert fingerprint(encoder, FP32) == before


def test_code_from_elsewhere_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for factor in (2, 3):
        path = tmp_path / str(factor) / "scaled.py"
        path.parent.mkdir()
        path.write_text(f"import torch\n\nclass Scaled(torch.nn.Module):\n    factor = {factor}\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location("scaled", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "scaled", module)
        spec.loader.exec_module(module)
        encoder = tiny_encoder()
        encoder.append(module.Scaled())
        found.append(fingerprint(encoder, FP32))
    assert found[0] != found[1]


def test_what_cannot_be_read_has_none() -> None:
    encoder = tiny_encoder()
    encoder[0].backend = "openvino"
    with pytest.raises(NoFingerprintError, match="openvino"):
        fingerprint(encoder, FP32)
    encoder = tiny_encoder()
    encoder[0].processor = None
    assert fingerprint(encoder, FP32)

    class Spaces:
        model_max_length = 8

    encoder[0].__dict__["processor"] = type("Processor", (), {"tokenizer": Spaces()})()
    with pytest.raises(NoFingerprintError, match=r"tokenizer \(Spaces\)"):
        fingerprint(encoder, FP32)
