"""Runs and models compared: seeds pooled, a run's own pairs, what does not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradate.errors import InputError
from gradate.report.contest_plot import contest_plot
from gradate.runs.run import train
from gradate.runs.systems import compare_systems
from tests.beir import write_beir
from tests.graded import graded_pairs, write_csv


@pytest.fixture(scope="module")
def runs(recipe_file: Path, pairs_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(str(recipe_file), pairs=pairs_csv, out=folder / "one")
    train(str(recipe_file), pairs=pairs_csv, out=folder / "several", seeds=[1, 2], overrides=["stages.2.epochs=1"])
    return folder


def test_two_runs_several_seeds_pooled(runs: Path) -> None:
    found = compare_systems([str(runs / "several"), str(runs / "one")], resamples=30)
    shown = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert shown["average"].keys() >= {"difference", "low", "high", "p", "clusters"}
    (task,) = shown["tasks"].values()
    assert task["difference"] == pytest.approx(shown["average"]["difference"])
    assert found.seeds == {str(runs / "several"): 2, str(runs / "one"): 0}
    values = [found.values[str(runs / name)]["average"] for name in ("one", "several")]
    assert shown["average"]["difference"] == pytest.approx(values[0] - values[1])  # type: ignore[operator]
    assert contest_plot(shown).axes


def test_a_model_beside_a_run_is_measured_on_the_runs_pairs(runs: Path, encoder_folder: Path) -> None:
    names = [str(encoder_folder), str(runs / "one"), str(runs / "several")]
    found = compare_systems(names, resamples=20, precision="fp32")
    stored = json.loads((runs / "one" / "metrics.json").read_text())
    assert found.values[names[0]]["average"] == pytest.approx(stored["before"]["spearman_cosine"], abs=0.05)
    assert found.values[names[1]]["average"] == pytest.approx(stored["after"]["spearman_cosine"])
    assert [c["model"] for c in found.to_json()["comparisons"]] == names[1:]
    assert contest_plot(found.to_json()).axes


def test_all_on_a_file_of_pairs(runs: Path, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "other.csv", graded_pairs(40, seed=9))
    found = compare_systems([str(runs / "one"), str(runs / "several")], pairs=file, resamples=20, precision="fp32")
    assert list(found.to_json()["tasks"]) == ["other"] and found.seeds[str(runs / "several")] == 2


def test_the_same_model_under_two_names_differs_by_nothing(runs: Path, encoder_folder: Path) -> None:
    twin = encoder_folder / ".." / encoder_folder.name
    found = compare_systems([str(encoder_folder), str(twin)], pairs=graded_pairs(30), resamples=20).to_json()
    assert (found["average"]["difference"], found["average"]["p"]) == (0, 1)


def test_runs_and_models_on_retrieval_sets(
    recipe_file: Path, pairs_csv: Path, encoder_folder: Path, tmp_path: Path
) -> None:
    data = [f"beir/{name}={write_beir(tmp_path / name)}" for name in ("mine", "yours")]
    overrides = ["evaluation.retrieval=[mine]", "stages.2.epochs=1"]
    run = tmp_path / "run"
    train(str(recipe_file), pairs=pairs_csv, data=data, out=run, overrides=overrides)
    names = [str(encoder_folder), str(run)]
    found = compare_systems(names, benchmark="mine", data=data, resamples=30, precision="fp32")
    stored = json.loads((run / "metrics.json").read_text())["retrieval"]
    for name, when in zip(names, ("before", "after"), strict=True):
        assert found.values[name]["mine"] == pytest.approx(stored[when]["mine"]["ndcg@10"])
    shown = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert shown["metric"] == "ndcg@10" and "williams" not in shown["tasks"]["mine"]
    assert shown["tasks"]["mine"]["difference"] == pytest.approx(stored["difference"]["mine"]["value"])
    assert contest_plot(shown).axes
    now = compare_systems(names, benchmark="yours", data=data, resamples=30, precision="fp32")
    for name in names:  # the same files under another name, which the run was not measured on
        assert now.values[name]["yours"] == pytest.approx(found.values[name]["mine"])
    twin = shutil.copytree(run, tmp_path / "twin")
    alike = compare_systems([str(run), str(twin)], benchmark="beir/mine", resamples=20)  # as written down: no data
    assert alike.to_json()["average"]["difference"] == 0
    with pytest.raises(InputError, match="unknown benchmark"):
        compare_systems(names, benchmark="beer", data=data)
    file = run / "predictions" / "retrieval" / "mine.parquet"
    table = pq.read_table(file)
    queries = pa.array([f"other-{name}" for name in table["query"].to_pylist()])
    pq.write_table(table.set_column(0, "query", queries), file)
    with pytest.raises(InputError, match="other queries of mine"):
        compare_systems(names, benchmark="mine", data=data, precision="fp32")


def test_what_cannot_be_compared(runs: Path, tmp_path: Path, recipe_file: Path, pairs_csv: Path) -> None:
    one = str(runs / "one")
    with pytest.raises(InputError, match="at least two"):
        compare_systems([one])
    with pytest.raises(InputError, match="stands twice"):
        compare_systems([one, one])
    other = write_csv(tmp_path / "other.csv", graded_pairs(60, seed=4))
    train(str(recipe_file), pairs=other, out=tmp_path / "else")
    with pytest.raises(InputError, match="was not measured on"):
        compare_systems([one, str(tmp_path / "else")])
    for file in (tmp_path / "else" / "predictions").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="no finished run that was measured"):
        compare_systems([one, str(tmp_path / "else")])
