"""Systems compared: the same resamples for all, seeds pooled, clusters, verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gradate.errors import InputError
from gradate.evaluation.metrics import spearman
from gradate.evaluation.significance import PairedScores, benchmark_difference
from gradate.evaluation.systems import Arena, Difference, ScoredTask, System, seed_spread
from gradate.evaluation.verdict import judge

RNG = np.random.default_rng(0)
GOLD = {"A": RNG.normal(size=80), "B": RNG.normal(size=60)}
TASKS = {
    "A": ScoredTask(GOLD["A"], (50, 30), np.arange(80) // 4),
    "B": ScoredTask(GOLD["B"], None, np.arange(60) // 3),
}


def system(name: str, noise: float, seeds: tuple[int, ...] = (1, 2, 3)) -> System:
    rng = np.random.default_rng(len(name))
    rows = max(1, len(seeds))
    return System(name, {t: g + noise * rng.normal(size=(rows, len(g))) for t, g in GOLD.items()}, seeds)


def test_values_and_pooled_differences() -> None:
    good, bad = system("good", 0.5), system("worse", 2.0)
    arena = Arena(TASKS, resamples=200)
    values = arena.values(good)
    assert values["A"].tolist() == [spearman(GOLD["A"], row) for row in good.scores["A"]]
    assert values["average"] == pytest.approx((values["A"] + values["B"]) / 2)
    found = arena.difference(bad, good)
    mean = float(np.mean(values["average"] - arena.values(bad)["average"]))
    assert found["average"].pairs.value == pytest.approx(mean)
    assert found["average"].seeds is not None and found["average"].seeds.n == 3
    assert found["average"].williams is None and found["A"].williams is not None and found["A"].williams.t > 0
    assert found["A"].clusters is not None
    assert judge(found["average"])[0] == "holds" and judge(arena.difference(good, bad)["average"])[0] == "fails"
    json.dumps(found["A"].to_json(), allow_nan=False)


def test_one_seed_each_is_the_paired_bootstrap() -> None:
    one, other = system("one", 1.0, ()), system("other", 0.5, ())
    found = Arena(TASKS, resamples=100).difference(one, other)
    pairs = {t: PairedScores(GOLD[t], one.scores[t][0], other.scores[t][0], TASKS[t].subsets) for t in TASKS}
    expected = benchmark_difference(pairs, resamples=100)
    assert {t: d.pairs for t, d in found.items()} == expected
    assert found["average"].seeds is None and judge(found["average"])[0] == "undecided"


def test_equal_systems_differ_by_nothing() -> None:
    one = system("one", 1.0)
    found = Arena(TASKS, resamples=50).difference(one, System("copy", one.scores, one.seeds))
    for difference in found.values():
        assert (difference.pairs.value, difference.pairs.low, difference.pairs.high, difference.pairs.p) == (
            0,
            0,
            0,
            1,
        )
    assert found["A"].williams is not None and found["A"].williams.p == 1


def test_clusters_widen_the_interval_of_pairs_that_err_together() -> None:
    rng = np.random.default_rng(3)
    clusters = np.arange(400) // 20
    gold = rng.normal(size=400)
    shared = rng.normal(size=20)[clusters]
    task = {"A": ScoredTask(gold, None, clusters)}
    good = System("good", {"A": (gold + 1.5 * shared)[None]})
    other = System("other", {"A": (gold + 1.5 * rng.normal(size=400))[None]})
    found = Arena(task, resamples=400).difference(good, other)["A"]
    assert found.clusters is not None
    width = [i.high - i.low for i in (found.pairs, found.clusters) if i.high is not None and i.low is not None]
    assert width[1] > 1.3 * width[0]


def test_constant_scores_are_undefined_and_never_a_number() -> None:
    flat = System("flat", {t: np.zeros((1, len(g))) for t, g in GOLD.items()})
    found = Arena(TASKS, resamples=20).difference(system("one", 1.0, ()), flat)
    assert found["average"].to_json() == {
        "difference": None,
        "low": None,
        "high": None,
        "p": None,
        "clusters": {"low": None, "high": None, "p": None},
    }
    assert judge(found["average"]) == ("undecided", "a correlation is undefined")


def test_systems_that_do_not_fit() -> None:
    one = system("one", 1.0)
    with pytest.raises(InputError, match="has no scores of B"):
        Arena(TASKS, resamples=5).difference(one, System("half", {"A": one.scores["A"]}, one.seeds))
    with pytest.raises(InputError, match="which has 60 pairs"):
        Arena(TASKS, resamples=5).values(System("long", {"A": one.scores["A"], "B": one.scores["A"]}, one.seeds))
    with pytest.raises(InputError, match="2 seeds, but scores of"):
        System("few", one.scores, (1, 2))


def test_spread_over_seeds() -> None:
    paired = seed_spread((1, 2, 3), np.array([1.0, 2.0, 3.0]), (3, 1, 2), np.array([3.5, 1.5, 2.5]))
    assert paired is not None and (paired.sd, paired.low, paired.high) == (0, 0.5, 0.5)
    against_one = seed_spread((), np.array([1.0]), (1, 2), np.array([2.0, 4.0]))
    assert against_one is not None and against_one.n == 2 and against_one.sd == pytest.approx(2**0.5)
    apart = seed_spread((1, 2), np.array([1.0, 2.0]), (3, 4), np.array([2.0, 4.0]))
    assert apart is not None and apart.low < 1.5 < apart.high
    assert seed_spread((1,), np.array([1.0]), (1,), np.array([2.0])) is None
    assert seed_spread((1, 2), np.array([1.0, np.nan]), (1, 2), np.array([2.0, 4.0])) is None


def test_a_margin_turns_better_into_no_worse() -> None:
    arena = Arena(TASKS, resamples=100)
    one = system("one", 1.0)
    nearly = System(
        "near", {t: s + 1e-3 * np.random.default_rng(1).normal(size=s.shape) for t, s in one.scores.items()}, one.seeds
    )
    found: Difference = arena.difference(one, nearly)["average"]
    assert judge(found)[0] == "undecided"
    assert judge(found, margin=1.0) == ("holds", "all intervals lie above")
