"""Recipes: every shipped one loads, YAML in and out, overrides, and refusals that name key, value and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradate.errors import InputError
from gradate.runs.recipe import copy_recipe, list_recipes, load_recipe, parse_recipe, recipe_text
from gradate.runs.schema import to_mapping

MINIMAL = "stages:\n  - source: pairs\n"


@pytest.mark.parametrize("name", list_recipes())
def test_every_shipped_recipe_loads_and_survives_a_round_trip(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.description and list_recipes()[name]
    assert parse_recipe(recipe.to_yaml(), where="again") == recipe


def test_names_of_the_shipped_recipes() -> None:
    assert {"two-stage", "starter", "head-only", "sts-regression/two-stage"} <= list_recipes().keys()


def test_numbers_as_yaml_reads_them() -> None:
    recipe = parse_recipe(MINIMAL + "    learning_rate: 1e-4\n    epochs: 2\n    clip: null\n", where="x")
    assert (recipe.stages[0].learning_rate, recipe.stages[0].epochs, recipe.stages[0].clip) == (1e-4, 2.0, None)


def test_overrides_count_stages_from_one() -> None:
    recipe = load_recipe(
        "two-stage", ["stages.2.epochs=1", "seed=7", "stages.1.objective.k=3.5", "stages.2.patience=2"]
    )
    assert (recipe.stages[1].epochs, recipe.seed, recipe.stages[0].objective.k, recipe.stages[1].patience) == (
        1,
        7,
        3.5,
        2,
    )
    assert load_recipe("two-stage", ["stages.2.selection=null"]).stages[1].selection is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages: []", "at least one stage"),
        ("description: x", "key 'stages' is missing"),
        ("- a", "must be a mapping"),
        ("stages:\n  - soruce: pairs", r"unknown key 'stages\[1\]\.soruce' \(did you mean 'source'\?\)"),
        (MINIMAL + "    epochs: many", r"stages\[1\]\.epochs = 'many' has the wrong type \(expected a number\)"),
        (MINIMAL + "    batch_size: 2.5", r"batch_size = 2.5 has the wrong type"),
        (MINIMAL + "    batch_size: true", "has the wrong type"),
        (MINIMAL + "    epochs: 1\n    epochs: 2", "x:4: not valid YAML: the key 'epochs' stands twice"),
        (MINIMAL + "    objective: {name: smoth-k2}", r"stages\[1\]\.objective.name.*did you mean 'smooth-k2'"),
        (
            MINIMAL + "    learning_rate: .nan",
            r"learning_rate = nan is out of range \(allowed: a finite number above 0",
        ),
        (MINIMAL + "    objective: {k: 0}", "k = 0.0 must be a finite number above 0"),
        (MINIMAL + "    objective: {x0: -1}", "x0 = -1.0 must be a finite number, 0 or more"),
        (MINIMAL + "    layer_decay: 2", "layer_decay = 2.0 is out of range"),
        (MINIMAL + "head: {concatenation: u}", "unknown concatenation"),
        (MINIMAL + "seed: -1", "seed = -1 is out of range"),
        (MINIMAL + "evaluation: {intervals: 0}", "intervals = 0 is out of range"),
        (MINIMAL + "template: prompt-sem", r"x: 'prompt-sem' is neither .* \(one of prompt-eol, prompt-sth, "),
        (MINIMAL + "pooling: last", "pooling"),
        ("stages: [", "x:1: not valid YAML"),
        (MINIMAL + "    epochs: 1\n   seed: 2\n", "x:4: not valid YAML"),
        (MINIMAL + "seed: 2024-13-45", "x: not valid YAML: month must be in"),
        (MINIMAL + "description: \x00", "x: not valid YAML"),
        ("", "the recipe must be a mapping of keys to values, got None"),
        (MINIMAL + "    objective: {name: mse}\n  - objective: {name: cross-entropy}", "one kind of loss"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_recipe(text, where="x")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs", "write key=value"),
        ("stages.3.epochs=1", "1 to 2"),
        ("stages.1.source.x=1", "has no keys"),
        ("stages.0.epochs=1", "there is no 'stages.0' .*1 to 2"),
        ("stages.2.epochs=[", "cannot read the value"),
        ("seed=2024-13-45", "cannot read the value"),
        ("stages.2.learning_rate=.nan", r"with --set: stages\[2\]: learning_rate = nan is out of range"),
        ("sede=1", "did you mean 'seed'"),
        ("stages.2.epoch=1", "did you mean 'epochs'"),
    ],
)
def test_bad_overrides(override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_recipe("two-stage", [override])


def test_an_unknown_recipe_and_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'two-stage'"):
        load_recipe("two-stag")
    with pytest.raises(InputError, match="cannot read the recipe"):
        load_recipe(str(tmp_path / "none.yaml"))


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    path = copy_recipe("two-stage", tmp_path / "mine.yml")
    assert load_recipe(str(path)) == load_recipe("two-stage")
    assert load_recipe(str(path), ["stages.2.learning_rate=2e-5"]).stages[1].learning_rate == 2e-5
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot read the recipe"):
        load_recipe(str(path))


def test_copy_keeps_comments_and_never_overwrites(tmp_path: Path) -> None:
    target = copy_recipe("sts-regression/two-stage", tmp_path)
    assert target.name == "sts-regression-two-stage.yaml"
    assert target.read_text() == recipe_text("sts-regression/two-stage")
    with pytest.raises(InputError, match="the file exists"):
        copy_recipe("sts-regression/two-stage", tmp_path)
    with pytest.raises(InputError, match=r"end in \.yaml"):
        copy_recipe("two-stage", tmp_path / "mine.txt")


@pytest.mark.parametrize(
    ("name", "benchmarks"),
    [
        ("sts-regression/two-stage", ("STS-B", "SICK-R")),
        ("sts-regression/pearson", ("STS-B", "SICK-R")),
        ("two-stage", ()),
        ("simcse/supervised", ()),
        ("codiemb", ("STS-B", "SICK-R", "scifact")),
        ("conan", ("STS-B", "SICK-R", "scifact")),
    ],
)
def test_benchmarks_whose_training_data_is_used_are_known(name: str, benchmarks: tuple[str, ...]) -> None:
    assert load_recipe(name).in_domain == benchmarks


def test_mapping_is_plain() -> None:
    def plain(value: object) -> bool:
        if isinstance(value, dict):
            return all(isinstance(k, str) and plain(v) for k, v in value.items())
        return all(map(plain, value)) if isinstance(value, list) else isinstance(value, (str, int, float, type(None)))

    assert plain(to_mapping(load_recipe("two-stage")))
