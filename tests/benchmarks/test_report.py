"""Every table is rendered from its results alone, whole or half measured."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks import encode, evaluate, memory, page, stage1, train
from benchmarks.report import section
from tests.benchmarks.fake import TASKS, measured, results

TRAIN_SETTINGS = {"pairs": 5398, "batch_size": 16, "skipped": 8}
TRAIN = results(
    "train",
    [
        *measured("segments", train.STOCK, [50.0, 60.0]),
        *measured("segments", train.OURS, [300.0, 420.0]),
        *measured("segments", train.PUBLISHED, [8.0, 8.0]),
        *measured("epochs", train.STOCK, [200.0, 210.0], "seconds", average=80.0),
        *measured("epochs", train.OURS, [40.0, 35.0], "seconds", average=80.25),
        *measured("candidates", "bf16", [100.0], steps=64, before=5.0),
        *measured("candidates", "bf16, torch.compile", [200.0], steps=64, before=500.0),
    ],
    TRAIN_SETTINGS,
    flop_per_sentence=1e9,
)
ENCODE = results(
    "encode",
    [
        *measured("rounds", encode.STOCK, [400.0], tasks=TASKS, average=80.0, cosine_min=1.0, cosine_mean=1.0),
        *measured("rounds", encode.OURS, [2000.0], tasks=TASKS, average=80.0, cosine_min=0.9996, cosine_mean=0.9999),
        *measured("candidates", encode.candidate_name(64), [900.0, 950.0], before=1.0),
        *measured("candidates", encode.candidate_name(128), [1000.0, 990.0], before=1.0),
        *measured("candidates", encode.COMPILED, [1100.0, 1100.0], before=60.0),
    ],
    {"texts": 26173, "tried": 4096},
    flop_per_sentence=3e8,
)
EVALUATE = results(
    "evaluate",
    [
        *measured("rounds", evaluate.MTEB, [90.0, 60.0], "seconds", tasks=TASKS, average=80.0),
        *measured("rounds", evaluate.OURS, [30.0, 30.0], "seconds", tasks=TASKS, average=80.0),
    ],
    {},
    mteb="2.0",
)
STAGE1 = results(
    "stage1",
    [
        *measured("rounds", stage1.STOCK, [1200.0], "seconds"),
        *measured("rounds", stage1.COLD, [120.0], "seconds", loss=0.2),
        *measured("rounds", stage1.WARM, [10.0], "seconds", loss=0.2),
    ],
    {"steps": 200},
)


def _step(contender, length, batch, texts, peak, predicted=False):
    tokens = texts * batch * length
    place = {"part": "steps", "system": f"{contender}, {length} tokens", "round": batch, "contender": contender}
    return {**place, "length": length, "batch": batch, "tokens": tokens, "peak_bytes": peak, "predicted": predicted}


MEMORY = results(
    "memory",
    [
        _step(memory.SIMCSE, 100, 8, 3, 2**29 + 2400 * 2**18),
        _step(memory.SIMCSE, 100, 16, 3, 2**29 + 4800 * 2**18),
        _step(memory.SIMCSE, 100, 512, 3, 2**29 + 153_600 * 2**18, predicted=True),
        _step(memory.FP32, 256, 8, 2, 2**29 + 4096 * 2**18),
        _step(memory.FP32, 256, 16, 2, 2**29 + 8192 * 2**18),
    ],
    {"lengths": [100, 256]},
)
SCALING = results(
    "scaling",
    [
        {"part": "cells", "system": "gradate", "round": i, "length": 10, "pairs": n, "seconds": n / 1000, "rate": 1.0}
        for i, n in enumerate((1000, 10_000, 100_000))
    ],
    {"lengths": [10, 250], "sizes": [1000, 10_000, 100_000]},
    budget=1200.0,
)
ALL = {"train": TRAIN, "encode": ENCODE, "evaluate": EVALUATE, "stage1": STAGE1, "memory": MEMORY, "scaling": SCALING}
EXPECTED = {
    # 300/50 and 420/60 are the pairs; 360 sentences/s of 1 GFLOP are 45 % of 0.8 TFLOP/s.
    "train": ["| 55 (50–60) | 6.5 × (6.0–7.0) | 7 % | 205 (200–210) | 5.5 × (5.0–6.0) | 80.00", "| 45 % |", "+0.25"],
    "encode": ["| 400 | 5.0 × |", "| 75 % |", "0.99960", f"Chosen: {encode.candidate_name(128)}."],
    "evaluate": ["| mteb 2.0 | 75.0 (60.0–90.0) | 2.5 × (2.0–3.0) |"],
    "stage1": ["| 1,200.0 | 10.0 × | 120.0 × | not run to its end |", "0.2000"],
    "memory": ["38.00 (predicted, not run)", "| 512 | 256 |", "takes 0.066 of SimCSE, fp32 at 512 × 100"],
    "scaling": ["| 10 tokens | 1.0 | 10.0 | 100.0 | 1.000 [1.000, 1.000] |", "100,000 pairs of 250 tokens"],
}


@pytest.mark.parametrize("name", ALL)
def test_a_table_says_what_its_results_say(name):
    made = section(ALL[name])
    for part in EXPECTED[name]:
        assert part in made.markdown
    ElementTree.fromstring(made.plot)


@pytest.mark.parametrize("name", ALL)
def test_a_table_of_which_one_contender_was_measured_is_rendered(name):
    first = ALL[name]["measurements"][0]["system"]
    part = ALL[name] | {"measurements": [m for m in ALL[name]["measurements"] if m["system"] == first]}
    assert section(part).markdown.startswith("| ")


def test_a_quick_trial_is_marked():
    assert section(EVALUATE | {"quick": True}).markdown.startswith("**A quick trial, no measurement.**")


def test_the_best_settings_are_those_done_first_compilation_included():
    assert train.best_candidate(TRAIN) == "bf16"
    assert train.best_candidate(TRAIN | {"measurements": []}) == "bf16"
    assert encode.best_candidate(ENCODE) == (128, False)
    long = ENCODE | {"settings": {"texts": 10_000_000, "tried": 4096}}
    assert encode.best_candidate(long) == (encode.DEFAULT_BATCH_SIZE, True)


def test_the_page_holds_words_tables_plots_and_machines():
    text, plots = page.render({"train": TRAIN, "train-gpu": TRAIN}, "# Title\n\n[[train]]\n\nBetween.\n\n[[encode]]\n")
    assert plots.keys() == {"train.svg", "train-gpu.svg"}
    assert "![train](plots/train.svg)" in text
    assert "`python -m benchmarks train --data raw` · A CPU, 2 cores" in text
    assert "Not measured yet: `python -m benchmarks encode --data raw`." in text
    assert text.index("Between.") > text.index("plots/train-gpu.svg")
