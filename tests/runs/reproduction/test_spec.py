"""Every shipped table is whole: its recipes load, its claims name its rows, its figures are as many as its columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from gradate.errors import InputError
from gradate.runs.recipe import load_recipe
from gradate.runs.reproduction.cells import recipe_key
from gradate.runs.reproduction.spec import TASKS, Part, load_table, row_recipe, table_names

TABLES = table_names()


def parts(name: str) -> list[Part]:
    spec = load_table(name)
    return [spec.small, spec.full]


def test_the_tables_of_the_paper_and_three_more() -> None:
    assert {"table-1", "table-3", "table-4", "table-5", "table-6", "batch-size", "deviations", "noise"} <= set(TABLES)
    assert {"codiemb", "conan", "best-small"} <= set(TABLES)
    assert {"codiemb", "conan"} <= set(TABLES)
    with pytest.raises(InputError, match="did you mean 'table-1'"):
        load_table("table1")


@pytest.mark.parametrize("name", TABLES)
def test_rows(name: str) -> None:
    for part in parts(name):
        assert max(Counter((row.group, row.name) for row in part.rows).values(), default=1) == 1
        for row in part.rows:
            kinds = [row.cited, row.baseline is not None, row.step is not None, row_recipe(part, row) is not None]
            assert kinds.count(True) == 1, row
            assert len(row.paper) in (0, 1, len(TASKS) + 1), row
            assert row.paper or not row.cited


@pytest.mark.parametrize("name", TABLES)
def test_every_claim_can_be_judged_at_small_scale(name: str) -> None:
    spec = load_table(name)
    for claim in spec.claims:
        wanted = {claim.of, *claim.others} if claim.kind == "flat" else {claim.of, claim.than}
        groups = [
            group.name
            for group in spec.small.groups
            if {row.name for row in spec.small.rows if row.group == group.name} >= wanted
            and (not claim.groups or group.name in claim.groups)
        ]
        assert groups, claim.text


def test_the_papers_averages_are_those_of_its_cells() -> None:
    wrong = []
    for name in ("table-1", "table-3"):
        for part in parts(name):
            for row in part.rows:
                if len(row.paper) > 1 and abs(sum(row.paper[:-1]) / len(TASKS) - row.paper[-1]) > 0.006:
                    wrong.append(row.paper_name or row.name)
    assert set(wrong) <= {"Sentence-BERT", "PromCSE-BERT"}, "the paper's own two slips"


def test_the_same_recipe_under_another_name_is_one_cell() -> None:
    keys = {}
    for name, row_name in (
        ("table-1", "Smooth K2"),
        ("table-6", "(u, v, |u−v|)"),
        ("batch-size", "Smooth K2, batch 16"),
    ):
        part = load_table(name).small
        row = next(r for r in part.rows if r.group == "shallow" and r.name == row_name)
        recipe = row_recipe(part, row)
        assert recipe is not None
        keys[name] = recipe_key(recipe)
    assert len(set(keys.values())) == 1


ON_NLI = {
    *("objective", "batch_size", "schedule_stretch", "embeddings_rate", "evaluate_every", "label_cast", "selection"),
}


@pytest.mark.parametrize("name", ["bert-base", "roberta-base", "nomic-v1", "jina-v2"])
def test_the_published_code_differs_from_the_text_in_its_named_switches(name: str) -> None:
    text, code = load_recipe(f"paper/{name}"), load_recipe(f"published-code/{name}")
    assert (text.encoder, text.head) == (code.encoder, code.head)
    last = {
        f.name for f in fields(text.stages[-1]) if getattr(text.stages[-1], f.name) != getattr(code.stages[-1], f.name)
    }
    assert last == ON_NLI | ({"reshuffle", "rescale_head"} if len(text.stages) > 1 else set())
    assert code.stages[-1].objective.boundary == "left" and text.stages[-1].objective.boundary == "both"
