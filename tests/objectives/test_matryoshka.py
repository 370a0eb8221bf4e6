"""A loss at several widths: the sum over embeddings cut off there, cached or not, packed or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gradate.engine.packing import packed
from gradate.errors import InputError
from gradate.objectives.build import build_objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.matryoshka import at_widths, check_widths
from gradate.scale import LabelScale
from tests.tiny import set_dropout, tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2, 3])
FIRST = ["a b c", "d", "e f g h i j k", "l m", "n o p q r", "s t"]
SECOND = ["c", "e f g h", "a", "b c d e f g", "h i", "j k l"]
GRADES = torch.tensor([0.0, 1, 2, 3, 1, 0], dtype=torch.float64)
CONFIGS = [
    ObjectiveConfig(name="cosent"),
    ObjectiveConfig(name="info-nce"),
    ObjectiveConfig(name="sum", parts=(ObjectiveConfig(name="pearson"), ObjectiveConfig(name="rank-kl", weight=2.0))),
]


def made(config: ObjectiveConfig) -> Any:
    encoder = tiny_encoder(normalize=False)
    set_dropout(encoder, 0.0)
    return build_objective(config, encoder, None, SCALE).double().train()


def features(objective: Any) -> list[dict[str, Any]]:
    return [objective.model.preprocess(texts) for texts in (FIRST, SECOND)]


def expected(objective: Any, widths: list[int]) -> Tensor:
    whole = [objective.model(column)["sentence_embedding"] for column in features(objective)]
    losses = [objective.from_embeddings([side[:, :width] for side in whole], GRADES) for width in widths]
    total: Tensor = sum(losses[1:], start=losses[0])
    return total


def gradients(objective: Any, loss: Tensor) -> dict[str, Tensor]:
    objective.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.title)
@pytest.mark.parametrize("mini", [None, 2, 5, 64])
def test_it_is_the_sum_over_widths(config: ObjectiveConfig, mini: int | None) -> None:
    objective = made(config)
    by_hand = expected(objective, [32, 16, 4])
    wanted = gradients(objective, by_hand)
    loss = at_widths(objective.model, objective if mini is None else CachedObjective(objective, mini), [4, 16])
    found = loss(features(objective), GRADES)
    torch.testing.assert_close(found.detach(), by_hand.detach(), atol=1e-10, rtol=1e-10)
    for name, gradient in gradients(objective, found).items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-10, rtol=1e-7, msg=name)


def test_packed_texts_are_cut_as_well() -> None:
    objective = made(CONFIGS[0])
    by_hand = expected(objective, [32, 8]).detach()
    with packed(objective.model) as is_packed:
        assert is_packed
        found = at_widths(objective.model, objective, [8])(features(objective), GRADES)
    torch.testing.assert_close(found.detach(), by_hand, atol=1e-5, rtol=1e-5)


def test_a_width_beyond_the_encoder_is_refused() -> None:
    encoder = tiny_encoder()
    assert check_widths(encoder, []) == check_widths(encoder, [31]) == 32
    with pytest.raises(InputError, match=r"stages\.1\.matryoshka: 32 reaches the 32 numbers"):
        check_widths(encoder, [8, 32], where="stages.1.matryoshka")
