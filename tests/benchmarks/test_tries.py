"""Tries towards a recipe: run once, kept with what the selection set said, and never with a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from benchmarks import tries
from tests.tiny import tiny_encoder

SHORT = ["stages.1.epochs=0.05", "precision=fp32"]


@pytest.mark.parametrize("path", sorted(tries.LISTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_lists_are_read(path: Path) -> None:
    assert tries.read_list(path)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"name": "a"}], "must have name and recipe"),
        ([{"name": "a", "recipe": "starter", "lr": 1}], "must have name and recipe"),
        ([{"name": "a", "recipe": "starter"}] * 2, "stands twice"),
        ([{"name": "a", "recipe": "starter", "after": "b"}], "comes before"),
        (
            [{"name": "b", "recipe": "starter"}, {"name": "a", "recipe": "starter", "after": "b", "seeds": [2]}],
            "comes before",
        ),
    ],
)
def test_lists_that_make_no_sense(entries: list[dict[str, str]], said: str, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    with pytest.raises(SystemExit, match=said):
        tries.read_list(path)


def test_tries_are_run_once_and_begin_where_others_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_encoder(tmp_path / "encoder")
    entries = [
        {"name": "first", "recipe": "starter", "set": [f"encoder={tmp_path / 'encoder'}", *SHORT], "seeds": [1, 2]},
        {"name": "second", "recipe": "starter", "set": SHORT, "after": "first", "seeds": [2]},
        {"name": "third", "recipe": "starter", "set": ["encoder=nowhere/at/all"]},
    ]
    path = tmp_path / "list.yaml"
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    listed, results = tries.read_list(path), tmp_path / "results" / "list.json"
    tries.run_tries(listed, results, tmp_path / "runs", [])
    first, other, second, third = tries.read_results(results)
    assert (first["seed"], other["seed"], second["seed"]) == (1, 2, 2)
    assert first["metric"] == "spearman_cosine" and second["values"][0] == pytest.approx(other["values"][-1])
    assert "failed" in third and "nowhere" in third["failed"]
    metrics = json.loads((tmp_path / "runs" / "first-1" / "metrics.json").read_text())
    assert metrics["after"] is None, "the test stays closed"

    monkeypatch.setattr(tries, "_try", lambda *_: pytest.fail("everything stands"))
    tries.run_tries(listed, results, tmp_path / "runs", [])
    table = tries.tries_table([{**first, "start": 50.0, "values": [61.0]}, {**other, "start": 50.0, "values": [63.0]}])
    assert "| first | `starter`" in table and "| 50.00 → 62.00 ± 1.41 | 1, 2 |" in table
    table = tries.tries_table([second, third])
    assert "| second | `starter`" in table and "from “first”" in table and "failed: " in table
    assert capsys.readouterr().out.startswith("first, seed 1\n")


def test_the_table_of_nothing_has_a_head() -> None:
    assert tries.read_results(Path("nowhere.json")) == []
    assert tries.tries_table([]).count("\n") == 1
