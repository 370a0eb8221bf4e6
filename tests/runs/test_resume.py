"""A killed run that goes on ends bitwise where an uninterrupted one ends."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradate.errors import InputError, Interrupted
from gradate.runs.results import Run
from gradate.runs.run import train
from gradate.training.callbacks.observer import SilentObserver

WEIGHTS = ("model.safetensors", "graded_head/model.safetensors")


def fingerprints(model: Path) -> dict[str, str]:
    return {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in WEIGHTS}


def times(run: Path) -> list[tuple[int, float]]:
    """Updates of the last stage that the log holds, and the seconds of training until then."""
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [(r["step"], r["seconds"]) for r in records if r["stage"] == 2 and "seconds" in r]


class SignalAt(SilentObserver):
    """Sends a signal to this process when an update is reached."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def stepped(self, step: int, record: dict[str, object]) -> None:
        if step == self.step and not record:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def whole(recipe_file: Path, pairs_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = train(str(recipe_file), pairs=pairs_csv, out=tmp_path_factory.mktemp("whole") / "run")
    assert isinstance(run, Run)
    return run


SCRIPT = """
import sys, time
from gradate.runs.run import train
from gradate.training.callbacks.observer import SilentObserver

class Slow(SilentObserver):
    def stepped(self, step, record):
        print(step, flush=True)
        time.sleep(0.05)

train(sys.argv[1], pairs=sys.argv[2], out=sys.argv[3], observer=Slow())
"""


def test_kill_9_and_resume_is_bitwise_equal(recipe_file: Path, pairs_csv: Path, tmp_path: Path, whole: Run) -> None:
    command = [sys.executable, "-c", SCRIPT, str(recipe_file), str(pairs_csv), str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    checkpoints = tmp_path / "run" / "checkpoints" / "stage-2"
    for line in process.stdout:
        # Between two checkpoints, in the second epoch: the hardest place to come back to.
        if checkpoints.exists() and line.strip() == "14":
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert sorted(path.name for path in checkpoints.glob("checkpoint-*"))
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "running"
    kept = max(int(path.name.rsplit("-", 1)[1]) for path in checkpoints.glob("checkpoint-*"))
    spent = max(seconds for step, seconds in times(tmp_path / "run") if step <= kept)
    run = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", resume=True)
    assert isinstance(run, Run)
    assert fingerprints(run.model) == fingerprints(whole.model)
    assert run.best == whole.best
    log, expected = (
        [json.loads(line) for line in (r.folder / "log.jsonl").read_text().splitlines()] for r in (run, whole)
    )
    assert [(r["stage"], r["step"]) for r in log] == [(r["stage"], r["step"]) for r in expected]
    after = [seconds for step, seconds in times(run.folder) if step > kept]
    assert spent < after[0] and after == sorted(after)
    assert run.stages[-1].seconds > spent, "time before the kill counts"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_to_resume(
    number: int, recipe_file: Path, pairs_csv: Path, tmp_path: Path, whole: Run
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted, match=f"{signal.Signals(number).name} at update 7 of 30"):
        train(str(recipe_file), pairs=pairs_csv, out=out, observer=SignalAt(7, number))
    status = json.loads((out / "status.json").read_text())
    assert status["status"] == "interrupted" and "--resume" in status["detail"]
    assert (out / "checkpoints" / "stage-2" / "checkpoint-7" / "trained.safetensors").is_file()
    assert not (out / "model").exists()
    run = train(str(recipe_file), pairs=pairs_csv, out=out, resume=True)
    assert isinstance(run, Run)
    assert fingerprints(run.model) == fingerprints(whole.model)
    assert json.loads((out / "status.json").read_text())["status"] == "finished"


def test_resuming_a_finished_run_returns_it(recipe_file: Path, pairs_csv: Path, whole: Run) -> None:
    before = (whole.folder / "metrics.json").stat().st_mtime_ns
    start = time.perf_counter()
    run = train(str(recipe_file), pairs=pairs_csv, out=whole.folder, resume=True)
    assert isinstance(run, Run)
    assert run.to_json() == whole.to_json()
    assert (whole.folder / "metrics.json").stat().st_mtime_ns == before
    assert time.perf_counter() - start < 60


def test_resume_refuses_other_settings_and_other_data(
    recipe_file: Path, pairs_csv: Path, tmp_path: Path, whole: Run
) -> None:
    with pytest.raises(InputError, match="other settings"):
        train(str(recipe_file), pairs=pairs_csv, out=whole.folder, resume=True, overrides=["stages.2.epochs=2"])
    changed = tmp_path / "letters.csv"
    changed.write_text(pairs_csv.read_text().replace(",3\n", ",2\n"))
    with pytest.raises(InputError, match="other data"):
        train(str(recipe_file), pairs=changed, out=whole.folder, resume=True)
