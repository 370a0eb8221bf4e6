"""A stage refuses values out of range, each with its key and the range."""

from __future__ import annotations

import pytest

from gradate.errors import InputError
from gradate.objectives.config import ObjectiveConfig
from gradate.training.stage import LoraConfig, SelectionConfig, Stage
from gradate.training.task import TaskConfig


def test_defaults_are_valid() -> None:
    assert Stage().trainable == "all" and not Stage().is_convex
    assert Stage(trainable="head").is_convex and not Stage(trainable="head", solver="sgd").is_convex


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trainable", "last-0"),
        ("trainable", "everything"),
        ("solver", "newton"),
        ("scheduler", "cubic"),
        ("embeddings_rate", "none"),
        ("label_cast", "bool"),
        ("epochs", 0),
        ("epochs", float("nan")),
        ("batch_size", 0),
        ("batching", "by-length"),
        ("mini_batch_size", 0),
        ("compile", "maybe"),
        ("accumulate", 0),
        ("max_length", 2),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate", 2.0),
        ("head_learning_rate", -1.0),
        ("warmup", 1.0),
        ("weight_decay", -0.1),
        ("layer_decay", 0.0),
        ("layer_decay", 1.1),
        ("clip", 0.0),
        ("evaluate_every", 0),
        ("patience", 0),
        ("l2", 0.0),
        ("matryoshka", (0, 8)),
        ("matryoshka", (8, 8)),
    ],
)
def test_out_of_range(key: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        Stage(**{key: value})  # type: ignore[arg-type]
    assert refused.value.where == key and refused.value.remedy


def test_selection() -> None:
    assert SelectionConfig().greater_is_better and not SelectionConfig(metric="mae_head").greater_is_better
    with pytest.raises(InputError, match="unknown metric 'rho'"):
        SelectionConfig(metric="rho")


@pytest.mark.parametrize(
    "options", [{"r": 0}, {"bits": 8}, {"alpha": 0.0}, {"dropout": 1.0}, {"target_modules": ("q_proj", "all-linear")}]
)
def test_lora(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        LoraConfig(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("objective", "reads"),
    [
        (ObjectiveConfig(), "smooth-k2 reads a head"),
        (ObjectiveConfig(name="info-nce", projection=True), "info-nce reads a projection"),
        (ObjectiveConfig(name="mid-info-nce"), "mid-info-nce reads an inner layer"),
    ],
)
def test_what_has_one_width_is_no_matryoshka(objective: ObjectiveConfig, reads: str) -> None:
    with pytest.raises(InputError, match=reads):
        Stage(objective=objective, matryoshka=(16,))
    assert Stage(objective=ObjectiveConfig(name="cosent"), matryoshka=(16,)).matryoshka == (16,)


def test_tasks_beside_a_matryoshka_have_several_widths_too() -> None:
    task = TaskConfig("sts-corpus", ObjectiveConfig(name="mid-info-nce"))
    with pytest.raises(InputError, match="mid-info-nce reads an inner layer"):
        Stage(objective=ObjectiveConfig(name="info-nce"), matryoshka=(16,), beside=(task,))
