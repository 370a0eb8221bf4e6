"""Bootstrap intervals: against a plain loop, their coverage, and their corner cases."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from gradate.errors import InputError
from gradate.evaluation.metrics import mae_statistic, qwk_statistic, spearman_statistic
from gradate.evaluation.significance import (
    Interval,
    PairedScores,
    benchmark_difference,
    bootstrap_interval,
    paired_difference,
)
from gradate.scale import LabelScale


def _data(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 11, n) / 2
    return gold, gold + rng.normal(scale=noise, size=n)


def test_interval_equals_a_plain_loop_over_resamples() -> None:
    gold, score = _data(80, 2.0)
    found = bootstrap_interval(spearman_statistic, gold, score, resamples=200, seed=3)
    drawn = np.random.default_rng(3).integers(0, 80, (200, 80))
    values = [100 * stats.spearmanr(gold[i], score[i])[0] for i in drawn]
    assert found.value == pytest.approx(100 * stats.spearmanr(gold, score)[0])
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_interval_does_not_depend_on_chunking(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, score = _data(30, 1.0)
    whole = bootstrap_interval(mae_statistic, gold, score, resamples=50)
    monkeypatch.setattr("gradate.evaluation.significance.CHUNK_ELEMENTS", 100)
    assert bootstrap_interval(mae_statistic, gold, score, resamples=50) == whole


def test_interval_is_as_wide_as_theory_says() -> None:
    gold, score = _data(400, 1.0)
    error = np.abs(gold - score)
    found = bootstrap_interval(mae_statistic, gold, score, resamples=2000)
    assert found.low is not None and found.high is not None
    half = 1.96 * error.std() / np.sqrt(400)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_identical_systems_differ_by_nothing() -> None:
    gold, score = _data(50, 1.0)
    assert paired_difference(spearman_statistic, gold, score, score) == Interval(0.0, 0.0, 0.0, 1.0)


def test_a_clear_gain_has_its_interval_above_zero() -> None:
    gold, better = _data(300, 1.0)
    worse = better + np.random.default_rng(9).normal(scale=3.0, size=300)
    gain = paired_difference(spearman_statistic, gold, worse, better)
    loss = paired_difference(spearman_statistic, gold, better, worse)
    assert gain.low is not None and gain.low > 0
    assert gain.p is not None and gain.p < 0.01
    assert (loss.value, loss.low, loss.high) == pytest.approx((-gain.value, -gain.high, -gain.low))  # type: ignore[operator]


def test_pairing_makes_the_interval_narrower() -> None:
    gold, first = _data(300, 2.0)
    second = first + np.random.default_rng(1).normal(scale=0.1, size=300)
    paired = paired_difference(spearman_statistic, gold, first, second)
    alone = bootstrap_interval(spearman_statistic, gold, first)
    assert paired.high - paired.low < 0.3 * (alone.high - alone.low)  # type: ignore[operator]


def test_undefined_is_carried_not_invented() -> None:
    constant = bootstrap_interval(spearman_statistic, [0, 1, 2], [1, 1, 1], resamples=20)
    assert constant.to_json() == {"value": None, "low": None, "high": None, "undefined": 20}
    few = bootstrap_interval(spearman_statistic, [0, 0, 1], [1, 2, 3], resamples=200)
    assert few.value is not None and 0 < few.undefined < 200
    assert bootstrap_interval(spearman_statistic, [], []) == Interval(None, None, None)


def test_kappa_interval() -> None:
    scale = LabelScale.from_values([0, 1, 2])
    gold = np.tile([0.0, 1.0, 2.0], 30)
    found = bootstrap_interval(qwk_statistic(scale), gold, gold)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_benchmark_resamples_within_subsets_and_averages_over_tasks() -> None:
    rng = np.random.default_rng(5)
    tasks = {}
    for number, name in enumerate(("one", "two")):
        gold, first = _data(120, 2.0, seed=number)
        tasks[name] = PairedScores(gold, first, gold + rng.normal(scale=1.0, size=120), (100, 20))
    found = benchmark_difference(tasks, resamples=300)
    assert list(found) == ["one", "two", "average"]
    mean = (found["one"].value + found["two"].value) / 2  # type: ignore[operator]
    assert found["average"].value == pytest.approx(mean)
    width = {name: entry.high - entry.low for name, entry in found.items()}  # type: ignore[operator]
    assert width["average"] < max(width["one"], width["two"])
    # Subsets of one pair each are always drawn whole: nothing varies.
    fixed = {"one": PairedScores(tasks["one"].gold, tasks["one"].first, tasks["one"].second, (1,) * 120)}
    still = benchmark_difference(fixed, resamples=10)["one"]
    assert still.low == pytest.approx(still.value) and still.high == pytest.approx(still.value)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="resamples"):
        bootstrap_interval(mae_statistic, [0], [0], resamples=0)
    with pytest.raises(InputError, match="level"):
        bootstrap_interval(mae_statistic, [0], [0], level=1.0)
    with pytest.raises(InputError, match="one shape"):
        paired_difference(mae_statistic, [0, 1], [0, 1], [0])
    with pytest.raises(InputError, match="finite"):
        bootstrap_interval(mae_statistic, [0, 1], [0, float("nan")])
    with pytest.raises(InputError, match="average"):
        benchmark_difference({"average": PairedScores(np.ones(2), np.ones(2), np.ones(2))})
    with pytest.raises(InputError, match="subsets of 3"):
        benchmark_difference({"one": PairedScores(np.ones(2), np.ones(2), np.ones(2), (3,))})


def test_a_thousand_resamples_of_five_thousand_pairs_take_seconds() -> None:
    gold, score = _data(5000, 1.0)
    start = time.perf_counter()
    bootstrap_interval(spearman_statistic, gold, score)
    assert time.perf_counter() - start < 10
