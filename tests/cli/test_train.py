from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradate.errors import InputError, Interrupted, TrainingStopped
from gradate.runs.plan import Plan
from gradate.runs.results import Run, Runs
from gradate.scale import LabelScale
from gradate.training.fit import StageResult

INTERVAL = {"value": 80.0, "low": 70.0, "high": 90.0}
FLAT = {"spearman_cosine": 80.0, "spearman_head": None, "mae": 0.5, "accuracy": 0.7, "qwk": 0.6, "n": 40}
SYSTEM = FLAT | {"intervals": {"spearman_cosine": INTERVAL}}
OWN = {"before": SYSTEM, "after": SYSTEM, "baseline": SYSTEM, "difference": {"spearman_cosine": INTERVAL}}
SEVEN = {
    "before": {"tasks": {"STS12": {"spearman": 72.0}}, "average": 72.0},
    "after": {"tasks": {"STS12": {"spearman": 74.0}}, "average": 74.0},
    "difference": {
        "STS12": {"value": 2.0, "low": 1.0, "high": 3.0},
        "average": {"value": 2.0, "low": None, "high": None},
    },
}
STAGE = StageResult("spearman_cosine", 80.0, 85.5, 60, 100, 9.0, 123.0)


@pytest.fixture
def training(monkeypatch):
    """Stand in for the training; records what it was asked."""
    asked = {}

    def answer_with(result):
        def train(recipe, **settings):
            asked.update(settings, recipe=recipe)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr("gradate.runs.run.train", train)
        return asked

    return answer_with


def run_of(metrics, seed=1):
    return Run(Path("runs/x"), "two-stage", seed, (STAGE,), metrics, 12.0)


def test_flags_reach_the_run(gradate, training):
    asked = training(run_of(OWN))
    answer = gradate(
        *("train", "two-stage", "--pairs", "p.csv", "--dev", "d.csv", "--test", "t.csv", "--scale", "0,1,2"),
        *("--columns", "a,b,g", "--data", "raw", "--data", "nli=n.tsv", "--set", "seed=3", "--set", "stages.1.l2=1"),
        *("--seeds", "1,2", "--precision", "fp32", "--out", "runs/x", "--resume", "--json"),
    )
    assert answer.code == 0
    asked.pop("observer")
    assert asked == {
        "recipe": "two-stage",
        "pairs": Path("p.csv"),
        "dev": Path("d.csv"),
        "test": Path("t.csv"),
        "scale": LabelScale.from_values([0, 1, 2]),
        "columns": "a,b,g",
        "data": ["raw", "nli=n.tsv"],
        "overrides": ["seed=3", "stages.1.l2=1"],
        "seeds": [1, 2],
        "precision": "fp32",
        "out": Path("runs/x"),
        "resume": True,
        "overwrite": False,
        "dry_run": False,
        "trust_remote_code": False,
    }


def test_one_run_is_told_with_its_model_and_gain(gradate, training):
    training(run_of(OWN))
    answer = gradate("train", "two-stage", "--out", "runs/x", "--json")
    expected = {
        "run": "runs/x",
        "model": "runs/x/model",
        "best": {"metric": "spearman_cosine", "value": 85.5, "step": 60},
        "seconds": 12.0,
        "pairs_per_second": 123.0,
    }
    assert {key: answer.json[key] for key in expected} == expected
    assert "80.00 [70.00, 90.00]" in answer.err
    assert "runs/x/report.html" in answer.err


@pytest.mark.parametrize("metrics", [OWN, SEVEN, {"before": None, "after": None, "difference": None}])
def test_people_see_the_same_on_stdout(metrics, gradate, training):
    training(run_of(metrics))
    answer = gradate("train", "two-stage", "--out", "runs/x")
    assert "runs/x/model" in answer.out
    if metrics is SEVEN:
        assert [line.split() for line in answer.out.splitlines()][1:3] == [
            ["STS12", "72.00", "74.00", "2.00", "[1.00,", "3.00]"],
            ["average", "72.00", "74.00", "2.00"],
        ]


def test_several_seeds_are_told_with_mean_and_spread(gradate, training):
    other = replace(run_of(SEVEN, seed=2), metrics=SEVEN | {"after": SEVEN["after"] | {"average": 76.0}})
    training(Runs(Path("runs/x"), (run_of(SEVEN), other)))
    answer = gradate("train", "sts-regression/two-stage", "--out", "runs/x", "--seeds", "1,2", "--json")
    assert answer.json["mean"] == 75.0
    assert answer.json["sd"] == pytest.approx(2**0.5)
    assert len(answer.json["runs"]) == 2


def test_a_dry_run_shows_plan_and_first_batch(gradate, training):
    batch = [{"sentence1": "how do i pay", "sentence2": "where is my bill", "score": 2.0}]
    stage = {"source": "pairs", "pairs": 40, "updates": 12, "first_batch": batch}
    encoder = {"name": "bundled", "dimension": 384}
    asked = training(Plan("stages: []\n", (("k", "2", "d = 1"),), ("note",), encoder, (stage,)))
    answer = gradate("train", "two-stage", "--out", "runs/x", "--dry-run")
    assert asked["dry_run"] is True
    for part in ("stages: []", "bundled", "384", "stage 1", "12", "how do i pay"):
        assert part in answer.out
    assert gradate("train", "two-stage", "--out", "runs/x", "--dry-run", "--json").json["stages"] == [stage]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x0 = 2 is more than half", where="two-stage"), 2),
        (TrainingStopped("loss became NaN at update 7"), 1),
        (Interrupted("runs/x: SIGTERM"), 130),
    ],
)
def test_how_training_ends_is_the_exit_code(error, code, gradate, training):
    training(error)
    answer = gradate("train", "two-stage", "--out", "runs/x", "--json")
    assert (answer.code, answer.out, answer.err) == (code, "", f"error: {error}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "1,two"], "1,2,3"),
        (["--scale", "5..0"], "5..0"),
    ],
)
def test_values_that_cannot_be_read_are_refused(arguments, said, gradate, training):
    asked = training(run_of(OWN))
    answer = gradate("train", "two-stage", "--out", "runs/x", *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert not asked


def test_a_dry_run_cuts_documents_short_and_says_so(gradate, training):
    document = "word " * 500
    batch = [{"query": "how do i pay", "positive": document, "negative": document}]
    stage = {"source": "scifact", "pairs": 1, "updates": 1, "first_batch": batch}
    training(Plan("stages: []\n", (), (), {"name": "bundled"}, (stage,)))
    answer = gradate("train", "codiemb", "--out", "runs/x", "--dry-run")
    assert "…" in answer.out and answer.out.count("word") < 100
    whole = gradate("train", "codiemb", "--out", "runs/x", "--dry-run", "--json").json
    assert whole["stages"][0]["first_batch"][0]["negative"] == document
