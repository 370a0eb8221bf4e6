"""Acceleration: the same losses and gradients as the plain encoder, and nothing of it left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from gradate.engine import acceleration, packing
from gradate.engine.acceleration import Acceleration, accelerated
from gradate.engine.embedding import filled_rows
from gradate.engine.packing import embed_together
from gradate.engine.precision import resolve_precision
from tests.tiny import tiny_encoder

FP32, BF16 = resolve_precision("fp32"), resolve_precision("bf16")
LEFT = ["where is my order", "a", "cancel it, please, before it is sent to me"]
RIGHT = ["track a parcel", "refund", "stop"]


@pytest.fixture(autouse=True)
def small_tables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "LARGE_TABLE", 100)


def no_dropout(encoder: SentenceTransformer) -> SentenceTransformer:
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return encoder.train()


def gradients(encoder: SentenceTransformer, passes: int = 1, low: bool = False) -> dict[str, Tensor]:
    encoder.zero_grad(set_to_none=True)
    for _ in range(passes):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            u, v = embed_together(encoder, [encoder.preprocess(LEFT), encoder.preprocess(RIGHT)])
        (nn.functional.cosine_similarity(u.float(), v.float()) - torch.tensor([0.9, 0.1, 0.5])).pow(2).sum().backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@contextmanager
def plain(encoder: SentenceTransformer) -> Iterator[None]:
    yield


def test_fp32_gradients_are_the_plain_ones() -> None:
    encoder = no_dropout(tiny_encoder())
    expected = gradients(encoder)
    with accelerated(encoder, FP32) as acceleration:
        assert acceleration == Acceleration(packed=True, linears=0, tables=acceleration.tables)
        assert acceleration.tables > 0
        ours = gradients(encoder)
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(ours[name], value, atol=1e-5, rtol=1e-3, msg=name)


def test_bf16_gradients_point_where_autocast_points() -> None:
    encoder = no_dropout(tiny_encoder())
    exact, autocast = gradients(encoder), gradients(encoder, low=True)
    with accelerated(encoder, BF16) as acceleration:
        assert acceleration.linears > 0
        ours = gradients(encoder, low=True)

    def error(found: dict[str, Tensor]) -> float:
        return float(torch.cat([(found[n] - exact[n]).flatten() for n in exact]).norm())

    assert all(value.dtype == torch.float32 for value in ours.values())
    assert error(ours) < 2 * error(autocast) + 1e-6


@pytest.mark.parametrize("precision", [FP32, BF16])
def test_gradients_accumulate_and_later_steps_start_from_nothing(precision: object) -> None:
    encoder = no_dropout(tiny_encoder())
    with accelerated(encoder, precision):  # type: ignore[arg-type]
        once, twice, again = gradients(encoder), gradients(encoder, passes=2), gradients(encoder)
    for name, value in once.items():
        torch.testing.assert_close(twice[name], 2 * value, atol=1e-6, rtol=1e-2, msg=name)
        assert torch.equal(again[name], value), name


def test_packs_are_filled_up_to_few_shapes() -> None:
    encoder, shapes = no_dropout(tiny_encoder()), []
    with accelerated(encoder, FP32):
        encoder.get_submodule("0.model.embeddings").register_forward_hook(
            lambda layer, inputs, output: shapes.append(output.shape[1])
        )
        for left in (LEFT[:1], LEFT[:2], LEFT):
            alone = embed_together(encoder, [encoder.preprocess(left)])[0]
            u, v = embed_together(encoder, [encoder.preprocess(left), encoder.preprocess(RIGHT)])
            assert len(u) == len(left) and len(v) == len(RIGHT)
            torch.testing.assert_close(u, alone, atol=1e-5, rtol=1e-4)
    assert all(tokens % packing.PACK_MULTIPLE == 0 for tokens in shapes)


def test_rows_that_no_text_names_are_left_out_of_the_norm_and_nothing_else_is() -> None:
    encoder = no_dropout(tiny_encoder())
    with accelerated(encoder, FP32):
        gradients(encoder)
        read = 0
        for name, parameter in encoder.named_parameters():
            if parameter.grad is None:
                continue
            rows = filled_rows(parameter.grad)
            if rows is None:
                assert "embeddings" not in name or parameter.numel() < 100
                continue
            read += 1
            left_out = parameter.grad.clone()
            left_out[rows] = 0
            assert len(rows) < len(parameter) and not left_out.any()
            assert len(rows) == len(set(rows.tolist()))
    assert read > 0


@pytest.mark.parametrize("kind", ["fused", "foreach"])
def test_weights_that_an_optimiser_changed_are_seen(kind: str) -> None:
    encoder = no_dropout(tiny_encoder())
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=0.05, **{kind: True})
    with accelerated(encoder, BF16):
        before = gradients(encoder)
        optimizer.step()
        after = gradients(encoder)
    with accelerated(encoder, BF16):
        fresh = gradients(encoder)
    for name, value in fresh.items():
        assert torch.equal(after[name], value), name
        assert not torch.equal(before[name], value) or not value.any(), name


def test_frozen_parameters_get_no_gradient() -> None:
    encoder = no_dropout(tiny_encoder())
    encoder.requires_grad_(False)
    layers = encoder.get_submodule("0.model.encoder.layer.1")
    layers.requires_grad_(True)
    with accelerated(encoder, BF16):
        found = gradients(encoder, low=True)
    assert found and all(".layer.1." in name for name in found)


def test_nothing_stays_behind_and_nesting_is_harmless() -> None:
    encoder = tiny_encoder().eval()
    expected = encoder.encode(LEFT)
    implementation = encoder[0].model.config._attn_implementation
    with accelerated(encoder, BF16):
        with accelerated(encoder, BF16) as inner:
            assert inner.packed and not inner.linears
        assert sum("forward" in vars(layer) for layer in encoder.modules()) > 0
    assert not any("forward" in vars(layer) for layer in encoder.modules())
    assert encoder[0].model.config._attn_implementation == implementation
    assert not encoder[0].can_flatten_inputs
    assert (encoder.encode(LEFT) == expected).all()


def test_an_error_inside_restores_the_encoder() -> None:
    encoder = tiny_encoder()
    with pytest.raises(RuntimeError), accelerated(encoder, BF16):
        raise RuntimeError
    assert not any("forward" in vars(layer) for layer in encoder.modules())


def test_an_encoder_with_a_window_keeps_its_padding() -> None:
    encoder = tiny_encoder()
    encoder[0].model.config.sliding_window = 4
    with accelerated(encoder, FP32) as acceleration:
        assert not acceleration.packed
        assert gradients(no_dropout(encoder))
