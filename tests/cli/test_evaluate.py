from __future__ import annotations

import pytest

from gradate.data.benchmarks import Benchmark, Subset, Task
from tests.beir import write_beir
from tests.cli.conftest import GRADES

SCALE = ",".join(GRADES)
NAMES = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


@pytest.fixture
def seven_sets(monkeypatch):
    subset = Subset("all", ["a b", "a c", "x y", "q"], ["a b", "z", "x y z", "b"], [5.0, 1.0, 4.0, 0.0], 2)
    seven = Benchmark("seven-sts", {name: Task(name, (subset,)) for name in NAMES})
    monkeypatch.setattr("gradate.evaluation.protocol.load_seven_sts", lambda locations: seven)


def test_the_seven_sets_are_the_default(gradate, plain_model, seven_sets):
    answer = gradate("evaluate", plain_model, "--precision", "fp32", "--aggregation", "wmean", "--json")
    assert answer.code == 0
    found = answer.json
    assert (found["benchmark"], found["aggregation"], found["precision"]) == ("seven-sts", "wmean", "fp32")
    assert tuple(found["tasks"]) == NAMES
    assert found["tasks"]["STS12"]["n"] == 4
    assert found["average"] == pytest.approx(found["tasks"]["STS12"]["spearman"])
    assert (found["texts"], found["unique_texts"]) == (56, 7)
    assert found["seconds"] > 0 and found["data_fingerprint"]
    assert "skipped" in answer.err


def test_for_people_the_average_stands_below_the_tasks(gradate, plain_model, seven_sets):
    answer = gradate("evaluate", plain_model)
    assert answer.out.splitlines()[-1].split()[0] == "average"
    assert answer.err.startswith("precision ")


def test_own_pairs_are_one_task_with_the_heads_metrics(gradate, graded_model, pairs_file):
    answer = gradate("evaluate", graded_model, "--pairs", pairs_file, "--json")
    assert answer.code == 0
    task = answer.json["tasks"]["pairs"]
    assert task["n"] == 5
    assert {"spearman", "pearson", "mae", "accuracy", "qwk"} <= {k for k, v in task.items() if v is not None}
    assert [sum(row) for row in task["confusion"]] == [1, 1, 1, 2]


def test_a_model_without_head_has_no_grades_to_measure(gradate, plain_model, pairs_file):
    answer = gradate("evaluate", plain_model, "--pairs", pairs_file, "--scale", SCALE)
    assert answer.code == 0
    assert "spearman" in answer.out and "mae" not in answer.out


def test_embeddings_can_be_cut_off(gradate, graded_model, pairs_file):
    whole = gradate("evaluate", graded_model, "--pairs", pairs_file, "--scale", SCALE, "--json").json
    cut = gradate("evaluate", graded_model, "--pairs", pairs_file, "--scale", SCALE, "--truncate-dim", "4", "--json")
    assert cut.code == 0
    assert cut.json["tasks"]["pairs"]["pearson"] != whole["tasks"]["pairs"]["pearson"]
    assert "mae" not in cut.json["tasks"]["pairs"], "the head reads whole embeddings"
    wide = gradate("evaluate", graded_model, "--pairs", pairs_file, "--scale", SCALE, "--truncate-dim", "5000")
    assert wide.code == 2 and "its embeddings have" in wide.err and "ask for 1 to" in wide.err


@pytest.mark.filterwarnings("ignore::UserWarning")  # the made-up set has other counts than the published one
def test_retrieval_sets_are_benchmarks_too(gradate, plain_model, tmp_path):
    for name in ("scifact", "cranfield"):
        write_beir(tmp_path / "beir" / name)
    place = ("--data", tmp_path / "beir")
    answer = gradate("evaluate", plain_model, "--benchmark", "retrieval", *place, "--json")
    assert answer.code == 0 and list(answer.json["tasks"]) == ["scifact", "cranfield"]
    assert {"ndcg@10", "recall@100", "mrr@10"} <= answer.json["tasks"]["scifact"].keys()
    assert "scifact: documents that repeat the text of another: 1" in answer.err
    one = gradate("evaluate", plain_model, "--benchmark", "scifact", "--data", f"scifact={tmp_path}/beir/scifact")
    assert one.code == 0 and "ndcg@10" in one.out and "average" not in one.out
    (tmp_path / "beir" / "scifact" / "queries.jsonl").unlink()
    broken = gradate("evaluate", plain_model, "--benchmark", "scifact", *place)
    assert broken.code == 2 and "queries.jsonl: no such file" in broken.err and broken.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--benchmark", "scifact"], "--data beir/scifact=FOLDER"),
        (["--benchmark", "seven-sts", "--pairs", "x.csv"], "choose one"),
        (["--benchmark", "eight-sts"], "seven-sts"),
        (["--pairs", "gone.csv", "--scale", SCALE], "gone.csv"),
        (["--data", "gone"], "gone"),
    ],
)
def test_wrong_use_is_refused(arguments, said, gradate, plain_model):
    answer = gradate("evaluate", plain_model, *arguments)
    assert answer.code == 2
    assert said in answer.err


def test_a_missing_model_is_named(gradate, tmp_path):
    answer = gradate("evaluate", tmp_path / "gone")
    assert answer.code == 2
    assert "gone" in answer.err
