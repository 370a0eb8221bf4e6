from __future__ import annotations

import pytest
import torch

from gradate.engine.precision import Precision, resolve_precision
from gradate.errors import InputError


@pytest.mark.parametrize(("unit", "expected"), [("amx_bf16", "bf16"), ("avx512_bf16", "bf16"), ("avx2", "fp32")])
def test_auto_follows_the_cpu(monkeypatch: pytest.MonkeyPatch, unit: str, expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {unit: True}, raising=False)
    precision = resolve_precision("auto", "cpu")
    assert precision.name == expected
    assert precision.reason.startswith("auto: the CPU has")


@pytest.mark.parametrize(("capability", "expected"), [((9, 0), "bf16"), ((8, 0), "bf16"), ((7, 5), "fp32")])
def test_auto_follows_the_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    precision = resolve_precision("auto", "cuda:0")
    assert precision.name == expected
    assert f"{capability[0]}.{capability[1]}" in precision.reason


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_an_explicit_choice_is_kept(name: str) -> None:
    assert str(resolve_precision(name)) == f"{name} (asked for)"


def test_unknown_precision_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match=r"precision: unknown precision 'fp16' \(auto, fp32, tf32 or bf16\)"):
        resolve_precision("fp16")


def test_autocast_lowers_matrix_products_only_for_bf16() -> None:
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with Precision(name, "test").autocast("cpu"):
            assert (torch.eye(4) @ torch.eye(4)).dtype == dtype


def test_tf32_is_for_gpus_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="precision: no tf32 units on cpu"):
        resolve_precision("tf32", "cpu")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    precision, before = resolve_precision("tf32", "cuda:0"), torch.get_float32_matmul_precision()
    with precision.autocast("cuda"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
