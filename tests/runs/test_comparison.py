"""Before and after on a benchmark and on graded pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gradate.evaluation.grading import GradedScores
from gradate.evaluation.results import Evaluation, TaskResult
from gradate.runs.comparison import compare, compare_benchmark
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


def evaluation(noise: float, aggregation: str = "all", *, constant: bool = False) -> Evaluation:
    generator = np.random.default_rng(0)
    tasks = {}
    for name in ("A", "B"):
        gold = generator.uniform(0, 5, 200)
        cosine = np.ones(200) if constant and name == "B" else gold + noise * generator.normal(size=200)
        tasks[name] = TaskResult(name, gold, cosine, (("x", 120), ("y", 80)), aggregation)  # type: ignore[arg-type]
    return Evaluation("b", aggregation, "fp32", "asked", "0", tasks, "exact", 800, 800, 0, 1.0)  # type: ignore[arg-type]


def test_benchmark_gains_have_intervals() -> None:
    found = compare_benchmark(evaluation(4.0), evaluation(1.0), resamples=200)
    shown = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert shown["difference"].keys() == {"A", "B", "average"}
    for name, interval in shown["difference"].items():
        assert 0 < interval["low"] < interval["value"] < interval["high"], name
    average = shown["after"]["average"] - shown["before"]["average"]
    assert shown["difference"]["average"]["value"] == pytest.approx(average)
    assert found.intervals["before"]["A"].value == pytest.approx(shown["before"]["tasks"]["A"]["spearman"])


@pytest.mark.parametrize("aggregation", ["mean", "wmean"])
def test_other_aggregations_have_values_alone(aggregation: str) -> None:
    found = compare_benchmark(evaluation(4.0, aggregation), evaluation(1.0, aggregation), resamples=50)
    gain = found.difference["A"]
    assert gain.value is not None and gain.value > 0 and gain.low is None


def test_an_undefined_task_leaves_its_gain_undefined() -> None:
    found = compare_benchmark(evaluation(4.0, constant=True), evaluation(1.0), resamples=50).to_json()
    assert found["difference"]["B"]["value"] is None and found["difference"]["average"]["value"] is None
    assert found["difference"]["A"]["value"] > 0


def test_a_head_is_compared_with_the_cosine_before() -> None:
    generator = np.random.default_rng(1)
    gold = generator.integers(0, 4, 150).astype(np.float64)
    before = GradedScores(gold, gold + 3 * generator.normal(size=150), SCALE, None, from_head=False)
    after = GradedScores(gold, gold + generator.normal(size=150), SCALE, gold + 0.3 * generator.normal(size=150))
    found = compare(before, after, before, resamples=100).to_json()
    gain = found["after"]["spearman_head"] - found["before"]["spearman_cosine"]
    assert found["difference"]["spearman_head"]["value"] == pytest.approx(gain)
    assert found["before"]["spearman_head"] is None and found["before"]["n"] == 150
