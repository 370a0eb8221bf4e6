"""InfoNCE: hand values, sentence-transformers' own loss, triplets, and what it does without."""

from __future__ import annotations

import math

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from gradate.errors import InputError
from gradate.objectives.build import build_objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.contrastive import ContrastiveObjective
from gradate.training.stage import SelectionConfig, Stage
from tests.tiny import set_dropout, tiny_encoder

CONFIG = ObjectiveConfig(name="info-nce")


def objective(**settings: object) -> ContrastiveObjective:
    torch.manual_seed(0)
    config = ObjectiveConfig(name="info-nce", **settings)  # type: ignore[arg-type]
    return ContrastiveObjective(tiny_encoder(normalize=False), config)


def test_hand_values() -> None:
    same = torch.ones(64, 32)
    assert float(objective().from_embeddings([same, same], None)) == pytest.approx(math.log(64), abs=1e-5)
    assert float(objective().from_embeddings([same, same, same], None)) == pytest.approx(math.log(128), abs=1e-5)
    apart = torch.eye(32)
    expected = math.log(1 + 31 * math.exp(-20))
    assert float(objective().from_embeddings([apart, apart], None)) == pytest.approx(expected, abs=1e-7)


def test_it_is_sentence_transformers_loss_in_one_pass() -> None:
    found = objective()
    columns = [["a b c", "d", "e f"], ["a b", "d e", "f"], ["x", "y z", "w"]]
    features = [found.model.preprocess(texts) for texts in columns]
    theirs = MultipleNegativesRankingLoss(found.model)([found.model.preprocess(t) for t in columns], None)
    torch.testing.assert_close(found(features), theirs, atol=1e-5, rtol=1e-4)


def test_several_positives_are_the_mean_of_single_ones() -> None:
    q, p1, p2, n1, n2 = torch.randn(5, 4, 32, generator=torch.Generator().manual_seed(1))
    one, two = objective(), objective(positives=2)
    expected = (one.judge([q, p1, n1, n2], None) + one.judge([q, p2, n1, n2], None)) / 2
    torch.testing.assert_close(two.judge([q, p1, p2, n1, n2], None), expected)
    torch.testing.assert_close(one.judge([q, p1], None), two.judge([q, p1, p1], None))
    with pytest.raises(InputError, match="rows of 2 texts are too short for positives = 2"):
        two.judge([q, p1], None)


def test_hard_negatives_by_hand() -> None:
    first, second = torch.eye(32)[:1], torch.eye(32)[1:2]
    q, n = torch.cat([first, second]), torch.cat([second, first])
    found = objective(temperature=1).judge([q, q, n], None)
    assert float(found) == pytest.approx(math.log(2 + 2 / math.e), abs=1e-6)


def test_own_negatives_alone() -> None:
    q, p, n1, n2 = torch.randn(4, 5, 32, generator=torch.Generator().manual_seed(2))
    found = objective(candidates="own", temperature=0.1)
    whole = found.judge([q, p, n1, n2], None)
    torch.testing.assert_close(whole, found.judge([q, p, n2, n1], None))
    single = torch.stack([found.judge([c[i : i + 1] for c in (q, p, n1, n2)], None) for i in range(5)]).mean()
    torch.testing.assert_close(whole, single, msg="other rows are no candidates")
    with pytest.raises(InputError, match="and negatives"):
        found.judge([q, p], None)


def test_a_projection_trains_and_is_no_part_of_the_encoder() -> None:
    found = objective(projection=True)
    assert set(found.own_parameters()) == {"projection.0.weight", "projection.0.bias"}
    assert objective().own_parameters() == {}
    u = torch.randn(4, 32)
    found.from_embeddings([u, u + 0.1 * torch.randn(4, 32)], None).backward()
    assert found.own_parameters()["projection.0.weight"].grad is not None


def test_the_cached_gradient_is_the_uncached_one() -> None:
    gradients = []
    for cached in (False, True):
        found = objective(projection=True).double()
        set_dropout(found.model, 0.0)
        columns = [["a b c", "d", "e f", "g"], ["a b", "d e", "f", "h i"], ["x", "y z", "w", "q"]]
        features = [found.model.preprocess(texts) for texts in columns]
        (CachedObjective(found, 3) if cached else found)(features, None).backward()
        gradients.append({n: p.grad.clone() for n, p in found.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-4, msg=name)


def test_what_does_not_go_with_it() -> None:
    assert not CONFIG.per_example and not CONFIG.reads_grades
    with pytest.raises(InputError, match="temperature"):
        ObjectiveConfig(name="info-nce", temperature=0)
    with pytest.raises(InputError, match="trains no head"):
        Stage(objective=CONFIG, trainable="head")
    with pytest.raises(InputError, match="no grades that could be noisy"):
        Stage(objective=CONFIG, noise=0.1)
    with pytest.raises(InputError, match="no head to judge"):
        Stage(objective=CONFIG, selection=SelectionConfig(metric="spearman_head"))
    with pytest.raises(InputError, match="over parts of a batch"):
        Stage(objective=CONFIG, accumulate=2)
    with pytest.raises(InputError, match="needs graded pairs"):
        build_objective(ObjectiveConfig(k=2.0, x0=0.25), tiny_encoder(), None, None)
    assert isinstance(build_objective(CONFIG, tiny_encoder(), None, None), ContrastiveObjective)
