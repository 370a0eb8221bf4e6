from __future__ import annotations

import pytest

from gradate.runs.recipe import list_recipes, recipe_text


@pytest.mark.parametrize("words", [("recipes",), ("recipes", "list")])
def test_the_shipped_recipes_are_listed(words, gradate):
    listed = gradate(*words, "--json").json
    assert {"two-stage", "sts-regression/two-stage", "starter"} <= {recipe["name"] for recipe in listed}
    assert all(recipe["description"] for recipe in listed)
    assert "two-stage" in gradate(*words).out


@pytest.mark.parametrize("name", sorted(list_recipes()))
def test_every_recipe_can_be_shown(name, gradate):
    assert gradate("recipes", "show", name).out.strip() == recipe_text(name).strip()
    assert gradate("recipes", "show", name, "--json").json == {"name": name, "recipe": recipe_text(name)}


def test_a_recipe_can_be_copied_out(gradate, tmp_path):
    out = tmp_path / "mine.yaml"
    answer = gradate("recipes", "copy", "two-stage", out, "--json")
    assert answer.json == {"name": "two-stage", "out": str(out)}
    assert out.read_text(encoding="utf-8") == recipe_text("two-stage")
    assert gradate("recipes", "copy", "two-stage", out).code == 2


def test_an_unknown_recipe_is_answered_with_the_nearest(gradate):
    answer = gradate("recipes", "show", "two-stagee")
    assert answer.code == 2
    assert "'two-stage'" in answer.err
