"""The configuration of an objective: its values, and refusals that name the key and the range."""

from __future__ import annotations

import pytest

from gradate.errors import InputError
from gradate.objectives.config import BUFFERED, CONTRASTIVE, LOSSES, ON_COSINE, THROUGH_HEAD, ObjectiveConfig


def test_defaults_follow_the_paper_and_wait_for_the_scale() -> None:
    config = ObjectiveConfig()
    assert (config.name, config.k, config.x0, config.boundary) == ("smooth-k2", "auto", "auto", "both")


def test_every_loss_by_name() -> None:
    assert set(BUFFERED) < set(LOSSES)
    single = [name for name in LOSSES if name != "sum"]
    assert [ObjectiveConfig(name).name for name in single] == single  # type: ignore[arg-type]
    assert set(THROUGH_HEAD) | set(ON_COSINE) | set(CONTRASTIVE) | {"mid-info-nce", "sum"} == set(LOSSES)
    assert all(ObjectiveConfig(name).parameters()["name"] == name for name in single)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [1e-6, 2, 50.0])
@pytest.mark.parametrize("x0", [0, 0.25])
def test_values_in_range(k: float, x0: float) -> None:
    assert (ObjectiveConfig(k=k, x0=x0).k, ObjectiveConfig(k=k, x0=x0).x0) == (k, x0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "huber", "unknown loss 'huber' .*cross-entropy"),
        ("k", 0.0, "k = 0.0 must be a finite number above 0"),
        ("k", -1, "k = -1 must be"),
        ("k", float("nan"), "k = nan must be"),
        ("k", float("inf"), "k = inf must be"),
        ("k", True, "k = True must be"),
        ("k", "big", "k = big must be"),
        ("x0", -0.1, "x0 = -0.1 must be a finite number, 0 or more"),
        ("x0", float("nan"), "x0 = nan must be"),
        ("x0", float("inf"), "x0 = inf must be"),
        ("boundary", "right", "unknown boundary 'right' .*none, both, left"),
    ],
)
def test_out_of_range(key: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        ObjectiveConfig(**{key: value})  # type: ignore[arg-type]
    assert refused.value.where == f"objective.{key}"
