"""Table 4 from the committed benchmark of memory."""

from __future__ import annotations

import json
from pathlib import Path

from gradate.runs.reproduction.memory import COMMAND
from gradate.runs.reproduction.page import read_tables, table_page
from gradate.runs.reproduction.reproduce import reproduce

STEPS = (("gradate", 256, 16, 2, False), ("SimCSE, bf16", 100, 512, 40, True), ("gradate, fp32", 256, 16, 4, False))


def test_what_is_not_measured_is_missing(tmp_path: Path) -> None:
    found = reproduce("table-4", results=tmp_path)
    assert len(found.missing) == 5 and COMMAND in found.missing[0]["reason"] and not found.verdicts
    assert not list(tmp_path.iterdir())


def test_peaks_are_those_of_the_benchmark(tmp_path: Path) -> None:
    measurements = [
        {"part": "steps", "contender": c, "length": n, "batch": b, "peak_bytes": gib * 2**30, "predicted": p}
        for c, n, b, gib, p in STEPS
    ]
    (tmp_path / "performance").mkdir()
    (tmp_path / "performance" / "memory.json").write_text(json.dumps({"measurements": measurements}), encoding="utf-8")
    found = reproduce("table-4", results=tmp_path)
    rows = {row["name"]: row for row in found.to_json()["rows"]}
    assert rows["ours, batch 16, 256 tokens, bf16"]["cells"] == {"memory": {"mean": 2.0, "sd": None, "n": 1}}
    assert rows["ours, batch 16, 256 tokens, fp32"]["paper"] == {"memory": 41.27}
    assert [v["verdict"] for v in found.verdicts] == ["undecided", "holds"]
    assert "0.050 of it" in found.verdicts[1]["reason"] and "predicted" in found.verdicts[1]["reason"]
    page = table_page("table-4", read_tables(tmp_path, "table-4"))
    assert "40.00 (predicted, not run)" in page and "**holds**" in page
