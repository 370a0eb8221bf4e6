"""Cells on disk: read as written, and refused where they do not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gradate.errors import InputError
from gradate.runs.recipe import load_recipe
from gradate.runs.reproduction.cells import Cell, SeedResult, baseline_key, read_cell, recipe_key, write_cell

KEY = baseline_key("bundled")


def result(seed: int) -> SeedResult:
    rng = np.random.default_rng(seed)
    scores = {"STS12": rng.uniform(-1, 1, 7), "SICK-R": rng.uniform(-1, 1, 4)}
    return SeedResult(80.5, {"STS12": 80.0, "SICK-R": None}, None, 1.5, {"cores": 2}, scores, rng.uniform(0, 2, 5))


def cell() -> Cell:
    return Cell(KEY, "bundled + ours", "recipe", {"benchmark": "abc"}).with_seed(2, result(2)).with_seed(1, result(1))


def test_a_cell_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_cell(tmp_path, cell())
    assert path.name == f"bundled-ours-{KEY}.json"
    found = read_cell(tmp_path, KEY)
    assert found is not None and list(found.seeds) == [1, 2] and found.data == {"benchmark": "abc"}
    for seed, stored in found.seeds.items():
        assert stored.to_json() == result(seed).to_json()
        assert stored.grades is not None
        np.testing.assert_allclose(stored.grades, result(seed).grades, atol=1e-5)  # type: ignore[arg-type]
        for task, scores in result(seed).scores.items():
            np.testing.assert_allclose(stored.scores[task], scores, atol=1e-5)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".parquet"}
    assert pq.read_table(path.with_suffix(".parquet")).column_names == ["seed_1", "seed_2"]
    assert read_cell(tmp_path, "0" * 12) is None
    write_cell(tmp_path, found.with_seed(3, result(3)))
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_looks_at_negatives_and_retrieval_are_kept(tmp_path: Path) -> None:
    looks = [{"step": 0, "mean_cosine": 0.5, "replaced": 0, "queries": 8}]
    full = replace(result(1), negatives=looks, retrieval={"scifact": np.array([50.0, 12.3456])})
    write_cell(tmp_path, Cell(KEY, "bundled", "", {}).with_seed(1, full).with_seed(2, result(2)))
    found = read_cell(tmp_path, KEY)
    assert found is not None and found.seeds[1].negatives == looks and not found.seeds[2].negatives
    assert found.seeds[1].retrieval is not None and found.seeds[2].retrieval is None
    assert found.seeds[1].retrieval["scifact"].tolist() == [50.0, 12.346]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 9}, "is of version 9"),
        ({"key": "other"}, "holds the key other"),
        ({"sizes": [7, 5]}, "of other pairs"),
    ],
)
def test_a_cell_that_does_not_fit(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = write_cell(tmp_path, cell())
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_cell(tmp_path, KEY)


def test_broken_and_missing_files(tmp_path: Path) -> None:
    path = write_cell(tmp_path, cell())
    path.with_suffix(".parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        read_cell(tmp_path, KEY)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read as a result"):
        read_cell(tmp_path, KEY)
    (tmp_path / f"twin-{KEY}.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="two cells of one key"):
        read_cell(tmp_path, KEY)


def test_the_key_names_what_changes_a_result_and_nothing_else() -> None:
    recipe = load_recipe("sts-regression/two-stage")
    key = recipe_key(recipe)
    assert key == recipe_key(replace(recipe, seed=7, description="other words"))
    assert key == recipe_key(replace(recipe, evaluation=replace(recipe.evaluation, intervals=3)))
    assert key != recipe_key(load_recipe("sts-regression/two-stage", ["stages.2.epochs=5"]))
    said = recipe.stages[1].accumulate
    assert key == recipe_key(load_recipe("sts-regression/two-stage", [f"stages.2.accumulate={said}"]))
    assert len(key) == 12 and key != baseline_key("bundled") != baseline_key("shallow")
