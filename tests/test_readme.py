"""What the README says is true: its commands run, its example runs, its tree is the tree."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pytest

from gradate.cli import app
from gradate.runs.run import train
from tests.tiny import tiny_encoder

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.M | re.S)
COMMANDS = [line.split("  #")[0] for kind, block in BLOCKS if not kind for line in block.splitlines()]
GRADES = ("irrelevant", "slightly", "moderately", "highly")
WORDS = "pay bill card refund parcel late login mail reset order track cancel plan upgrade size swap".split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the files the README speaks of; a run there trains a tiny encoder, briefly."""
    _write_pairs(tmp_path / "pairs.csv", 60, seed=1)
    _write_pairs(tmp_path / "test.csv", 20, seed=2)
    tiny_encoder(tmp_path / "encoder")
    brief = ("encoder=encoder", "stages.1.l2=1", "stages.2.epochs=1", "evaluation.intervals=20")

    def train_briefly(recipe, *, overrides=(), **settings):
        return train(recipe, overrides=[*overrides, *brief], **settings)

    monkeypatch.setattr("gradate.runs.run.train", train_briefly)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_for_own_pairs_run_as_printed(folder, capsys):
    commands = [shlex.split(line)[1:] for line in COMMANDS if line.startswith("gradate ")]
    assert [words[0] for words in commands] == ["check", "train", "evaluate", "score"]

    for words in commands:
        assert app.run(words) == 0, capsys.readouterr().err
    assert (folder / "runs/mine/report.html").exists()
    assert "prediction" in capsys.readouterr().out


def test_the_library_example_runs_as_printed(folder, capsys):
    (example,) = (block for kind, block in BLOCKS if kind == "python")
    assert len([line for line in example.splitlines() if line]) == 6
    exec(compile(example, "README.md", "exec"), {})
    grades, measured = capsys.readouterr().out.splitlines()
    assert grades in {f"['{grade}']" for grade in GRADES}
    assert "'spearman'" in measured


def test_the_make_targets_exist():
    targets = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}: ", makefile, flags=re.M) for target in targets)


def test_the_table_of_verbs_is_complete():
    listed = re.findall(r"^\| `gradate (\w+)", README, flags=re.M)
    commands = [command.name for command in app.app.registered_commands]
    groups = [group.name for group in app.app.registered_groups]
    assert sorted(listed) == sorted([*commands, *groups])


def test_the_tree_names_every_module():
    (tree,) = (block for _, block in BLOCKS if block.startswith("src/gradate/"))
    listed, folders = set(), []
    for line in tree.split("\ntests/")[0].splitlines():
        name = line.split()[0]
        folders = folders[: (len(line) - len(line.lstrip())) // 2]
        listed.add("".join([*folders, name]))
        folders.append(name)
    whole = tuple(entry for entry in listed if entry.endswith("/") and entry.count("/") > 3)
    source = ROOT / "src/gradate"
    files = {str(path.relative_to(ROOT)) for path in source.rglob("*") if path.suffix in (".py", ".css")}
    modules = {file for file in files if not file.endswith("__init__.py") and not file.startswith(whole)}
    assert modules | {"src/gradate/__init__.py"} == {entry for entry in listed if not entry.endswith("/")}
    assert all((ROOT / entry).is_dir() for entry in listed if entry.endswith("/"))


def _write_pairs(file, count, seed):
    chance = random.Random(seed)
    lines = ["text1,text2,grade"]
    for number in range(count):
        words = chance.sample(WORDS, 8)
        shared = number % len(GRADES)
        first, second = words[:4], [*words[:shared], *words[4 : 8 - shared]]
        lines.append(f"{' '.join(first)} {seed}{number},{' '.join(second)} {seed}{number},{GRADES[shared]}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
