"""Plots: loss curves against the losses themselves, and what is drawn."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import build_loss
from gradate.report.negatives_plot import negatives_of_rows, negatives_plot
from gradate.report.plots import error_plot, learning_plot, loss_plot, loss_values, prediction_plot
from gradate.report.style import to_svg
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


@pytest.mark.parametrize("boundary", ["none", "both", "left"])
@pytest.mark.parametrize("name", ["smooth-k2", "translated-relu", "l1", "mse"])
def test_the_drawn_loss_is_the_trained_loss(name: Any, boundary: Any) -> None:
    config = ObjectiveConfig(name, 2.5, 0.25, boundary)
    loss = build_loss(config, SCALE, reduction="none")
    prediction = np.linspace(-2, 5, 57)
    for grade in (0.0, 2.0, 3.0):
        drawn = loss_values({"name": name, "k": 2.5, "x0": 0.25, "boundary": boundary}, prediction, grade, SCALE)
        trained = loss(torch.from_numpy(prediction), torch.full((57,), grade, dtype=torch.float64))
        assert drawn == pytest.approx(trained.numpy(), abs=1e-12)


def test_a_loss_over_logits_has_no_curve() -> None:
    assert loss_values({"name": "cross-entropy"}, np.zeros(1), 0.0, SCALE) is None
    assert loss_plot({"name": "cross-entropy"}, SCALE) is None


def test_half_the_spacing_is_marked_where_there_is_one() -> None:
    objective = {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"}
    discrete = to_svg(loss_plot(objective, LabelScale.from_values([0, 0.5, 2])), "loss")  # type: ignore[arg-type]
    assert "d/2 = 0.25" in discrete and "x0 = 0.25" in discrete
    continuous = to_svg(loss_plot(objective, LabelScale.continuous(0, 5)), "loss")  # type: ignore[arg-type]
    assert "d/2" not in continuous


def test_a_curve_for_each_grade_or_for_a_few() -> None:
    for scale, count in ((SCALE, 4), (LabelScale.from_values(range(12)), 6), (LabelScale.continuous(0, 5), 3)):
        figure = loss_plot({"name": "mse"}, scale)
        assert figure is not None
        assert len(figure.axes[1].get_lines()) == count


def test_a_sample_is_drawn_beyond_the_limit_and_named() -> None:
    gold = np.tile([0.0, 1, 2, 3], 100)
    figure = prediction_plot(gold, gold, SCALE, limit=50)
    assert len(figure.axes[0].collections[0].get_offsets()) == 50
    assert "a sample of 50 of 400 pairs" in to_svg(figure, "x")
    assert "400 pairs" in to_svg(prediction_plot(gold, gold, SCALE), "x")


def test_errors_count_the_pairs_of_each_grade_and_allow_absent_ones() -> None:
    svg = to_svg(error_plot(np.array([0.0, 0, 3]), np.array([0.2, -4.0, 2.0]), SCALE), "x")
    assert svg.count("n = 0") == 2 and "n = 2" in svg and "n = 1" in svg


def test_learning_curves_of_two_stages_and_lost_values() -> None:
    log = [
        {"stage": 1, "step": 40, "loss": 0.5},
        *({"stage": 2, "step": s, "loss": 1 / s} for s in range(1, 200)),
        {"stage": 2, "step": 200, "loss": float("nan")},
        {"stage": 2, "step": 200, "selection": 81.5, "metric": "spearman_cosine"},
    ]
    figure = learning_plot(log)
    assert figure is not None and len(figure.axes) == 2
    svg = to_svg(figure, "x")
    assert "(1 not finite)" in svg and "best 81.50" in svg and "stage 2" in svg
    assert learning_plot([]) is None
    assert learning_plot([{"stage": 1, "step": 1, "epoch": 1.0}]) is None


def test_the_best_of_an_error_is_its_lowest() -> None:
    log = [{"stage": 1, "step": s, "selection": v, "metric": "mae_head"} for s, v in ((1, 0.9), (2, 0.25), (3, 0.5))]
    figure = learning_plot(log)
    assert figure is not None and "best 0.25" in to_svg(figure, "x")


def test_hard_negatives_by_update() -> None:
    looks = [{"mean_cosine": 0.5, "replaced": 0, "queries": 8}, {"mean_cosine": 0.3, "replaced": 2, "queries": 8}]
    log = [{"stage": 1, "step": 50 * i, "hard_negatives": look} for i, look in enumerate(looks)]
    figure = negatives_plot([{"stage": 1, "step": 1, "loss": 0.5}, *log])
    assert figure is not None and len(figure.axes) == 2
    assert figure.axes[1].collections[0].get_segments()[1][1][1] == 25
    assert negatives_plot([{"stage": 1, "step": 1, "loss": 0.5}]) is None


def test_hard_negatives_of_several_rows() -> None:
    looks = [{"step": 0, "mean_cosine": 0.5, "replaced": 0, "queries": 8}]
    rows = [{"name": "static", "negatives": [looks]}, {"name": "dynamic", "negatives": [looks, looks]}]
    above, below = negatives_of_rows(rows).axes
    assert len(above.lines) == len(below.lines) == 3
    legend = below.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["static", "dynamic"]
    many = negatives_of_rows([{**rows[0], "name": str(number)} for number in range(5)]).axes[0]
    assert len({(line.get_color(), line.get_linestyle()) for line in many.lines}) == 5


def test_svg_carries_no_date_no_address_and_repeats(caplog: pytest.LogCaptureFixture) -> None:
    gold = np.array([0.0, 1, 2, 3])
    with caplog.at_level(logging.WARNING):
        first, second = (to_svg(prediction_plot(gold, gold, SCALE), 'a "b" <c> & d') for _ in range(2))
    assert first == second
    assert "<metadata" not in first and "<?xml" not in first and "<!DOCTYPE" not in first
    assert 'aria-label="a &quot;b&quot; &lt;c&gt; &amp; d"' in first
    assert not caplog.records
