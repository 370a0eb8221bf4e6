"""The tables measured from end to end on a tiny encoder, and what each decides on the way."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__ as command_line
from benchmarks import encode, machine, memory, profile, scaling, stage1, train
from benchmarks.report import section
from benchmarks.run import Inputs, Run, sample
from gradate.data.benchmarks import Benchmark, Subset, Task
from gradate.data.locations import DataLocations
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    tiny_encoder(folder)
    pairs = graded_pairs(160)
    made = Inputs(DataLocations(), str(folder))
    made.corpus = made.nli = pairs
    subset = Subset("test", tuple(pairs.text1), tuple(pairs.text2), pairs.grades, 0)
    made.benchmark = Benchmark("one", {"STS12": Task("STS12", (subset,))})
    return made


@pytest.fixture
def run(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "peak", lambda sizes=(): {"bf16": 8e11, "fp32": 2e11})

    def make(table, **further):
        return Run(table, inputs, quick=True, isolate=False, folder=tmp_path, **further)

    return make


@pytest.mark.parametrize(
    ("table", "contenders"), [(train, 4), (encode, 3), (stage1, 3), (memory, 2), (scaling, 1), (profile, 2)]
)
def test_a_quick_trial_measures_every_contender(table, contenders, run, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADATE_CACHE", "off")
    name = table.__name__.rpartition(".")[2]
    results = table.measure(run(name))
    found = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert found == results.found and found["quick"]
    assert len({m["system"] for m in found["measurements"]}) == contenders
    assert not [v for m in found["measurements"] for v in m.values() if str(tmp_path.parent) in str(v)]
    assert section(found).markdown.count("\n| ") > contenders
    if table is stage1:
        cold, warm = (m["loss"] for m in found["measurements"] if "loss" in m)
        assert cold == pytest.approx(warm, rel=1e-3)


def test_a_cell_is_measured_as_often_as_its_budget_allows():
    done = [{"length": 10, "pairs": 100, "seconds": 5.0}, {"length": 10, "pairs": 1000, "seconds": 40.0}]
    assert scaling.affordable(done, 10, 10_000, 400.0, 0)
    assert not scaling.affordable(done, 10, 10_000, 400.0, 1)
    assert scaling.affordable(done, 50, 10_000, 1.0, 0)


def test_a_step_that_would_not_fit_is_predicted_and_not_run(run, monkeypatch):
    def step(batch):
        place = {"tokens": 3 * batch * 32, "contender": memory.SIMCSE, "length": 32, "batch": batch}
        return {**place, "peak_bytes": 1e8 + 3e6 * batch, "predicted": False}

    assert memory.predict([step(2)], 1000) is None
    assert memory.predict([step(2), step(4)], 3 * 32 * 512) == pytest.approx(1e8 + 3e6 * 512)
    monkeypatch.setattr(machine, "available_memory", lambda: 10**9)
    with run("memory").results({}) as results:
        for batch in (2, 4):
            results.append("steps", f"{memory.SIMCSE}, 32 tokens", batch, step(batch))
        memory._measure_one(run("memory"), results, memory.CONTENDERS[0], 32, 512)
    last = results.measurements("steps")[-1]
    assert last["predicted"] and last["peak_bytes"] == pytest.approx(1e8 + 3e6 * 512)


def test_what_the_pages_say_as_command_names_no_folder_of_this_machine(inputs):
    locations = DataLocations(senteval=inputs.encoder, named={"nli": inputs.encoder})
    made = Inputs(locations, str(inputs.encoder))
    run = Run("stage1", made, rounds=4, options={"epoch": True, "mteb": "/a/python", "seeds": 3})
    assert command_line.shown_command(run) == (
        "python -m benchmarks stage1 --data raw --data nli=nli.tsv.gz --rounds 4 --epoch --mteb PYTHON"
    )


def test_every_table_is_a_verb_and_its_options_are_read():
    given = command_line.parser().parse_args(
        ["train", "--data", "raw", "--quick", "--only", "gradate", "--seeds", "1"]
    )
    assert (given.quick, given.only, given.seeds) == (True, ["gradate"], 1)
    with pytest.raises(SystemExit):
        command_line.parser().parse_args(["nothing"])


def test_a_sample_is_the_same_every_time_and_in_order():
    pairs = graded_pairs(30)
    drawn = sample(pairs, 10)
    assert list(drawn.text1) == list(sample(pairs, 10).text1)
    assert [pairs.text1.index(text) for text in drawn.text1] == sorted(pairs.text1.index(t) for t in drawn.text1)
    assert sample(pairs, 100) is pairs
