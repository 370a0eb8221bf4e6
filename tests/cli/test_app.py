from __future__ import annotations

import json
import subprocess
import sys
import warnings

import pytest
import typer

from gradate import __version__
from gradate.cli import app as application
from gradate.errors import GradateError, InputError, Interrupted

VERBS = (
    "demo",
    "mine",
    "check",
    "corpus",
    "train",
    "evaluate",
    "fuse",
    "ceiling",
    "score",
    "encode",
    "export",
    "recipes",
    "env",
)
PAGES = [[], *([verb] for verb in VERBS), ["corpus", "sts"], *(["recipes", word] for word in ("list", "show", "copy"))]


@pytest.fixture
def failing(monkeypatch):
    """Make `gradate env` raise what a test asks for."""

    def raise_from_environment(error: BaseException) -> None:
        def fail() -> None:
            raise error

        monkeypatch.setattr("gradate.runs.environment.environment", fail)

    return raise_from_environment


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_every_help_page_is_shown_without_loading_anything_heavy(page):
    code = (
        "import sys\n"
        "from gradate.cli.app import run\n"
        f"assert run({[*page, '--help']!r}) == 0\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'datasets', 'matplotlib', 'scipy', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "Usage: gradate" in shown.stdout
    assert shown.stderr == ""


def test_python_m_gradate_is_the_command():
    shown = subprocess.run([sys.executable, "-m", "gradate", "--version"], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"gradate {__version__}\n", "")


def test_main_leaves_the_process_with_the_code():
    with pytest.raises(SystemExit) as left:
        application.main(["nonsense"])
    assert left.value.code == 2


def test_no_verb_shows_the_help_and_fails(capsys):
    assert application.run([]) == 2
    assert "Usage: gradate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "No such command 'trian'"),
        (["corpus"], "Missing command"),
        (["train"], "Missing argument 'RECIPE'"),
        (["train", "two-stage"], "Missing option '--out'"),
        (["train", "two-stage", "--out", "x", "--sed", "1"], "No such option: --sed"),
        (["evaluate", "bundled", "--precision", "fp8"], "--precision"),
        (["evaluate", "bundled", "--batch-size", "0"], "--batch-size"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_2(arguments, said, capsys):
    assert application.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert said in err
    assert "--help" in err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("grade 7 is off the scale", where="a.csv:3", remedy="fix it"), 2, "a.csv:3: grade 7 is off"),
        (GradateError("two\nlines"), 1, "error: two lines"),
        (Interrupted("stopped at step 7"), 130, "stopped at step 7"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("odd"), 1, "ValueError: odd (gradate --traceback"),
        (OSError(28, "No space left on device", "model.safetensors"), 1, "model.safetensors: OSError: No space left"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_and_its_exit_code(error, code, said, failing, capsys):
    failing(error)
    assert application.run(["env", "--json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_traceback_of_an_unexpected_error_can_be_seen(way, failing, monkeypatch, capsys):
    monkeypatch.setenv("GRADATE_TRACEBACK", "0" if way == "option" else "1")
    failing(ValueError("odd"))
    assert application.run(["--traceback", "env"] if way == "option" else ["env"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_exit_code_raised_by_a_verb_is_kept(monkeypatch):
    def leave() -> None:
        raise typer.Exit(3)

    monkeypatch.setattr("gradate.runs.environment.environment", leave)
    assert application.run(["env"]) == 3


def test_json_stands_alone_on_stdout_whatever_else_prints():
    code = (
        "import os, subprocess, sys\n"
        "import gradate.runs.environment as place\n"
        "from gradate.cli import main\n"
        "def noisy():\n"
        "    print('from python')\n"
        "    os.write(1, b'from a library\\n')\n"
        "    subprocess.run([sys.executable, '-c', \"print('from a child')\"], check=True)\n"
        "    return {'device': 'cpu', 'packages': {}}\n"
        "place.environment = noisy\n"
        "main(['env', '--json'])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout).items() >= {"device": "cpu", "packages": {}}.items()
    for origin in ("python", "a library", "a child"):
        assert f"from {origin}" in shown.stderr


def test_our_own_warnings_are_one_line_and_those_of_libraries_stay_out_of_logs(monkeypatch, capsys):
    def warn() -> dict[str, object]:
        warnings.warn_explicit("counts\ndiffer", UserWarning, "corpus.py", 1, module="gradate.data.corpus")
        warnings.warn_explicit("something old", DeprecationWarning, "hub.py", 1, module="transformers.hub")
        return {"packages": {}}

    monkeypatch.setattr("gradate.runs.environment.environment", warn)
    assert application.run(["env"]) == 0
    assert capsys.readouterr().err == "warning: counts differ\n"
