"""`gradate reproduce` through its entry point, without data: what stands, what is missing, nothing trained."""

from __future__ import annotations

import json


def test_without_data_it_shows_what_stands_and_what_is_missing(gradate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = gradate("reproduce", "table-3", "--json")
    found = answer.json
    assert answer.code == 0 and {"table", "scale", "rows", "missing", "verdicts"} <= found.keys()
    assert found["table"] == "table-3" and found["scale"] == "small"
    cited = next(row for row in found["rows"] if row["name"] == "Jina v2 + ours")
    assert cited["paper"]["average"] == 83.55 and cited["cells"] == {}
    assert found["missing"] and all("--data" in entry["reason"] for entry in found["missing"])
    assert not list(tmp_path.iterdir())
    shown = gradate("reproduce", "table-1", "--scale", "full", "--seeds", "7")
    assert "Smooth K2" in shown.out and "76.03" in shown.out and shown.code == 0


def test_the_list(gradate):
    answer = gradate("reproduce", "list", "--json")
    assert json.loads(answer.out)["table-1"].startswith("Table 1")


def test_bad_input_is_one_line(gradate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ("reproduce", "table-9"),
        ("reproduce", "table-1", "--seeds", "a"),
        ("reproduce", "table-1", "--seeds", "1,1"),
        ("reproduce", "table-1", "--data", "nowhere"),
    ):
        answer = gradate(*arguments)
        assert answer.code == 2 and answer.err.count("\n") == 1, arguments
