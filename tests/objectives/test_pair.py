"""The pair objective: one forward pass, label contract, weights, classes."""

from __future__ import annotations

import pytest
import torch

from gradate.errors import InputError
from gradate.losses.smooth_k2 import SmoothK2Loss
from gradate.models.head import PairHead
from gradate.objectives.config import THROUGH_HEAD, ObjectiveConfig
from gradate.objectives.pair import PairObjective, build_loss
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2, 3])
CONFIG = ObjectiveConfig(k=2.0, x0=0.25)


def objective(config: ObjectiveConfig = CONFIG, scale: LabelScale = SCALE, outputs: int = 1) -> PairObjective:
    torch.manual_seed(0)
    return PairObjective(tiny_encoder(normalize=False), PairHead(32, outputs=outputs), config, scale)


def test_loss_is_that_of_the_head_on_two_forward_passes() -> None:
    found = objective()
    first, second = ["a b c", "d"], ["c", "e f g h"]
    grades = torch.tensor([1.0, 3.0])
    features = [found.model.preprocess(texts) for texts in (first, second)]
    u, v = (found.model(found.model.preprocess(texts))["sentence_embedding"] for texts in (first, second))
    expected = SmoothK2Loss(2, 0.25, boundary="both", low=0, high=3)(found.head(u, v), grades)
    torch.testing.assert_close(found(features, grades), expected, atol=1e-5, rtol=1e-5)


def test_weights_beside_the_grades() -> None:
    found = objective()
    u, v = torch.randn(4, 32), torch.randn(4, 32)
    grades, weights = torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 1.0, 1.0])
    each = torch.stack([found.from_embeddings([u[i : i + 1], v[i : i + 1]], grades[i : i + 1]) for i in range(4)])
    weighted = found.from_embeddings([u, v], torch.stack([grades, weights], dim=1))
    torch.testing.assert_close(weighted, (each * weights).mean())


def test_cross_entropy_reads_classes_of_an_uneven_scale() -> None:
    scale = LabelScale.from_values([0, 0.5, 2])
    found = objective(ObjectiveConfig("cross-entropy"), scale, outputs=3)
    assert found.target(torch.tensor([2.0, 0.0, 0.5])).tolist() == [2, 0, 1]
    u, v = torch.randn(3, 32), torch.randn(3, 32)
    expected = torch.nn.functional.cross_entropy(found.head(u, v), torch.tensor([2, 0, 1]))
    torch.testing.assert_close(found.from_embeddings([u, v], torch.tensor([2.0, 0.0, 0.5])), expected)


def test_heads_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="needs a head with 4 outputs, this one has 1"):
        objective(ObjectiveConfig("cross-entropy"))
    with pytest.raises(InputError, match="needs a head with 1 outputs, this one has 4"):
        objective(outputs=4)
    with pytest.raises(InputError, match="continuous"):
        objective(ObjectiveConfig("cross-entropy"), LabelScale.continuous(0, 5), outputs=2)


def test_torchs_own_losses_by_name() -> None:
    assert isinstance(build_loss(ObjectiveConfig("l1"), SCALE), torch.nn.L1Loss)
    assert isinstance(build_loss(ObjectiveConfig("mse"), SCALE), torch.nn.MSELoss)
    assert isinstance(build_loss(ObjectiveConfig("cross-entropy"), SCALE), torch.nn.CrossEntropyLoss)


def test_unresolved_or_too_wide() -> None:
    with pytest.raises(InputError, match="still auto"):
        build_loss(ObjectiveConfig(), SCALE)
    with pytest.raises(InputError, match="more than half the spacing"):
        build_loss(ObjectiveConfig(k=1.0, x0=0.7), SCALE)


def test_every_loss_has_a_card_entry() -> None:
    for name in THROUGH_HEAD:
        outputs = 4 if name == "cross-entropy" else 1
        config = ObjectiveConfig(name, k=2.0, x0=0.25)  # type: ignore[arg-type]
        card = objective(config, outputs=outputs).get_config_dict()
        assert card["loss"] == name and ("k" in card) == (name in ("smooth-k2", "translated-relu"))
