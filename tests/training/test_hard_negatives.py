"""Dynamic hard negatives: the rule's truth table, windows, a stage that mines and resumes, refusals."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradate.data.ranked import RankedRows
from gradate.errors import InputError, Interrupted
from gradate.models.graded import GradedModel
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.mine_negatives import FILE
from gradate.training.callbacks.observer import SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.callbacks.stop_signal import StopSignal
from gradate.training.fit import run_stage
from gradate.training.hard_negatives import HardNegatives, NegativesConfig, ShowingNegatives
from gradate.training.stage import Stage
from gradate.training.task import TaskConfig
from tests.tiny import set_dropout, tiny_encoder

LETTERS = "abcdefghijklmnopqrst"
ROWS = RankedRows(
    ["a b", "c d e", "f g"] * 2 + ["h i", "j k"],
    [["b a"], ["e d"], ["g"]] * 2 + [["i"], ["k l"]],
    [[f"{x} {y}" for x in LETTERS] for y in LETTERS[:8]],
)


def rule(start: float, now: float) -> bool:
    negatives = HardNegatives(ROWS.select([0]), NegativesConfig(count=2, skip=10, choice="nearest"))
    assert negatives.check(np.array([start])) == [], "the first look measures"
    return bool(negatives.check(np.array([now])))


@pytest.mark.parametrize(
    ("start", "now", "replaced"),
    [(0.90, 0.85, False), (0.90, 0.78, True), (0.95, 0.80, False), (-0.1, -0.1, False), (-0.1, -0.5, False)],
)
def test_truth_table(start: float, now: float, replaced: bool) -> None:
    assert rule(start, now) is replaced


def test_windows_are_consecutive_and_end_with_the_pool() -> None:
    pool = [f"n{rank}" for rank in range(15)]
    negatives = HardNegatives(RankedRows(["q"], [["p"]], [pool]), NegativesConfig(count=2, skip=10, choice="nearest"))
    seen = []
    for mean in (0.7, 0.5, 0.6, 0.4, 0.6, 0.3):
        seen.append(negatives.shown(0))
        negatives.check(np.array([mean]))
    assert seen == [pool[10:12], pool[10:12], pool[12:14], pool[12:14], pool[12:14], pool[12:14]]


def test_a_new_window_is_measured_anew_and_the_state_survives() -> None:
    config = NegativesConfig(count=2, skip=1, choice="nearest", pool=20)
    negatives = HardNegatives(ROWS, config)
    assert negatives.check(np.full(8, 0.7)) == []
    assert negatives.check(np.array([0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.4])) == [0, 7]
    again = HardNegatives(ROWS, config)
    again.restore(json.loads(json.dumps(negatives.state())))
    for found in (negatives, again):
        assert found.check(np.full(8, 0.65)) == [], "0.65 is where the new ones of 0 and 7 begin"
        assert found.shown(0) == ROWS.negatives[0][3:5] and found.shown(1) == ROWS.negatives[1][1:3]


def test_the_collator_shows_them() -> None:
    negatives = HardNegatives(ROWS.select([6]), NegativesConfig(count=2, skip=3, choice="nearest"))
    show = ShowingNegatives(list, negatives, "own")
    row = {"query": "h i", "positive_1": "i", "negative_1": "old", "negative_2": "old", "dataset_name": "own"}
    expected = ROWS.negatives[6][3:5]
    assert show([row]) == [row | {"negative_1": expected[0], "negative_2": expected[1]}]
    for query in ("h i", "of another set"):
        beside = row | {"query": query, "dataset_name": "beside-1"}
        assert show([beside]) == [beside], "a task beside the stage keeps its own negatives"


def stage(folder: Path, **values: Any) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    encoder = tiny_encoder()
    set_dropout(encoder, 0.0)
    model = GradedModel(encoder, precision="fp32")
    objective = ObjectiveConfig(name="info-nce", temperature=0.1, candidates="own")
    negatives = NegativesConfig(
        count=2, skip=1, pool=20, choice="nearest", replace_every=2, softening=1.0, hardest=1.0
    )
    examples = RankedRows(ROWS.query, ROWS.positives, ROWS.negatives, (1, 2), skip=1, nearest=True)
    config = Stage(
        objective=objective, negatives=negatives, epochs=3, batch_size=4, learning_rate=1e-2, evaluate_every=3,
        selection=None,
    )  # fmt: skip
    log = RunLog(folder / "log.jsonl")
    with StopSignal() as stop:
        run_stage(
            config, model, examples, folder=folder / "stage", log=log, precision=model.precision, seed=5, stop=stop,
            **values,
        )  # fmt: skip
    return {n: p.detach().clone() for n, p in model.encoder.named_parameters()}, log.records()


class Stop(SilentObserver):
    def stepped(self, step: int, record: dict[str, object]) -> None:
        if step == 4 and not record:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_stage_mines_and_a_resumed_one_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, records = stage(tmp_path / "whole")
    looks = [(r["step"], r["hard_negatives"]["replaced"]) for r in records if "hard_negatives" in r]
    assert [step for step, _ in looks] == [0, 2, 4, 6]
    assert looks[0][1] == 0 and sum(count for _, count in looks) > 0
    with pytest.raises(Interrupted):
        stage(tmp_path / "parts", observer=Stop())
    (checkpoint,) = (tmp_path / "parts" / "stage").glob("checkpoint-4")
    assert (checkpoint / FILE).is_file()
    resumed, log = stage(tmp_path / "parts")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert [r for r in log if "hard_negatives" in r] == [r for r in records if "hard_negatives" in r]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count = 0"),
        ({"skip": -1}, "skip = -1"),
        ({"ranked_by": "bm25"}, "ranked_by = bm25"),
        ({"pool": 13}, "at least 14"),
        ({"choice": "random"}, "choice = random"),
        ({"replace_every": 0}, "replace_every = 0"),
        ({"replace_every": 5}, "drawn negatives are not replaced"),
        ({"softening": 0.9}, "softening = 0.9"),
        ({"hardest": 0}, "hardest = 0"),
    ],
)
def test_refusals(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NegativesConfig(**values)


def test_only_the_stages_own_queries_are_mined() -> None:
    config = NegativesConfig(choice="nearest", replace_every=5)
    with pytest.raises(InputError, match="the stage's own queries alone"):
        TaskConfig("scifact", negatives=config)
