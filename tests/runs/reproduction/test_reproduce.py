"""A table from nothing to its page on a tiny encoder: run, kept, resumed, judged, refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradate.errors import InputError, TrainingStopped
from gradate.runs.reproduction import measure, spec
from gradate.runs.reproduction import reproduce as module
from gradate.runs.reproduction.page import read_tables, table_page, write_table_page
from gradate.runs.reproduction.reproduce import Reproduction, reproduce
from gradate.runs.reproduction.source import Source
from gradate.runs.reproduction.spec import TASKS, Claim, Group, Part, Row, TableSpec
from tests.beir import write_beir
from tests.senteval_layout import write_layout

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = write_layout(tmp_path_factory.mktemp("senteval"), spelled=True)
    rows = [
        f"{split}\tp {a} q\t{b} r\t{label}"
        for split in ("train", "dev")
        for label in ("entailment", "neutral", "contradiction")
        for a, b in ("ab", "cd", "ef", "gh")
    ]
    (folder / "nli.tsv").write_text("split\tpremise\thypothesis\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    scifact = write_beir(folder / "beir" / "scifact")
    return [str(folder), f"nli={folder / 'nli.tsv'}", f"beir/scifact={scifact}"]


def make_table(encoder_folder: Path) -> TableSpec:
    settings = (
        f"encoder={encoder_folder}",
        "precision=fp32",
        "stages.1.batch_size=4",
        "stages.1.epochs=1",
        "stages.1.learning_rate=1e-3",
        "stages.1.evaluate_every=2",
        "stages.1.selection=null",
    )
    group = Group("tiny", "a tiny encoder", "paper/bert-base", settings)
    rows = (
        Row("bag of words", "tiny", baseline="bag-of-words"),
        Row("MSE", "tiny", set=("stages.1.objective={name: mse}",), paper=(74.78,)),
        Row("Cross entropy", "tiny", set=("stages.1.objective={name: cross-entropy}",)),
        Row("cited", "tiny", cited=True, paper=(1, 2, 3, 4, 5, 6, 7, 4)),
    )
    claims = (
        Claim("one beats the other", "here", of="MSE", than="Cross entropy"),
        Claim("accuracy is kept", "here", "no-worse", of="MSE", than="Cross entropy", metric="accuracy", margin=1.0),
        Claim("both are alike", "here", "flat", of="MSE", others=("Cross entropy",), margin=100.0),
        Claim("trained tasks gain", "here", of="MSE", than="bag of words", metric="trained"),
        Claim("the others gain too", "here", of="MSE", than="Cross entropy", metric="rest"),
        Claim("finds more", "here", of="MSE", than="Cross entropy", metric="scifact"),
        Claim("finds more than words", "here", of="MSE", than="bag of words", metric="scifact"),
    )
    part = Part((group,), rows, grades=True, retrieval=("scifact",))
    return TableSpec("A table", "nowhere", part, part, claims, columns="rest", name="table-t")


def put_in_place(made: TableSpec, folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "load_table", lambda name: made)
    patch.setattr("gradate.runs.reproduction.page.load_table", lambda name: made)
    patch.chdir(folder)


@pytest.fixture
def table(encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableSpec:
    made = make_table(encoder_folder)
    put_in_place(made, tmp_path, monkeypatch)
    return made


@pytest.fixture(scope="module")
def finished(encoder_folder: Path, data: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which both seeds of the table were run, from nothing."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        put_in_place(make_table(encoder_folder), folder, patch)
        found = run(data)
        (folder / "found.json").write_text(json.dumps(found.to_json(), allow_nan=False))
    return folder


@pytest.fixture
def stands(finished: Path, table: TableSpec, tmp_path: Path) -> Path:
    """A copy of the finished results."""
    shutil.copytree(finished / "results", tmp_path / "results")
    return tmp_path / "results"


def run(data: list[str], **settings: Any) -> Reproduction:
    return reproduce("table-t", **{"seeds": (1, 2), "data": data, "resamples": 20, **settings})


def test_from_nothing(finished: Path) -> None:
    found = json.loads((finished / "found.json").read_text())
    assert not found["missing"]
    assert [row["name"] for row in found["rows"]] == ["bag of words", "MSE", "Cross entropy", "cited"]
    first = found["rows"][1]
    assert first["cells"]["average"]["n"] == 2 and first["paper"] == {"average": 74.78} and first["seeds"] == [1, 2]
    assert (
        first["cells"].keys() == {*TASKS, "average", "rest", "scifact"}
        and 0 <= first["cells"]["scifact"]["mean"] <= 100
    )
    assert [v["verdict"] in ("holds", "fails", "undecided") for v in found["verdicts"]] == [True] * 7
    assert found["verdicts"][2]["verdict"] == "holds"
    mse, entropy = (found["rows"][i]["cells"] for i in (1, 2))
    assert mse["rest"]["mean"] == pytest.approx(np.mean([mse[task]["mean"] for task in TASKS[:5]]))
    gain = mse["rest"]["mean"] - entropy["rest"]["mean"]
    assert found["verdicts"][4]["difference"]["difference"] == pytest.approx(gain, abs=0.05)
    assert found["verdicts"][5]["difference"]["seeds"]["n"] == 2
    assert found["verdicts"][6]["reason"] == "scifact was not measured"
    (machine,) = found["machines"]
    assert "torch" in machine and "cores" in machine
    assert not list((finished / "runs").rglob("model.safetensors")), "models are deleted, evidence is kept"
    assert list((finished / "runs").rglob("log.jsonl"))
    committed = [p for p in (finished / "results").rglob("*") if p.is_file()]
    assert not [p for p in committed if b"STS12 MSRpar" in p.read_bytes() or b"gold" in p.read_bytes()]


def test_again_at_once_to_a_page(
    finished: Path, stands: Path, data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "measure_recipe", lambda *a, **k: pytest.fail("nothing is left to run"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "judge_claims", lambda *a, **k: pytest.fail("nothing has changed"))
        again = run(data)
    assert json.loads(json.dumps(again.to_json())) == json.loads((finished / "found.json").read_text())
    page = write_table_page(tmp_path / "results", tmp_path / "docs", "table-t")
    text = page.read_text(encoding="utf-8")
    assert text == table_page("table-t", read_tables(tmp_path / "results", "table-t"))
    assert "scifact nDCG@10" in text and "--data beir" in text and "| without STS-B and SICK-R |" in text
    assert "**holds**" in text and "| MSE |" in text and "*4.00*" in text and str(tmp_path) not in text
    plot = tmp_path / "docs" / "tables" / "table-t-small.svg"
    drawn = plot.read_bytes()
    write_table_page(tmp_path / "results", tmp_path / "docs", "table-t")
    assert plot.read_bytes() == drawn, "a page that is written again leaves the tree clean"

    without = run([])
    assert without.to_json()["rows"] == again.to_json()["rows"] and without.verdicts == tuple(again.verdicts)
    more = run([], seeds=(1, 2, 3))
    assert [(entry["row"], entry["seed"]) for entry in more.missing] == [("tiny: MSE", 3), ("tiny: Cross entropy", 3)]
    assert "--data" in more.missing[0]["reason"]


def test_negatives_that_were_looked_at_are_drawn(table: TableSpec, finished: Path, tmp_path: Path) -> None:
    found = json.loads((finished / "found.json").read_text())
    looks = [[{"step": 0, "mean_cosine": 0.5, "replaced": 1, "queries": 8}]]
    found["rows"][-1]["negatives"] = looks
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "table-t.small.json").write_text(json.dumps(found), encoding="utf-8")
    page = write_table_page(tmp_path, tmp_path / "docs", "table-t")
    assert "(tables/table-t-small-negatives.svg)" in page.read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "tables" / "table-t-small-negatives.svg").is_file()


def test_without_data_nothing_trains(table: TableSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure_recipe", lambda *a, **k: pytest.fail("training was started"))
    found = run([])
    assert len(found.missing) == 5 and not found.verdicts and not Path("results").exists()


def test_a_dry_run_judges_what_stands_and_trains_nothing(
    stands: Path, data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "measure_recipe", lambda *a, **k: pytest.fail("training was started"))
    found = run(data, seeds=(1, 3), dry_run=True)
    assert [(entry["row"], entry["seed"]) for entry in found.missing] == [("tiny: MSE", 3), ("tiny: Cross entropy", 3)]
    assert "dry" in found.missing[0]["reason"] and len(found.verdicts) == 7 and not found.failed
    kept = json.loads((tmp_path / "results" / "tables" / "table-t.small.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(found.to_json()))


def test_a_seed_that_fails_is_named_and_the_others_go_on(
    stands: Path, data: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(recipe: Any, seed: int, *arguments: Any, **settings: Any) -> Any:
        raise TrainingStopped(f"the loss became nan at step {seed}")

    monkeypatch.setattr(measure, "measure_recipe", failing)
    found = run(data, seeds=(3, 2))
    assert found.failed and [entry["reason"] for entry in found.missing] == ["the loss became nan at step 3"] * 2
    assert found.to_json()["rows"][1]["seeds"] == [2]
    assert found.verdicts[0]["verdict"] == "undecided"


def test_results_of_other_data_or_version_are_refused(stands: Path, data: list[str]) -> None:
    file = next(Path("results/cells").glob("tiny-mse-*.json"))
    whole = file.read_text(encoding="utf-8")
    stored = json.loads(whole)
    file.write_text(json.dumps(stored | {"data": {**stored["data"], "benchmark": "0" * 16}}), encoding="utf-8")
    with pytest.raises(InputError, match="was measured on other data"):
        run(data, seeds=(1,))
    file.write_text(whole, encoding="utf-8")
    tables = Path("results/tables/table-t.small.json")
    tables.write_text(json.dumps(json.loads(tables.read_text()) | {"version": 0}), encoding="utf-8")
    with pytest.raises(InputError, match="is of version 0"):
        run([], seeds=(1,))


def test_other_scores_are_judged_anew(stands: Path, data: list[str]) -> None:
    before = run(data)
    fewer = run(data, seeds=(1,))
    assert fewer.basis != before.basis and fewer.verdicts != before.verdicts
    assert run(data).to_json() == before.to_json()


def test_bad_seeds(table: TableSpec) -> None:
    with pytest.raises(InputError, match="seeds must differ"):
        run([], seeds=(1, 1))


def test_what_a_row_lacks(monkeypatch: pytest.MonkeyPatch, data: list[str]) -> None:
    part = spec.load_table("table-3").small
    unsupervised = spec.row_recipe(part, next(row for row in part.rows if row.name == "SimCSE, unsupervised"))
    graded, ranked = replace(part, grades=True), replace(part, retrieval=("scifact",))
    assert "sentences=FILE" in str(Source(tuple(data[:2])).lacks(unsupervised, part))
    assert "nli=FILE" in str(Source((data[0],)).lacks(None, graded))
    assert "beir/scifact=FOLDER" in str(Source(tuple(data[:2])).lacks(None, ranked))
    assert Source((), hub=True).lacks(unsupervised, graded) is None


def test_bag_of_words_is_measured_without_a_model(data: list[str]) -> None:
    found = measure.measure_baseline("bag-of-words", 0, Source(tuple(data)), spec.load_table("codiemb").small)
    assert all(np.all((scores >= 0) & (scores <= 1 + 1e-9)) for scores in found.scores.values())
    assert found.minutes is None and found.grades is None and found.retrieval is None
