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
