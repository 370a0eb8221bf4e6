"""Linear layers in bfloat16: the products of autocast, with and without a graph, and never of yesterday's weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation

from gradate.engine import linear
from gradate.engine.acceleration import accelerated
from gradate.engine.linear import LinearInBfloat16
from gradate.engine.precision import resolve_precision
from tests.tiny import tiny_encoder

BLOCKS = pytest.mark.parametrize(
    "blocks",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(not linear.HAS_BLOCKS, reason="oneDNN has no bfloat16 here")),
    ],
)


def layer(bias: bool) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(24, 40, bias=bias)


@BLOCKS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(24,), (1, 24), (1, 7, 24), (5, 24), (0, 24)])
def test_products_without_a_graph_are_autocasts(
    monkeypatch: pytest.MonkeyPatch, blocks: bool, bias: bool, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(linear, "HAS_BLOCKS", blocks)
    plain, input = layer(bias), torch.randn(*shape)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = plain(input)
        found = LinearInBfloat16(plain)(input)
        through_gelu = LinearInBfloat16(plain).with_gelu(input)
    assert found.dtype == through_gelu.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(through_gelu, nn.functional.gelu(expected), atol=1e-2, rtol=1e-2)


def change_in_sight(parameter: Tensor, product: LinearInBfloat16) -> None:
    with torch.no_grad():
        parameter.mul_(-3)


def change_out_of_sight(parameter: Tensor, product: LinearInBfloat16) -> None:
    parameter.data.mul_(-3)
    product.expire()


@BLOCKS
@pytest.mark.parametrize("change", [change_in_sight, change_out_of_sight])
def test_changed_weights_are_seen_with_and_without_a_graph(
    monkeypatch: pytest.MonkeyPatch, blocks: bool, change: Callable[[Tensor, LinearInBfloat16], None]
) -> None:
    monkeypatch.setattr(linear, "HAS_BLOCKS", blocks)
    plain, input = layer(bias=False), torch.randn(5, 24)
    product = LinearInBfloat16(plain)
    for _ in range(3):
        with torch.no_grad():
            evaluated = product(input)
        trained = product(input)
        torch.testing.assert_close(evaluated, trained.detach(), atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(evaluated.float(), input @ plain.weight.detach().t(), atol=0.1, rtol=0.05)
        change(plain.weight, product)


def test_the_gradient_is_the_exact_one_up_to_bfloat16() -> None:
    plain, input = layer(bias=True), torch.randn(300, 24, requires_grad=True)
    exact = torch.autograd.grad(plain(input).square().sum(), [input, *plain.parameters()])
    LinearInBfloat16(plain)(input).float().square().sum().backward()
    for found, expected in zip([input.grad, plain.weight.grad, plain.bias.grad], exact, strict=True):
        assert found is not None and found.dtype == torch.float32
        assert (found - expected).norm() < 0.01 * expected.norm()


def test_layers_that_read_one_input_share_its_copy() -> None:
    queries, keys = LinearInBfloat16(layer(bias=False)), LinearInBfloat16(layer(bias=False))
    input = torch.randn(2, 24)
    shared = [product(input).grad_fn.saved_tensors[0] for product in (queries, keys)]
    assert shared[0] is shared[1]
    other = input.clone()
    assert queries(other).grad_fn.saved_tensors[0] is not shared[0]
    before = queries(other).detach().clone()
    other.mul_(2)
    torch.testing.assert_close(queries(other).detach(), 2 * before)
    with torch.inference_mode():
        unversioned = input.clone()
        torch.testing.assert_close(queries(unversioned), queries(input).detach(), atol=1e-2, rtol=1e-2)


def test_a_graph_alone_keeps_no_blocks_and_blocks_alone_no_copy() -> None:
    trained, evaluated = LinearInBfloat16(layer(bias=False)), LinearInBfloat16(layer(bias=False))
    trained(torch.randn(2, 24))
    with torch.no_grad():
        evaluated(torch.randn(2, 24))
    assert trained.weight.blocks is None
    assert (evaluated.weight.copy is None) == linear.HAS_BLOCKS


@pytest.mark.parametrize("grad", [True, False])
def test_gelu_goes_with_its_product_where_nothing_trains(grad: bool) -> None:
    encoder = tiny_encoder().eval()
    texts = ["where is my order", "a"]

    def embed() -> Tensor:
        with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
            return encoder(encoder.preprocess(texts))["sentence_embedding"].detach().float()

    passes: list[int] = []
    for part in encoder.modules():
        if type(part) is GELUActivation:
            part.register_forward_hook(lambda *_: passes.append(1))
    expected = embed()
    layers = len(passes)
    with accelerated(encoder, resolve_precision("bf16")):
        passes.clear()
        found = embed()
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)
    assert layers > 0
    assert len(passes) == (layers if grad else 0)


def test_threads_that_begin_together_all_read_whole_copies() -> None:
    torch.manual_seed(0)
    input, finished = torch.randn(1, 24), []
    for _ in range(200):
        product = LinearInBfloat16(layer(bias=True))
        start = threading.Barrier(4)

        def compute(product: LinearInBfloat16 = product, start: threading.Barrier = start) -> Tensor:
            start.wait()
            with torch.no_grad():
                return product(input)

        with ThreadPoolExecutor(4) as pool:
            finished += [future.result() for future in [pool.submit(compute) for _ in range(4)]]
    assert all(torch.equal(found, finished[0]) for found in finished)
