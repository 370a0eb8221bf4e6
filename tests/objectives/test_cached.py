"""The cached objective's gradient is the uncached one, for losses over pairs and over whole batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from gradate.engine.packing import packed
from gradate.models.head import PairHead
from gradate.objectives.base import Objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import PairObjective
from gradate.scale import LabelScale
from tests.tiny import set_dropout, tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2, 3])
FIRST = ["a b c", "d", "e f g h i j k", "l m", "n o p q r", "s t", "u v w x y z a b"]
SECOND = ["c", "e f g h", "a", "b c d e f g", "h i", "j k l", "m"]
GRADES = torch.tensor([0.0, 1, 2, 3, 1, 0, 2], dtype=torch.float64)
WEIGHTS = torch.tensor([0.5, 2, 1, 0, 1.5, 1, 1], dtype=torch.float64)


class PearsonObjective(Objective):
    """1 − Pearson correlation of head and grades: its value depends on who shares the batch."""

    per_example = False

    def __init__(self, model: SentenceTransformer, head: PairHead) -> None:
        super().__init__(model, ObjectiveConfig())
        self.head = head

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        u, v = embeddings
        assert labels is not None
        grades, weights = (labels[:, 0], labels[:, 1]) if labels.ndim == 2 else (labels, torch.ones_like(labels))
        x, y = (side - (side * weights).sum() / weights.sum() for side in (self.head(u, v), grades))
        return 1 - (x * y * weights).sum() / ((x * x * weights).sum() * (y * y * weights).sum()).sqrt()


def pair(model: SentenceTransformer, head: PairHead) -> PairObjective:
    return PairObjective(model, head, ObjectiveConfig(k=2.0, x0=0.25), SCALE)


KINDS = pytest.mark.parametrize("kind", [pair, PearsonObjective])
LABELS = pytest.mark.parametrize("labels", [GRADES, torch.stack([GRADES, WEIGHTS], dim=1)], ids=["grades", "weights"])


@pytest.fixture
def made() -> Callable[..., Any]:
    def make(kind: Callable[..., Any], *, dropout: float = 0.0, checkpointing: bool = False) -> Any:
        encoder = tiny_encoder(normalize=False)
        set_dropout(encoder, dropout)
        if checkpointing:
            encoder.get_submodule("0.model").gradient_checkpointing_enable()
        torch.manual_seed(1)
        # Double: what counts is which terms are summed; in single precision their order, each machine's own, shows.
        return kind(encoder, PairHead(32)).double().train()

    return make


def features(objective: Any, count: int = len(FIRST)) -> list[dict[str, Any]]:
    return [objective.model.preprocess(texts[:count]) for texts in (FIRST, SECOND)]


def gradients(objective: Any, loss: Tensor, factor: float = 1.0) -> dict[str, Tensor]:
    objective.zero_grad()
    (loss * factor).backward()
    return {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], atol: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    assert {name.split(".")[0] for name in found} == {"model", "head"}
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=atol, rtol=1e-7, msg=name)


@KINDS
@LABELS
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("mini", [1, 2, 3, 7, 13])
def test_gradient_is_the_uncached_one(made, kind, labels, mini: int, checkpointing: bool) -> None:
    plain = made(kind)
    expected_loss = plain(features(plain), labels)
    expected = gradients(plain, expected_loss)
    objective = made(kind, checkpointing=checkpointing)
    loss = CachedObjective(objective, mini)(features(objective), labels)
    torch.testing.assert_close(loss, expected_loss.detach(), check_stride=False)
    assert_same(gradients(objective, loss), expected)


@KINDS
@pytest.mark.parametrize("mini", [2, 3, 7])
def test_both_passes_draw_the_same_dropout(made, kind, mini: int) -> None:
    objective = made(kind, dropout=0.3)
    torch.manual_seed(5)
    loss = CachedObjective(objective, mini)(features(objective), GRADES)
    found = gradients(objective, loss)
    # The same mini-batches in the same order draw the same masks; this keeps all of their graphs until the end.
    torch.manual_seed(5)
    u, v = (torch.cat([objective.model(part)["sentence_embedding"] for part in parts(objective, texts, mini)])
            for texts in (FIRST, SECOND))  # fmt: skip
    reference = objective.from_embeddings([u, v], GRADES)
    torch.testing.assert_close(loss, reference.detach())
    assert_same(found, gradients(objective, reference))
    torch.manual_seed(6)
    other = CachedObjective(objective, mini)(features(objective), GRADES)
    assert not torch.allclose(other, loss), "dropout was off"


def parts(objective: Any, texts: list[str], mini: int) -> Iterator[dict[str, Any]]:
    whole = objective.model.preprocess(texts)
    for start in range(0, len(texts), mini):
        mask = whole["attention_mask"][start : start + mini]
        width = int(mask.sum(dim=1).max())
        yield {k: v[start : start + mini, :width] if isinstance(v, Tensor) else v for k, v in whole.items()}


def test_checkpointing_redraws_the_dropout_too(made) -> None:
    found = []
    for checkpointing in (False, True):
        objective = made(PearsonObjective, dropout=0.3, checkpointing=checkpointing)
        torch.manual_seed(5)
        found.append(gradients(objective, CachedObjective(objective, 3)(features(objective), GRADES)))
    assert_same(found[1], found[0])


@KINDS
def test_the_factor_of_accumulation_reaches_encoder_and_head(made, kind) -> None:
    objective = made(kind)
    cached = CachedObjective(objective, 3)
    whole = gradients(objective, cached(features(objective), GRADES))
    quarter = gradients(objective, cached(features(objective), GRADES), factor=0.25)
    assert_same({name: 4 * g for name, g in quarter.items()}, whole)


def test_gradients_of_two_batches_add_up_in_any_order(made) -> None:
    objective = made(pair)
    cached = CachedObjective(objective, 2)
    halves = [features(objective), [objective.model.preprocess(t[:5]) for t in (SECOND, FIRST)]]
    separate = [gradients(objective, cached(f, GRADES[: len(f[0]["input_ids"])])) for f in halves]
    losses = [cached(f, GRADES[: len(f[0]["input_ids"])]) for f in halves]
    objective.zero_grad()
    for loss in losses:
        loss.backward()
    both = {n: p.grad for n, p in objective.named_parameters() if p.grad is not None}
    assert_same(both, {name: separate[0][name] + separate[1][name] for name in separate[0]})


@pytest.mark.parametrize(("count", "mini"), [(1, 1), (1, 8), (4, 64), (5, 4)])
def test_ragged_and_small_batches(made, count: int, mini: int) -> None:
    objective = made(pair)
    loss = CachedObjective(objective, mini)(features(objective, count), GRADES[:count])
    found = gradients(objective, loss)
    assert_same(found, gradients(objective, objective(features(objective, count), GRADES[:count])))


def test_a_batch_that_fits_is_encoded_once(made) -> None:
    objective = made(pair)
    passes: list[int] = []
    objective.model.register_forward_hook(lambda module, inputs, output: passes.append(1))
    for mini, expected in ((14, 1), (13, 4), (7, 4)):
        passes.clear()
        CachedObjective(objective, mini)(features(objective), GRADES).backward()
        assert len(passes) == expected, mini


@pytest.mark.parametrize("mini", [2, 5])
def test_packed_texts_are_cut_where_they_end(made, mini: int) -> None:
    plain = made(PearsonObjective)
    expected = gradients(plain, plain(features(plain), GRADES))
    objective = made(PearsonObjective)
    with packed(objective.model) as is_packed:
        assert is_packed
        found = features(objective)
        assert all("cu_seq_lens_q" in column for column in found)
        assert_same(gradients(objective, CachedObjective(objective, mini)(found, GRADES)), expected, atol=1e-5)


def test_frozen_parts_get_no_gradient(made) -> None:
    objective = made(pair)
    objective.model.requires_grad_(False)
    CachedObjective(objective, 3)(features(objective), GRADES).backward()
    assert all(p.grad is None for p in objective.model.parameters())
    assert objective.head.linear.weight.grad.norm() > 0
    objective.model.requires_grad_(True)
    objective.head.requires_grad_(False)
    objective.zero_grad()
    CachedObjective(objective, 3)(features(objective), GRADES).backward()
    assert objective.head.linear.weight.grad is None
    assert any(p.grad.norm() > 0 for p in objective.model.parameters() if p.grad is not None)


@pytest.mark.parametrize("autocast", [nullcontext, lambda: torch.autocast("cpu", dtype=torch.bfloat16)])
def test_without_gradients_it_is_the_loss(made, autocast: Callable[[], AbstractContextManager[object]]) -> None:
    objective = made(pair).eval()
    with torch.no_grad(), autocast():
        expected = objective(features(objective), GRADES)
        torch.testing.assert_close(
            CachedObjective(objective, 3)(features(objective), GRADES), expected, atol=1e-2, rtol=1e-2
        )
