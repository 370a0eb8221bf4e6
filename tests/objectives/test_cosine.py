"""Losses on the cosine: the scale's grades, weights, and sentence-transformers' own losses behind a name."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import AnglELoss, CoSENTLoss, CosineSimilarityLoss
from torch.nn.functional import cosine_similarity

from gradate.losses.pearson import PearsonLoss
from gradate.losses.pro import PROLoss
from gradate.losses.rank_kl import RankKLLoss
from gradate.objectives.build import build_objective
from gradate.objectives.config import ON_COSINE, ObjectiveConfig
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

FIVE = LabelScale.continuous(1, 5)
U, V = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(3))
GRADES = torch.tensor([1.0, 5.0, 3.0, 2.5, 4.0, 1.0])
UNIT = (GRADES - 1) / 4


def objective(name: str, scale: LabelScale = FIVE, **settings: object):  # type: ignore[no-untyped-def]
    config = ObjectiveConfig(name=name, **settings)  # type: ignore[arg-type]
    return build_objective(config, tiny_encoder(normalize=False), None, scale)


@pytest.mark.parametrize("name", ON_COSINE)
def test_grades_are_mapped_to_the_unit_interval(name: str) -> None:
    model, cosines = tiny_encoder(), cosine_similarity(U, V)
    expected = {
        "pearson": PearsonLoss()(cosines, UNIT),
        "rank-kl": RankKLLoss(0.05)(cosines, UNIT),
        "pro": PROLoss(0.05)(cosines, UNIT),
        "cosent": CoSENTLoss(model, scale=20).compute_loss_from_embeddings([U, V], UNIT),
        "angle": AnglELoss(model, scale=20).compute_loss_from_embeddings([U, V], UNIT),
        "cosine-mse": CosineSimilarityLoss(model).compute_loss_from_embeddings([U, V], UNIT),
    }
    torch.testing.assert_close(objective(name).from_embeddings([U, V], GRADES), expected[name])
    unit = objective(name, LabelScale.continuous(0, 1)).from_embeddings([U, V], UNIT)
    torch.testing.assert_close(unit, expected[name])


@pytest.mark.parametrize("name", ON_COSINE)
def test_a_batch_of_one_and_of_equal_grades(name: str) -> None:
    for rows in (slice(0, 1), [0, 5]):
        u = U[rows].clone().requires_grad_()
        loss = objective(name).from_embeddings([u, V[rows]], GRADES[rows])
        loss.backward()
        assert torch.isfinite(loss) and u.grad is not None and torch.isfinite(u.grad).all()


def test_weights_count_for_a_mean_over_pairs() -> None:
    weights = torch.tensor([0.0, 2.0, 1.0, 1.0, 2.0, 0.0])
    found = objective("cosine-mse").from_embeddings([U, V], torch.stack([GRADES, weights], dim=1))
    torch.testing.assert_close(found, (weights * (cosine_similarity(U, V) - UNIT) ** 2).mean())


def test_the_published_pearson() -> None:
    exact, published = (objective("pearson", published=p).from_embeddings([U, V], GRADES) for p in (False, True))
    torch.testing.assert_close(1 - published, (1 - exact) * 5 / 6)
