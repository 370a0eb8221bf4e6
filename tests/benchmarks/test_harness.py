from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import harness, machine
from benchmarks.harness import Results, System, Worker, interleave, missing_rounds
from tests.benchmarks.fake import build

SYSTEMS = [System("a", build, {"seconds": 2.0}), System("b", build, {"seconds": 1.0})]


@pytest.fixture
def results(tmp_path, monkeypatch):
    peaks = iter([{"bf16": 5.0, "fp32": 1.0}, {"bf16": 4.0, "fp32": 2.0}] * 9)
    monkeypatch.setattr(machine, "peak", lambda: next(peaks))

    def make(settings=None, **further):
        return Results(tmp_path / "t.json", "t", settings or {"n": 1}, "python -m benchmarks t", **further)

    return make


def test_contenders_take_turns_and_every_measurement_is_kept_at_once(results):
    seen = []
    with results() as found:

        def keep(name, values):
            seen.append(name)
            # All earlier measurements are in the file already.
            assert len(json.loads(found.path.read_text())["measurements"]) == len(seen) - 1
            return values | {"kept": True}

        interleave(found, "part", SYSTEMS, 3, isolate=False, keep=keep)
    assert seen == ["a", "b"] * 3
    assert all(m["kept"] and m["part"] == "part" for m in found.measurements("part"))


def test_a_run_that_was_stopped_goes_on_with_whole_rounds(results):
    def stop(name, values):
        if len(found.measurements("part")) == 3:
            raise KeyboardInterrupt
        return values

    with pytest.raises(KeyboardInterrupt), results() as found:
        interleave(found, "part", SYSTEMS, 3, isolate=False, keep=stop)
    with results() as found:
        interleave(found, "part", SYSTEMS, 3, isolate=False)
    places = [(m["round"], m["system"], m["session"]) for m in found.measurements("part")]
    # Round 1 was half done: both of its halves are the second session's.
    assert sorted(places) == [(0, "a", 0), (0, "b", 0), (1, "a", 1), (1, "b", 1), (2, "a", 1), (2, "b", 1)]
    assert len(found.found["sessions"]) == 2


def test_the_peak_of_a_session_is_the_best_of_its_start_and_end(results):
    with results() as found:
        pass
    assert found.found["sessions"][0]["peak"] == {"bf16": 5.0, "fp32": 2.0}
    assert found.found["sessions"][0]["packages"]["torch"]


def test_other_settings_are_refused_unless_one_begins_anew(results):
    with results() as found:
        interleave(found, "part", SYSTEMS, 1, isolate=False)
    with pytest.raises(SystemExit, match="other settings"):
        results({"n": 2})
    assert results({"n": 2}, fresh=True).measurements("part") == []


def test_only_the_named_contenders_are_measured(results):
    with results() as found:
        interleave(found, "part", SYSTEMS, 2, isolate=False, only=["b"])
    assert {m["system"] for m in found.measurements("part")} == {"b"}
    assert missing_rounds(found.measurements("part"), ["b"], 3) == [2]
    assert missing_rounds(found.measurements("part"), ["a", "b"], 2) == [0, 1]


def test_a_contender_lives_in_one_process_of_its_own(monkeypatch):
    monkeypatch.setattr(harness, "PRELOADED", ("json",))
    with Worker(SYSTEMS[0], isolate=True) as worker:
        first, second = worker.measure(0), worker.measure(1)
    assert first["process"] == second["process"] != os.getpid()


STOPPED = """
import sys, time
from benchmarks import harness
from tests.benchmarks.fake import build
harness.PRELOADED = ("json",)
with harness.Worker(harness.System("a", build, {"seconds": 1.0}), isolate=True) as worker:
    print(worker.measure(0)["process"], flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process in /proc")
def test_no_contender_outlives_a_killed_run():
    run = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    contender = int(run.stdout.readline())
    os.kill(contender, 0)
    run.kill()
    run.wait()
    for _ in range(300):
        if not is_running(contender):
            return
        time.sleep(0.1)
    pytest.fail("the contender is still there")


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_peak_is_a_rate_of_products():
    found = machine.peak(sizes=(64,), repeats=2)
    assert found.keys() == {"bf16", "fp32"}
    assert all(1e6 < value < 1e16 for value in found.values())
    assert machine.better_peak(None, found) == found
