"""`gradate fuse` through its entry point."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gradate.models.graded import GradedModel
from tests.graded import graded_pairs, write_csv
from tests.tiny import tiny_encoder

PAGE = Path(__file__).parents[2] / "docs" / "fusion.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a run of three seeds, another run and pairs to select on."""
    for seed, name in enumerate((*(f"runs/mine/seed-{i}" for i in (1, 2, 3)), "runs/other"), start=1):
        tiny_encoder(tmp_path / name / "model", seed=seed)
        (tmp_path / name / "status.json").write_text("{}", encoding="utf-8")
    tiny_encoder(tmp_path / "base", seed=0)
    write_csv(tmp_path / "dev.csv", graded_pairs(30))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_fused_model_and_its_weights(gradate, folder):
    answer = gradate("fuse", "base", "runs/mine/seed-1", "runs/other", "--level", "layer", "--out", "out", "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["model"], answer.json["rule"], answer.json["level"]) == ("out", "proportional", "layer")
    assert answer.json["weights"].keys() == {"runs/mine/seed-1", "runs/other"}
    assert sum(answer.json["weights"].values()) == pytest.approx(1)
    assert answer.json["selection"] is None
    assert gradate("evaluate", "out", "--pairs", "dev.csv").code == 0


def test_with_a_selection_set_the_table_shows_the_soups_too(gradate, folder):
    runs = ("runs/mine/seed-1", "runs/mine/seed-2")
    answer = gradate("fuse", "base", *runs, "--select", "dev.csv", "--pull-back", 0.2, "--out", "out")
    assert answer.code == 0, answer.err
    for shown in (
        "Spearman on dev",
        "base",
        *runs,
        "uniform soup of 2",
        "greedy soup of",
        "by tensor, pulled back 0.2",
    ):
        assert shown in answer.out
    assert answer.out.splitlines()[-1].split() == ["out", "out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["base", "runs/other"], "at least two runs"),
        (["base", "runs/other", "runs/other"], "is the same model as"),
        (["base", "runs/other", "gone/model"], "gone/model"),
        (["base", "runs/other", "bundled"], "bundled"),
        (["base", "runs/mine/seed-1", "runs/other", "--rule", "best"], "--rule"),
        (["base", "runs/mine/seed-1", "runs/other", "--rule", "greedy"], "--select FILE"),
        (["base", "runs/mine/seed-1", "runs/other", "--temperature", "1"], "only the softmax rule"),
        (["base", "runs/mine/seed-1", "runs/other", "--pull-back", "1"], "to below 1"),
        (["base", "runs/mine/seed-1", "runs/other", "--select", "gone.csv"], "gone.csv"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, said, gradate, folder):
    answer = gradate("fuse", *arguments, "--out", "out")
    assert answer.code == 2
    assert said in answer.err and answer.err.count("\n") == 1
    assert not (folder / "out").exists()


def test_an_out_that_is_not_empty_is_refused_without_overwrite(gradate, folder):
    words = ("fuse", "base", "runs/mine/seed-1", "runs/other", "--out", "base")
    answer = gradate(*words)
    assert answer.code == 2 and "base: is not empty (name another folder, or pass --overwrite)" in answer.err
    assert gradate(*words, "--overwrite").code == 0
    assert gradate("fuse", "base", "runs/mine/seed-1", "runs/other", "--out", "runs/mine", "--overwrite").code == 2


def test_the_commands_of_the_page_run_as_printed(gradate, folder):
    """Those that fuse, with the base of this folder in the place of the bundled model."""
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    fusions = [words for words in commands if words[0] == "fuse"]
    assert len(fusions) > 1
    for words in fusions:
        answer = gradate(*("base" if word == "bundled" else word for word in words))
        assert answer.code == 0, answer.err
        assert GradedModel.from_pretrained(words[words.index("--out") + 1]).head is None
