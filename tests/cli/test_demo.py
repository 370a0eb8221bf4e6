from __future__ import annotations

from pathlib import Path

import pytest

from gradate.runs.demo import DemoResult
from tests.cli.test_train import OWN, run_of

SCORED = {"text1": "a", "text2": "b", "prediction": 2.75, "grade": "highly", "similarity": 0.9}


@pytest.fixture
def asked(monkeypatch):
    asked = {}

    def demo(out, *, observer):
        asked["out"] = out
        observer.note("precision fp32: asked for")
        return DemoResult(run_of(OWN), (SCORED,))

    monkeypatch.setattr("gradate.runs.demo.demo", demo)
    return asked


def test_before_after_and_difference_are_told(gradate, asked):
    answer = gradate("demo", "--out", "runs/mine", "--json")
    assert answer.code == 0
    assert asked["out"] == Path("runs/mine")
    assert {key: answer.json[key] for key in OWN} == OWN
    assert answer.json["new_pairs"] == [SCORED]
    assert (answer.json["model"], answer.json["report"]) == ("runs/x/model", "runs/x/report.html")


def test_people_see_the_table_the_new_pairs_and_at_last_the_paths(gradate, asked):
    answer = gradate("demo")
    assert asked["out"] is None
    lines = [line.split() for line in answer.out.splitlines() if line.strip()]
    assert lines[0] == "40 test pairs word overlap before after difference".split()
    assert "prediction 2.75".split() in lines
    assert lines[-2:] == [["model", "runs/x/model"], ["report", "runs/x/report.html"]]
    assert "precision fp32" in answer.err
