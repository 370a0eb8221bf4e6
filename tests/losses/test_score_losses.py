"""Losses over a batch's scores: hand values, slow twins, closed gradients, invariances, batches without an order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata
from sentence_transformers.sentence_transformer.losses import CoSENTLoss
from torch import Tensor, nn

from gradate.errors import InputError
from gradate.losses.own_negatives import OwnNegativesLoss
from gradate.losses.pearson import PearsonLoss
from gradate.losses.pro import PROLoss
from gradate.losses.rank_kl import RankKLLoss

Loss = Callable[[Tensor, Tensor], Tensor]
scores = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=9)
LOSSES = [PearsonLoss(), PearsonLoss(published=True), RankKLLoss(), PROLoss()]


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slow_rank_kl(s: np.ndarray, y: np.ndarray, tau: float) -> float:
    target = (len(y) - 1 - (rankdata(-y) - 1)) / (len(y) - 1)
    p, q = (np.exp(x / tau - np.max(x / tau)) for x in (target, s))
    p, q = p / p.sum(), q / q.sum()
    return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)) / len(y)


def slow_pro(s: np.ndarray, y: np.ndarray, tau: float) -> float:
    values = []
    for k in range(len(y)):
        gaps = [(y[k] - y[j], s[j] / tau) for j in range(len(y)) if y[k] - y[j] > 1e-8]
        if gaps:
            own = max(g for g, _ in gaps) * s[k] / tau
            values.append(math.log1p(sum(math.exp(g * z - own) for g, z in gaps)))
    return sum(values) / len(values) if values else 0.0


def test_pearson_is_one_minus_the_correlation() -> None:
    s, y = tensor(0.1, 0.4, 0.2, 0.9), tensor(0, 2, 1, 5)
    assert 1 - PearsonLoss()(s, y).item() == pytest.approx(pearsonr(s, y).statistic, abs=1e-12)
    assert 1 - PearsonLoss()(s, y).item() == pytest.approx(0.997176, abs=1e-6)
    assert 1 - PearsonLoss(published=True)(s, y).item() == pytest.approx(0.747882, abs=1e-6)
    assert PearsonLoss()(2 * y + 3, y).item() == pytest.approx(0, abs=1e-12)
    assert PearsonLoss()(-y, y).item() == pytest.approx(2, abs=1e-12)
    perfect = torch.arange(200, dtype=torch.float64)
    assert PearsonLoss(published=True)(perfect, perfect).item() == pytest.approx(1 / 200, abs=1e-12)


def test_pearson_gradient_in_closed_form() -> None:
    s, y = tensor(0.1, 0.4, 0.2, 0.9, -0.3).requires_grad_(), tensor(0, 2, 1, 5, 5)
    (gradient,) = torch.autograd.grad(PearsonLoss()(s, y), s)
    standard = [(x - x.mean()) / x.std(unbiased=False) for x in (s.detach(), y)]
    r = (standard[0] * standard[1]).mean()
    expected = -(standard[1] - r * standard[0]) / (len(y) * s.detach().std(unbiased=False))
    torch.testing.assert_close(gradient, expected)
    assert gradient.sum().abs() < 1e-12 and (gradient @ (s.detach() - s.detach().mean())).abs() < 1e-12


def test_rank_kl_hand_values() -> None:
    s, y = tensor(0.9, 0.5, 0.1), tensor(5, 3, 0)
    assert RankKLLoss(0.05)(s, y).item() == pytest.approx(6.6438e-5, rel=1e-4)
    assert RankKLLoss(1)(s, y).item() == pytest.approx(0.0010, abs=5e-5)
    assert RankKLLoss(1, reduction="sum")(s, y).item() == pytest.approx(0.0030, abs=5e-5)
    assert RankKLLoss(0.05)(s.flip(0), y).item() == pytest.approx(5.333, abs=1e-3)
    assert RankKLLoss()(tensor(5 / 6, 5 / 6, 1 / 6, 1 / 6), tensor(1, 1, 0, 0)).item() == pytest.approx(0, abs=1e-12)
    assert RankKLLoss()(tensor(0, 0, 0, 0), tensor(1, 0.6, 0.3, 0)).item() == pytest.approx(0.3441, abs=1e-4)


def test_rank_kl_gradient_in_closed_form() -> None:
    s, y = tensor(0.3, 0.2, 0.25, -0.1).requires_grad_(), tensor(0, 2, 1, 1)
    (gradient,) = torch.autograd.grad(RankKLLoss(0.2)(s, y), s)
    target = tensor(0, 1, 0.5, 0.5)
    expected = (torch.softmax(s.detach() / 0.2, 0) - torch.softmax(target / 0.2, 0)) / (0.2 * 4)
    torch.testing.assert_close(gradient, expected)


def test_pro_hand_values() -> None:
    one = PROLoss(1)
    assert one(tensor(0.8, 0.2), tensor(1, 0)).item() == pytest.approx(0.437488, abs=1e-6)
    assert one(tensor(0.8, 0.2), tensor(0.5, 0)).item() == pytest.approx(0.554355, abs=1e-6)
    s, y = tensor(0.9, 0.5, 0.1), tensor(1, 0.5, 0)
    assert one(s, y).item() == pytest.approx(0.638434, abs=2e-6)
    assert one(s + 0.1, y).item() == pytest.approx(0.6319, abs=1e-4)
    y = tensor(1, 0.6, 0.3, 0)
    assert PROLoss()(tensor(0.9, 0.6, 0.3, 0), y).item() == pytest.approx(0.0527, abs=1e-4)
    assert PROLoss()(tensor(-0.1, -0.4, -0.7, -1), y).item() == pytest.approx(0.4848, abs=1e-4)
    assert PROLoss()(tensor(0, 0.3, 0.6, 0.9), y).item() == pytest.approx(9.05, abs=1e-2)
    assert PROLoss()(torch.zeros(4, dtype=torch.float64), y).item() == pytest.approx(1.0594, abs=1e-4)
    assert one(s, 5 * y[:3]).item() == pytest.approx(PROLoss(1 / 5)(s, y[:3]).item(), abs=1e-12)


def test_own_negatives_hand_values() -> None:
    loss, positive, negatives = OwnNegativesLoss(1), tensor(0.8), tensor(0.2, 0.4)[None]
    assert loss(positive, negatives).item() == pytest.approx(0.797116, abs=1e-6)
    assert loss(positive, negatives.repeat(1, 4)).item() == pytest.approx(1.770966, abs=1e-6)
    more = torch.cat([negatives, tensor(-1.0)[None]], dim=1)
    assert loss(positive, more) > loss(positive, negatives)
    with pytest.raises(InputError, match=r"expected positives \(n,\)"):
        loss(positive, negatives[0])


@settings(deadline=None, max_examples=60)
@given(scores, st.data())
def test_slow_twins(values: list[float], data: st.DataObject) -> None:
    grades = data.draw(st.lists(st.sampled_from([0, 0.25, 0.5, 1.0]), min_size=len(values), max_size=len(values)))
    s, y = np.array(values, dtype=np.float64), np.array(grades, dtype=np.float64)
    if len(set(grades)) > 1:
        found = RankKLLoss(0.1)(torch.from_numpy(s), torch.from_numpy(y)).item()
        assert found == pytest.approx(slow_rank_kl(s, y, 0.1), abs=1e-9)
    assert PROLoss(0.1)(torch.from_numpy(s), torch.from_numpy(y)).item() == pytest.approx(
        slow_pro(s, y, 0.1), abs=1e-9
    )


@pytest.mark.parametrize(
    ("loss", "shift", "factor", "affine", "monotone"),
    [
        (PearsonLoss(), True, True, True, False),
        (RankKLLoss(), True, False, True, True),
        (PROLoss(), False, False, False, False),
        (nn.MSELoss(), False, False, False, False),
    ],
)
def test_what_changes_nothing(loss: Loss, shift: bool, factor: bool, affine: bool, monotone: bool) -> None:
    s, y = tensor(0.8, 0.1, 0.5, 0.2, 0.3), tensor(1, 0.2, 0.4, 0.2, 0)
    value = loss(s, y)
    changed = [loss(s + 0.3, y), loss(2 * s, y), loss(s, 3 * y + 1), loss(s, y**2)]
    assert [bool(torch.isclose(value, other, rtol=1e-9)) for other in changed] == [shift, factor, affine, monotone]


def test_sentence_transformers_cosent_is_invariant_as_said() -> None:
    def loss(s: Tensor, y: Tensor) -> Tensor:
        # Cosines of unit vectors of the plane, at the angle whose cosine is asked for.
        u = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(len(s), 1)
        v = torch.stack([s, (1 - s**2).sqrt()], dim=1)
        found: Tensor = CoSENTLoss(nn.Identity()).compute_loss_from_embeddings([u, v], y)  # type: ignore[arg-type]
        return found

    assert loss(tensor(0.6, 1.0), tensor(0, 1)).item() == pytest.approx(3.3541e-4, rel=1e-3)
    assert loss(tensor(0.5, 0.5, 0.5, 0.5), tensor(1, 2, 3, 4)).item() == pytest.approx(math.log(7), abs=1e-6)
    assert loss(tensor(0.1, 0.5), tensor(1, 1)).item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=["pearson", "published", "rank-kl", "pro"])
@pytest.mark.parametrize("case", ["grades", "scores", "both", "one"])
def test_batches_without_an_order_are_finite(loss: Loss, case: str) -> None:
    y = torch.full((4,), 0.5) if case in ("grades", "both") else torch.tensor([0.0, 1.0, 0.5, 0.5])
    s = torch.full((4,), 0.3) if case in ("scores", "both") else torch.tensor([0.1, 0.2, 0.3, 0.0])
    if case == "one":
        s, y = s[:1], y[:1]
    s.requires_grad_()
    value = loss(s, y)
    value.backward()
    assert torch.isfinite(value) and s.grad is not None and torch.isfinite(s.grad).all()
    if case != "scores":
        assert value == 0 and not s.grad.any(), "nothing to order, nothing to pull"


@settings(deadline=None, max_examples=80)
@given(st.permutations([0.9, 0.7, 0.4, 0.3, 0.1]), st.integers(0, 4), st.integers(0, 4))
def test_mending_an_inversion_never_costs(values: list[float], i: int, j: int) -> None:
    y = tensor(5, 4, 3, 2, 1)
    s = tensor(*values)
    i, j = min(i, j), max(i, j)
    mended = s.clone()
    if s[i] < s[j]:
        mended[[i, j]] = s[[j, i]]
    for loss in (PearsonLoss(), RankKLLoss()):
        assert loss(mended, y) <= loss(s, y) + 1e-12


@pytest.mark.parametrize("loss", LOSSES, ids=["pearson", "published", "rank-kl", "pro"])
def test_half_precision_is_computed_in_single(loss: Loss) -> None:
    s = torch.tensor([0.5, 0.25, 0.125], dtype=torch.bfloat16)
    value = loss(s, torch.tensor([1.0, 0.0, 0.5]))
    assert value.dtype == torch.float32


def test_refusals() -> None:
    for loss in LOSSES:
        with pytest.raises(InputError, match=r"expected scores \(n,\)"):
            loss(torch.zeros(3, 1), torch.zeros(3))
    for kind in (RankKLLoss, PROLoss, OwnNegativesLoss):
        with pytest.raises(InputError, match="temperature = 0"):
            kind(0)
    with pytest.raises(InputError, match="mean or sum"):
        RankKLLoss(reduction="max")  # type: ignore[arg-type]
