"""Table `evaluate`: the whole seven-STS evaluation as a user starts it, from the first import to the last number."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import Results, System
from benchmarks.run import ROOT, Run

SENTEVAL, MTEB, FP32, OURS = "SentEval-style loop", "mteb", "gradate, fp32", "gradate"
ROUNDS = 5
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "GRADATE_CACHE": "off",
}
"""For every process: offline, quiet, and nothing kept from earlier runs."""
MISSING = (
    "{python} has no mteb; pip install mteb (beside gradate, or in an environment of its own that also holds gradate:"
    " --mteb PYTHON), or leave it out with --only"
)


def measure(run: Run) -> Results:
    """Start each contender's process in turn. The quick run evaluates once, without mteb and without fp32."""
    folder = run.inputs.locations.senteval
    if folder is None:
        raise SystemExit("this table needs the seven sets: --data FOLDER in SentEval's layout")
    data, encoder = str(folder), str(run.inputs.encoder)
    python, mteb_python = sys.executable, run.options.get("mteb") or sys.executable
    ours = [python, "-m", "gradate", "evaluate", encoder, "--benchmark", "seven-sts", "--data", data, "--json"]
    commands = {
        SENTEVAL: [python, "-m", "benchmarks.peers.senteval", encoder, data],
        MTEB: [mteb_python, "-m", "benchmarks.peers.mteb_sts", encoder, data],
        FP32: [*ours, "--precision", "fp32"],
        OURS: ours,
    }
    wanted = [name for name in commands if not run.only or name in run.only]
    if run.quick:
        wanted = [OURS]
    settings = {"fingerprint": run.inputs.benchmark.fingerprint(), "pairs": 18_850}
    with run.results(settings) as results:
        if MTEB in wanted:
            results.record(mteb=_mteb_version(mteb_python))
        systems = [System(name, build, {"command": commands[name]}) for name in wanted]
        # A contender is its own process already; the interpreter that starts it needs no isolation.
        here = Run(**{**run.__dict__, "isolate": False})
        here.interleave(results, "rounds", systems, 1 if run.quick else ROUNDS)
    return results


def build(command: Sequence[str]) -> Callable[[int], dict[str, Any]]:
    """Measures the wall time of a process that prints the seven values, or gradate's JSON."""

    def measure(number: int) -> dict[str, Any]:
        start = time.perf_counter()
        ended = subprocess.run(list(command), capture_output=True, text=True, env=_environment(), cwd=ROOT)
        seconds = time.perf_counter() - start
        if ended.returncode != 0:
            raise SystemExit(f"{' '.join(command[1:3])} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
        found = json.loads(ended.stdout[ended.stdout.index("{") :])
        tasks = {name: task["spearman"] for name, task in found["tasks"].items()} if "tasks" in found else found
        return {
            "seconds": seconds,
            "rate": 1 / seconds,
            "average": statistics.fmean(tasks.values()),
            "tasks": tasks,
        }

    return measure


def _environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _mteb_version(python: str) -> str:
    code = "import importlib.metadata as m; print(m.version('mteb'))"
    ended = subprocess.run([python, "-c", code], capture_output=True, text=True, env=_environment())
    if ended.returncode != 0:
        raise SystemExit(MISSING.format(python=python))
    return ended.stdout.strip()
