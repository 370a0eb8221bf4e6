"""The table of targets: what was asked, what the results say, and whether that is enough."""

from __future__ import annotations

import pytest

from benchmarks import evaluate, memory, train
from benchmarks.targets import TARGETS, targets


def rows(found):
    lines = targets(found).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_nothing_measured_is_said_for_every_target():
    assert len(rows({})) == len(TARGETS)
    assert all(row[-2:] == ["–", "–"] for row in rows({}))


def test_figures_are_those_of_the_results():
    def measured(part, system, **values):
        return {"part": part, "system": system, "round": 0, "session": 0, **values}

    speed = {
        "facts": {"flop_per_sentence": 2e9},
        "sessions": [{"peak": {"bf16": 4e11, "fp32": 2e11}}],
        "measurements": [measured("segments", n, rate=r) for n, r in ((train.STOCK, 25.0), (train.OURS, 110.0))],
    }
    whole = {
        "measurements": [measured("rounds", n, seconds=s) for n, s in ((evaluate.MTEB, 60.0), (evaluate.OURS, 30.0))]
    }
    steps = ((memory.OURS, 256, 16, 1e9), (memory.SIMCSE_BF16, 100, 512, 5e9))
    peaks = {
        "measurements": [
            measured("steps", n, contender=n, length=length, batch=batch, peak_bytes=peak)
            for n, length, batch, peak in steps
        ]
    }
    found = {(row[0], row[1]): row[2:] for row in rows({"train": speed, "evaluate": whole, "memory": peaks})}
    assert found["training, batch 16", "sentence-transformers"] == ["≥ 4 ×", "6 ×", "4.4 ×", "yes"]
    assert found["training, batch 16", "the bf16 peak"] == ["≥ 30 %", "45 %", "55 %", "yes"]
    assert found["training, batch 16", "its best settings"][-1] == "–"
    assert found["the seven-STS evaluation, cold start included", "mteb"] == ["≥ 3 ×", "", "2.0 ×", "**no**"]
    assert found["peak memory of a step, batch 16 × 256 tokens", "SimCSE, bf16, batch 512 × 100"][2:] == [
        "0.20 ×",
        "yes",
    ]
    assert sum(row[-1] == "–" for row in found.values()) == len(TARGETS) - 4


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.work}, {t.against}")
def test_the_aim_lies_beyond_what_is_required(target):
    assert target.aim is None or target.aim > target.required
