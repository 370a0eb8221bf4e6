"""Dropout from few bits: the right share, the right mean, the same mask backwards."""

from __future__ import annotations

import pytest
import torch

from gradate.engine.dropout import dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.9])
def test_share_and_mean(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.ones(400_003, dtype=dtype)
    kept = dropout(values, probability)
    assert kept.dtype == dtype
    kept = kept.float()
    assert float((kept == 0).float().mean()) == pytest.approx(probability, abs=0.005)
    assert float(kept.mean()) == pytest.approx(1, abs=0.02)
    assert kept[kept != 0].unique().item() == pytest.approx(
        1 / (1 - probability), rel=1e-3 if dtype == torch.float32 else 4e-3
    )


def test_gradient_passes_where_values_passed() -> None:
    values = torch.randn(37, 5, dtype=torch.float64, requires_grad=True)
    kept = dropout(values, 0.3)
    (gradient,) = torch.autograd.grad(kept.sum(), values)
    torch.testing.assert_close(kept, values * gradient)
    assert set((gradient == 0).flatten().tolist()) == {True, False}


def test_mask_follows_the_seed_and_neighbours_are_independent() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(100_000), 0.5) != 0

    assert torch.equal(draw(1), draw(1)) and not torch.equal(draw(1), draw(2))
    kept = draw(3).float()
    for lag in (1, 2, 3, 4):
        assert float((kept[lag:] * kept[:-lag]).mean()) == pytest.approx(0.25, abs=0.01)


def test_nothing_dropped_is_nothing_done() -> None:
    values = torch.randn(3)
    assert dropout(values, 0.0) is values
