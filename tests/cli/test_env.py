from __future__ import annotations

import torch


def test_versions_device_and_precision_with_its_reason(gradate):
    answer = gradate("env", "--json")
    assert answer.code == 0
    found = answer.json
    assert found["packages"]["torch"] == torch.__version__
    assert found["device"] and found["precision"] in ("fp32", "bf16") and found["precision_reason"]


def test_for_people_packages_stand_in_the_same_list(gradate):
    lines = gradate("env").out.splitlines()
    assert any(line.split() == ["torch", torch.__version__] for line in lines)


def test_the_cache_and_its_size(gradate, monkeypatch, tmp_path):
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "rows.f32").write_bytes(bytes(2_500_000))
    monkeypatch.setenv("GRADATE_CACHE", str(tmp_path))
    found = gradate("env", "--json").json
    assert (found["cache"], found["cache_bytes"]) == (str(tmp_path), 2_500_000)
    lines = gradate("env").out.splitlines()
    assert any(line.split(maxsplit=1) == ["cache_bytes", "2,500,000 (2.5 MB)"] for line in lines)
    monkeypatch.setenv("GRADATE_CACHE", "off")
    found = gradate("env", "--json").json
    assert (found["cache"], found["cache_bytes"]) == ("off", 0)
