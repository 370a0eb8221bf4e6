"""The documentation says what the code does."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from gradate.cli import app
from gradate.objectives.config import ObjectiveConfig
from gradate.runs.recipe import EvaluationConfig, HeadConfig, Recipe, parse_recipe
from gradate.training.hard_negatives import NegativesConfig
from gradate.training.stage import LoraConfig, SelectionConfig, Stage
from gradate.training.task import TaskConfig
from tests.beir import write_beir
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

DOCS = Path(__file__).parent.parent / "docs"
SECTIONS = {
    "Top level": Recipe,
    "head": HeadConfig,
    "stages": Stage,
    "stages.objective": ObjectiveConfig,
    "stages.beside": TaskConfig,
    "stages.negatives": NegativesConfig,
    "stages.selection": SelectionConfig,
    "stages.lora": LoraConfig,
    "evaluation": EvaluationConfig,
}


@pytest.fixture(scope="module")
def recipes_page():
    return (DOCS / "recipes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_a_recipe_is_documented_with_its_default(section, recipes_page):
    part = recipes_page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    documented = {key: default for key, default in re.findall(r"^\| `(\w+)` \| (.+?) \| ", part, flags=re.M)}
    fields = dataclasses.fields(SECTIONS[section])
    assert list(documented) == [field.name for field in fields]
    for field in fields:
        shown = documented[field.name].strip("`").replace("\\|", "|")
        if field.default_factory is not dataclasses.MISSING:
            assert shown.startswith(("[below]", "[above]"))
        elif field.default is dataclasses.MISSING:
            assert shown == "required"
        else:
            assert shown == _in_yaml(field.default)


def _in_yaml(value):
    for special, word in ((None, "null"), (True, "true"), (False, "false"), ("", "empty"), ((), "[]")):
        if value is special or (value == special and isinstance(value, (str, tuple))):
            return word
    return str(value)


def test_the_example_recipe_is_valid(recipes_page):
    example = recipes_page.split("```yaml\n")[1].split("```")[0]
    recipe = parse_recipe(example, where="docs/recipes.md")
    assert [stage.trainable for stage in recipe.stages] == ["head", "all"]
    assert recipe.stages[1].objective.x0 == 0.2


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.filterwarnings("ignore::UserWarning")  # the made-up sets have other counts than the published ones
@pytest.mark.parametrize(("page", "verbs"), [("mining.md", {"mine", "check"}), ("data.md", {"evaluate"})])
def test_the_commands_of_a_page_run_as_printed(page, verbs, tmp_path, monkeypatch, capsys):
    tiny_encoder(tmp_path / "tiny")
    for name in ("scifact", "cranfield", "own"):
        write_beir(tmp_path / "beir" / name)
    pairs = graded_pairs(40)
    (tmp_path / "texts.txt").write_text("\n".join(pairs.texts()) + "\n", encoding="utf-8")
    names = ("irrelevant", "slightly", "moderately", "highly")
    rows = [f"{a},{b},{names[int(g)]}" for a, b, g in zip(pairs.text1, pairs.text2, pairs.grades, strict=True)]
    (tmp_path / "labelled.csv").write_text("\n".join(["text1,text2,grade", *rows]) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("gradate ")]
    commands = [shlex.split(line.replace(" bundled", " tiny"))[1:] for line in lines]
    chosen = [words for words in commands if words[0] in verbs]
    assert {words[0] for words in chosen} == verbs
    for words in chosen:
        assert app.run(words) == 0, capsys.readouterr().err
