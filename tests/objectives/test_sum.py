"""Weighted sums over one forward pass, a layer in the middle among them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity

from gradate.engine.layer_tap import LayerTap
from gradate.engine.packing import packed
from gradate.errors import InputError
from gradate.models.head import PairHead
from gradate.objectives.build import build_objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.mid_layer import MidLayerObjective
from gradate.scale import LabelScale
from gradate.training.stage import Stage
from tests.tiny import set_dropout, tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2, 3])
FIRST = ["a b c", "d", "e f g h i j k", "l m", "n o p q r"]
SECOND = ["c", "e f g h", "a", "b c d e f g", "h i"]
GRADES = torch.tensor([0.0, 3, 2, 3, 1], dtype=torch.float64)
PEARSON = ObjectiveConfig(name="pearson", weight=2)
SMOOTH = ObjectiveConfig(k=2.0, x0=0.25)
MIDDLE = ObjectiveConfig(name="mid-info-nce", temperature=0.1, weight=0.5)
SUM = ObjectiveConfig(name="sum", parts=(SMOOTH, PEARSON, MIDDLE))


def make(config: ObjectiveConfig) -> Any:
    encoder = tiny_encoder(normalize=False)
    set_dropout(encoder, 0.0)
    torch.manual_seed(1)
    return build_objective(config, encoder, PairHead(32), SCALE).double().train()


def features(objective: Any) -> list[dict[str, Any]]:
    return [objective.model.preprocess(texts) for texts in (FIRST, SECOND)]


def gradients(objective: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    objective.zero_grad()
    loss.backward()
    return {
        name.removeprefix("parts.0."): p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None
    }


def test_a_sum_is_its_weighted_parts() -> None:
    whole = make(SUM)
    found = gradients(whole, whole(features(whole), GRADES))
    assert "head.linear.weight" in found
    expected: dict[str, torch.Tensor] = {}
    for part in SUM.parts:
        alone = make(part)
        for name, gradient in gradients(alone, alone(features(alone), GRADES)).items():
            expected[name] = expected.get(name, 0) + part.weight * gradient
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-10, rtol=1e-8, msg=name)


def test_one_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, passes = make(SUM), []
    objective.model.register_forward_hook(lambda *a: passes.append(1))
    objective(features(objective), GRADES)
    assert len(passes) == 1


@pytest.mark.parametrize("mini", [2, 3])
def test_the_cached_gradient_is_the_uncached_one(mini: int) -> None:
    plain, cached = make(SUM), make(SUM)
    expected = gradients(plain, plain(features(plain), GRADES))
    found = gradients(cached, CachedObjective(cached, mini)(features(cached), GRADES))
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-10, rtol=1e-8, msg=name)


def test_the_layer_in_the_middle_is_what_the_model_says_it_is() -> None:
    encoder = tiny_encoder(normalize=False)
    batch = encoder.preprocess(FIRST)
    states = encoder[0].model(**{k: batch[k] for k in ("input_ids", "attention_mask")}, output_hidden_states=True)
    mask = batch["attention_mask"][..., None].float()
    expected = (states.hidden_states[1] * mask).sum(1) / mask.sum(1)
    with LayerTap(encoder, "middle").open():
        found = encoder(batch)["sentence_embedding"]
    torch.testing.assert_close(found[:, 32:], expected, atol=1e-6, rtol=1e-5)
    assert encoder(encoder.preprocess(FIRST))["sentence_embedding"].shape == (5, 32), "closed again"
    with packed(encoder) as is_packed, LayerTap(encoder, 1).open():
        assert is_packed
        from_pack = encoder(encoder.preprocess(FIRST))["sentence_embedding"]
    torch.testing.assert_close(from_pack, found, atol=1e-5, rtol=1e-4)


def test_middle_counts_as_the_published_code() -> None:
    encoder = tiny_encoder()
    layers = encoder.get_submodule("0.model.encoder.layer")
    assert LayerTap(encoder, "middle").layer is layers[0]
    assert LayerTap(encoder, 2).layer is layers[1]
    with pytest.raises(InputError, match="layer = 3, and the encoder has 2"):
        LayerTap(encoder, 3)


def test_info_nce_of_the_high_grades() -> None:
    objective = make(MIDDLE)
    assert isinstance(objective, MidLayerObjective)
    u, v = torch.randn(2, 5, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cosines = cosine_similarity(u[:, None, 32:], v[None, :, 32:], dim=-1) / 0.1
    expected = [math.log(cosines[i].exp().sum()) - float(cosines[i, i]) for i in (1, 3)]
    assert objective.judge([u, v], GRADES).item() == pytest.approx(sum(expected) / 2, abs=1e-9)
    assert objective.judge([u, v], torch.ones(5)).item() == 0, "no pair is a positive"
    everyone = make(ObjectiveConfig(name="mid-info-nce", temperature=0.1, threshold=0))
    every = [math.log(cosines[i].exp().sum()) - float(cosines[i, i]) for i in range(5)]
    assert everyone.judge([u, v], GRADES).item() == pytest.approx(sum(every) / 5, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "sum", "parts": (PEARSON,)}, "two parts or more"),
        ({"name": "sum", "parts": (PEARSON, SUM)}, "itself a sum"),
        ({"name": "sum", "parts": (MIDDLE, MIDDLE)}, "one inner layer at most"),
        ({"name": "sum", "parts": (PEARSON, ObjectiveConfig(name="info-nce"))}, "reads other texts"),
        ({"name": "sum", "parts": (SMOOTH, ObjectiveConfig(name="cross-entropy"))}, "one output per grade"),
        ({"name": "pearson", "parts": (SMOOTH, PEARSON)}, "pearson has no parts"),
        ({"weight": 0}, "weight = 0 must be"),
        ({"temperature": -1}, "temperature = -1 must be"),
        ({"threshold": 1.5}, "threshold = 1.5 must lie"),
        ({"layer": 0}, "layer = 0 must be"),
        ({"positives": 0}, "positives = 0 must be"),
        ({"candidates": "all"}, "unknown candidates 'all'"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ObjectiveConfig(**settings)


def test_what_a_sum_is() -> None:
    assert SUM.needs_head and SUM.reads_grades and not SUM.per_example and not SUM.is_classifier
    assert SUM.title == "smooth-k2 + 2 × pearson + 0.5 × mid-info-nce"
    assert ObjectiveConfig(name="sum", parts=(SMOOTH, ObjectiveConfig(name="mse"))).per_example
    assert SUM.parameters()["parts"][1] == {"name": "pearson", "published": False, "weight": 2}  # type: ignore[index]
    with pytest.raises(InputError, match="no layer in the middle"):
        Stage(objective=SUM, compile="auto")
    with pytest.raises(InputError, match="over parts of a batch"):
        Stage(objective=SUM, accumulate=2)
    with pytest.raises(InputError, match="no head to judge"):
        Stage(objective=PEARSON, selection=Stage().selection.__class__(metric="mae_head"))  # type: ignore[union-attr]
