"""Smooth K2 and Translated ReLU against hand values, NumPy twins, torch's own losses and each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss

from gradate.errors import InputError
from gradate.losses.deviation import DeviationLoss
from gradate.losses.smooth_k2 import SmoothK2Loss
from gradate.losses.translated_relu import TranslatedReLULoss
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

finite = st.floats(-20, 20, allow_nan=False, width=32)
slopes, edges = st.floats(0.01, 20), st.floats(0, 3)


def numpy_smooth_k2(prediction: np.ndarray, grade: np.ndarray, k: float, x0: float) -> np.ndarray:
    return np.array(
        [k * (abs(p - g) - x0) ** 2 if abs(p - g) >= x0 else 0.0 for p, g in zip(prediction, grade, strict=True)]
    )


def numpy_translated_relu(prediction: np.ndarray, grade: np.ndarray, k: float, x0: float) -> np.ndarray:
    return np.array([max(0.0, k * (abs(p - g) - x0)) for p, g in zip(prediction, grade, strict=True)])


def value_and_gradient(loss: DeviationLoss, prediction: float, grade: float) -> tuple[float, float]:
    p = torch.tensor([prediction], dtype=torch.float64, requires_grad=True)
    value = loss(p, torch.tensor([grade], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(value, p)
    return value.item(), gradient.item()


@pytest.mark.parametrize(
    ("x", "relu", "k2"),
    [
        (0.1, (0, 0), (0, 0)),
        (0.3, (0.125, 2.5), (0.005, 0.2)),
        (0.5, (0.625, 2.5), (0.125, 1)),
        (1, (1.875, 2.5), (1.125, 3)),
        (2, (4.375, 2.5), (6.125, 7)),
    ],
)
def test_hand_values(x: float, relu: tuple[float, float], k2: tuple[float, float]) -> None:
    for loss, (value, slope) in ((TranslatedReLULoss(2.5, 0.25), relu), (SmoothK2Loss(2, 0.25), k2)):
        assert value_and_gradient(loss, 1 + x, 1) == pytest.approx((value, slope), abs=1e-12)
        assert value_and_gradient(loss, 1 - x, 1) == pytest.approx((value, -slope), abs=1e-12)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=20), slopes, edges)
@settings(max_examples=50, deadline=None)
def test_numpy_twins(rows: list[tuple[float, float]], k: float, x0: float) -> None:
    p, g = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    for loss, twin in ((SmoothK2Loss, numpy_smooth_k2), (TranslatedReLULoss, numpy_translated_relu)):
        found = loss(k, x0, reduction="none")(torch.from_numpy(p), torch.from_numpy(g)).numpy()
        np.testing.assert_allclose(found, twin(p, g, k, x0), rtol=1e-9, atol=1e-9)


@given(finite, finite, slopes, edges, st.floats(0.1, 10))
@settings(max_examples=50, deadline=None)
def test_relations(prediction: float, grade: float, k: float, x0: float, c: float) -> None:
    p, g = torch.tensor([prediction], dtype=torch.float64), torch.tensor([grade], dtype=torch.float64)
    relu, k2 = TranslatedReLULoss(k, x0)(p, g).item(), SmoothK2Loss(k, x0)(p, g).item()
    assert relu**2 / k == pytest.approx(k2, rel=1e-9, abs=1e-12)
    assert TranslatedReLULoss(k, c * x0)(c * p, c * g).item() == pytest.approx(c * relu, rel=1e-6, abs=1e-9)
    assert SmoothK2Loss(k, c * x0)(c * p, c * g).item() == pytest.approx(c * c * k2, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("ours", "torchs"), [(SmoothK2Loss, torch.nn.MSELoss), (TranslatedReLULoss, torch.nn.L1Loss)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_k_1_x0_0_is_torchs_own(
    ours: type[DeviationLoss], torchs: Callable[..., torch.nn.Module], reduction: str
) -> None:
    generator = torch.Generator().manual_seed(1)
    p, g = torch.randn(40, generator=generator), torch.randn(40, generator=generator)
    results = []
    for loss in (ours(1, 0, reduction=reduction), torchs(reduction=reduction)):  # type: ignore[arg-type]
        leaf = p.clone().requires_grad_()
        value = loss(leaf, g)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        results.append((value.detach(), gradient))
    torch.testing.assert_close(results[0], results[1], atol=0, rtol=0)


def test_no_cancellation_at_the_edge_of_the_buffer_zone() -> None:
    grade, x0, k = torch.tensor([3.0]), 0.25, 2.0
    prediction = grade + x0 + 1e-4
    x = (prediction.double() - grade.double()).abs()
    exact = (k * (x - x0) ** 2).item()
    assert SmoothK2Loss(k, x0)(prediction, grade).item() == pytest.approx(exact, rel=1e-5)
    y = (prediction - grade).abs()
    expanded = (k * (y * y - 2 * x0 * y + x0 * x0)).item()
    assert abs(expanded - exact) > 0.01 * exact, "the published code's form loses these digits"


@pytest.mark.parametrize(
    ("boundary", "prediction", "grade", "value", "gradient"),
    [
        ("both", 3.57, 3, 0, 0),
        ("both", 3.57, 1, 6.125, 7),
        ("both", -0.5, 2, 6.125, -7),
        ("left", -0.5, 2, 6.125, 0),
        ("left", 3.57, 1, 2 * 2.32**2, 4 * 2.32),
        ("none", -0.5, 2, 2 * 2.25**2, -4 * 2.25),
        ("none", 3.57, 3, 2 * 0.32**2, 4 * 0.32),
    ],
)
def test_boundary(boundary: str, prediction: float, grade: float, value: float, gradient: float) -> None:
    loss = SmoothK2Loss(2, 0.25, boundary=boundary, low=0, high=3)  # type: ignore[arg-type]
    assert value_and_gradient(loss, prediction, grade) == pytest.approx((value, gradient), abs=1e-9)


def test_gradient_check() -> None:
    generator = torch.Generator().manual_seed(2)
    p = (3 * torch.randn(12, generator=generator, dtype=torch.float64)).requires_grad_()
    g = torch.randint(0, 4, (12,), generator=generator).double()
    for loss in (SmoothK2Loss(3, 0.2), TranslatedReLULoss(1.5, 0.25)):
        assert torch.autograd.gradcheck(lambda x, f=loss: f(x, g), (p,))


def test_shapes_and_dtypes() -> None:
    loss = SmoothK2Loss(2, 0.25, reduction="none")
    column, grades = torch.tensor([[1.5], [3.0]]), torch.tensor([1, 1])
    assert loss(column, grades).tolist() == loss(column.squeeze(1), grades).tolist() == [0.125, 6.125]
    assert loss(column.bfloat16(), grades).dtype == torch.float32
    for prediction, grade in (
        (torch.zeros(2, 2), grades),
        (torch.zeros(3), grades),
        (torch.zeros(()), torch.zeros(())),
    ):
        with pytest.raises(InputError, match=r"expected predictions \(n,\)"):
            loss(prediction, grade)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0, 0.1), {}),
        ((-1, 0.1), {}),
        ((float("nan"), 0.1), {}),
        ((float("inf"), 0.1), {}),
        ((1, -0.1), {}),
        ((1, float("nan")), {}),
        ((1, 0), {"reduction": "median"}),
        ((1, 0), {"boundary": "right"}),
        ((1, 0), {"boundary": "both", "low": 0}),
        ((1, 0), {"boundary": "left"}),
        ((1, 0), {"boundary": "both", "low": 3, "high": 0}),
    ],
)
@pytest.mark.parametrize("loss", [SmoothK2Loss, TranslatedReLULoss])
def test_parameters_out_of_range(loss: Callable[..., object], arguments: tuple[float, ...], options: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(InputError):
        loss(*arguments, **options)


@pytest.mark.parametrize("loss_fct", [SmoothK2Loss(2, 0.25), TranslatedReLULoss(2.5, 0.25)])
def test_in_a_plain_sentence_transformer_trainer(
    loss_fct: DeviationLoss, tmp_path_factory: pytest.TempPathFactory
) -> None:
    encoder, pairs = tiny_encoder(normalize=False), graded_pairs(32)
    start = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    dataset = Dataset.from_dict({"a": pairs.text1, "b": pairs.text2, "score": pairs.grades.tolist()})
    loss = SoftmaxLoss(encoder, 32, num_labels=1, loss_fct=loss_fct)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path_factory.mktemp("plain")),
        num_train_epochs=5,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(encoder, arguments, dataset, loss=loss)
    trainer.train()
    losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert np.isfinite(losses).all() and np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])
    moved = [name for name, p in encoder.named_parameters() if not torch.equal(p.cpu(), start[name])]
    assert any("layer.0" in name for name in moved) and any("embeddings" in name for name in moved)
