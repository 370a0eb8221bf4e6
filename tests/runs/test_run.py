"""Runs end to end on a tiny encoder: folders, seeds, plans, selection, scales, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer

from gradate.data.examples import Pairs
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.runs.plan import Plan
from gradate.runs.results import Run, Runs
from gradate.runs.run import train
from gradate.scale import LabelScale
from tests.graded import graded_pairs, write_csv

FOLDER = {
    "recipe.yaml", "resolved.yaml", "env.json", "data.json", "log.jsonl", "metrics.json", "predictions", "plots",
    "report.html", "model", "checkpoints", "status.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(recipe_file: Path, pairs_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    result = train(str(recipe_file), pairs=pairs_csv, out=tmp_path_factory.mktemp("runs") / "one")
    assert isinstance(result, Run)
    return result


def test_run_folder_is_as_designed(run: Run) -> None:
    assert {path.name for path in run.folder.iterdir()} == FOLDER
    assert (run.model / "graded_head" / "model.safetensors").is_file()
    assert not [p for p in run.folder.rglob("*") if p.suffix in (".bin", ".pt", ".pth", ".pkl")]
    resolved = yaml.safe_load((run.folder / "resolved.yaml").read_text())
    assert "auto" not in {resolved["stages"][1][key] for key in ("batch_size", "evaluate_every")}
    objective = resolved["stages"][1]["objective"]
    assert objective.items() >= {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"}.items()
    data = json.loads((run.folder / "data.json").read_text())
    assert data["stages"][0]["pairs"] + data["test"]["pairs"] + data["selections"][0]["dev"]["pairs"] == 100


def test_json_has_the_contract(run: Run) -> None:
    found = json.loads(json.dumps(run.to_json(), allow_nan=False))
    assert {"run", "model", "best", "seconds", "pairs_per_second", "before", "after", "difference"} <= found.keys()
    assert found["best"].keys() == {"metric", "value", "step"}
    flat = {"spearman_cosine", "spearman_head", "mae", "accuracy", "qwk", "n", "intervals"}
    assert found["before"].keys() == found["after"].keys() == flat
    assert found["before"]["spearman_head"] is None
    assert found["before"]["mae"] is not None, "read off the cosine by isotonic regression"
    assert found["difference"]["spearman_cosine"].keys() >= {"value", "low", "high"}


def test_model_opens_in_plain_sentence_transformers(run: Run, pairs_csv: Path) -> None:
    texts = ["a b c", "x y z"]
    graded = GradedModel.from_pretrained(run.model, precision="fp32")
    plain = SentenceTransformer(str(run.model), device="cpu")
    np.testing.assert_allclose(graded.encode(texts), plain.encode(texts), atol=1e-6)
    assert graded.scale == LabelScale.from_values([0, 1, 2, 3])
    assert graded.predict([("a b c", "a b c")]).shape == (1,)


def test_dry_run_trains_nothing_and_shows_the_real_first_batch(
    recipe_file: Path, pairs_csv: Path, tmp_path: Path
) -> None:
    plan = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "dry", dry_run=True)
    assert isinstance(plan, Plan)
    assert not (tmp_path / "dry").exists()
    stage = plan.stages[1]
    assert stage["updates"] == 30 and len(stage["first_batch"]) == 8
    assert {"sentence1", "sentence2", "score"} == stage["first_batch"][0].keys()


def test_first_batch_of_the_plan_is_the_first_batch_trained_on(
    recipe_file: Path, pairs_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradate.objectives.pair import PairObjective

    seen: list[torch.Tensor] = []
    original = PairObjective.forward

    def record(self: PairObjective, features: object, labels: torch.Tensor) -> torch.Tensor:
        seen.append(labels)
        return original(self, features, labels)  # type: ignore[arg-type]

    plan = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "dry", dry_run=True)
    monkeypatch.setattr(PairObjective, "forward", record)
    train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", overrides=["stages.2.epochs=0.2"])
    assert isinstance(plan, Plan)
    assert seen[0].tolist() == [row["score"] for row in plan.stages[1]["first_batch"]]


def test_seeds_make_one_folder_each_and_the_best_model_by_selection(
    recipe_file: Path, pairs_csv: Path, tmp_path: Path
) -> None:
    runs = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "runs", seeds=[1, 2])
    assert isinstance(runs, Runs)
    found = json.loads((tmp_path / "runs" / "metrics.json").read_text())
    assert {p.name for p in (tmp_path / "runs").iterdir()} >= {"seed-1", "seed-2", "model", "metrics.json"}
    values = [r["after"]["spearman_cosine"] for r in found["runs"]]
    assert found["mean"] == pytest.approx(np.mean(values)) and found["sd"] == pytest.approx(np.std(values, ddof=1))
    best = max(found["runs"], key=lambda r: r["best"]["value"])
    assert found["chosen"] == best["seed"]
    chosen = (tmp_path / "runs" / f"seed-{best['seed']}" / "model" / "model.safetensors").read_bytes()
    assert (tmp_path / "runs" / "model" / "model.safetensors").read_bytes() == chosen
    first = [r["stages"][0]["best"] for r in found["runs"]]
    assert first[0] == first[1], "the convex stage does not depend on the seed"


def test_a_folder_in_the_way(recipe_file: Path, pairs_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty \(choose another --out, or --resume or --overwrite it\)"):
        train(str(recipe_file), pairs=pairs_csv, out=tmp_path)
    with pytest.raises(InputError, match="holds no run of gradate"):
        train(str(recipe_file), pairs=pairs_csv, out=tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_handover_between_scales_is_exact(recipe_file: Path, tmp_path: Path) -> None:
    small = graded_pairs(60, scale=LabelScale.from_values([0, 0.5, 1.5, 2]))
    path = write_csv(tmp_path / "small.csv", small)
    text = recipe_file.read_text().replace(
        "- source: pairs\n    trainable: head", f"- source: {path}\n    trainable: head"
    )
    (tmp_path / "two.yaml").write_text(text)
    big = write_csv(tmp_path / "big.csv", graded_pairs(80, seed=5))
    run = train(str(tmp_path / "two.yaml"), pairs=big, out=tmp_path / "run", overrides=["stages.2.learning_rate=1e-9"])
    assert isinstance(run, Run)
    first = GradedModel.from_pretrained(run.folder / "checkpoints" / "stage-1" / "model", precision="fp32")
    last = GradedModel.from_pretrained(run.model, precision="fp32")
    pairs = [("a b c", "b c d"), ("q r s", "q r s")]
    expected = first.predict(pairs, clip=False) * 1.5
    np.testing.assert_allclose(last.predict(pairs, clip=False), expected, atol=2e-5)


def test_classification_baseline(recipe_file: Path, pairs_csv: Path, tmp_path: Path) -> None:
    overrides = [f"stages.{i}.objective={{name: cross-entropy}}" for i in (1, 2)]
    run = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", overrides=overrides)
    assert isinstance(run, Run)
    model = GradedModel.from_pretrained(run.model)
    assert model.head is not None and model.head.outputs == 4
    assert set(model.predict([("a b c", "a b c")])) <= {0.0, 1.0, 2.0, 3.0}


def test_prompts_travel_with_the_model(recipe_file: Path, pairs_csv: Path, tmp_path: Path) -> None:
    overrides = ["stages.1.prompts='q '", "stages.2.prompts='q '", "stages.2.epochs=1"]
    run = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", overrides=overrides)
    assert isinstance(run, Run)
    plain = SentenceTransformer(str(run.model), device="cpu")
    np.testing.assert_allclose(plain.encode("a b"), plain.encode("a b", prompt="q "), atol=1e-6)
    assert not np.allclose(plain.encode("a b"), plain.encode("a b", prompt=""))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stages.2.learning_rate=.nan", "learning_rate = nan is out of range"),
        ("stages.2.objective.k=0", "k = 0.0 must be a finite number above 0"),
        ("stages.2.objective.x0=0.6", r"x0 = 0.6 is more than half the spacing d = 1 .*choose x0 from 0 to 0.5"),
        ("stages.2.learning_rat=1", "did you mean 'learning_rate'"),
        ("stages.2.trainable=last-7", "last-7 asks for more layers"),
    ],
)
def test_bad_settings(override: str, message: str, recipe_file: Path, pairs_csv: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", overrides=[override])


def test_all_grades_equal_are_refused(recipe_file: Path, tmp_path: Path) -> None:
    pairs = graded_pairs(30)
    equal = Pairs(pairs.text1, pairs.text2, np.full(30, 2.0), pairs.scale)
    with pytest.raises(InputError, match="nothing to order"):
        train(str(recipe_file), pairs=equal, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_fewer_pairs_than_a_batch_are_handled_and_said(recipe_file: Path, tmp_path: Path) -> None:
    plan = train(
        str(recipe_file),
        pairs=graded_pairs(20),
        out=tmp_path / "run",
        dry_run=True,
        overrides=["stages.2.batch_size=64"],
    )
    assert isinstance(plan, Plan)
    reasons = {key: reason for key, _, reason in plan.reasons}
    assert "fewer than the 64 asked for" in reasons["stages.2.batch_size"]


def test_own_dev_and_test_files(recipe_file: Path, tmp_path: Path) -> None:
    plan = train(
        str(recipe_file),
        pairs=graded_pairs(50),
        dev=graded_pairs(20, seed=3),
        test=write_csv(tmp_path / "t.csv", graded_pairs(30, seed=4)),
        out=tmp_path / "run",
        dry_run=True,
    )
    assert isinstance(plan, Plan)
    assert plan.stages[0]["pairs"] == 50 and plan.stages[0]["selection"] == {"dev": 20}


def test_a_test_pair_in_training_is_said(recipe_file: Path, tmp_path: Path) -> None:
    pairs = graded_pairs(50)
    plan = train(
        str(recipe_file),
        pairs=pairs,
        dev=graded_pairs(20, seed=3),
        test=pairs.select([0, 1]),
        out=tmp_path / "r",
        dry_run=True,
    )
    assert isinstance(plan, Plan)
    assert any("2 training pairs also stand in" in note for note in plan.notes)


def test_pairs_are_needed_or_refused(recipe_file: Path, pairs_csv: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pass --pairs FILE"):
        train(str(recipe_file), out=tmp_path / "run")
    with pytest.raises(InputError, match="brings its own data"):
        train("starter", pairs=pairs_csv, out=tmp_path / "run")


def test_an_encoder_with_another_head_gets_a_new_one(
    recipe_file: Path, pairs_csv: Path, tmp_path: Path, run: Run
) -> None:
    overrides = [f"encoder={run.model}", "head.concatenation=cos", "stages.2.epochs=1"]
    again = train(str(recipe_file), pairs=pairs_csv, out=tmp_path / "run", overrides=overrides)
    assert isinstance(again, Run)
    model = GradedModel.from_pretrained(again.model)
    assert model.head is not None and model.head.concatenation == "cos"


def test_pairs_weigh_what_their_column_says(recipe_file: Path, tmp_path: Path) -> None:
    pairs = graded_pairs(60)
    path = write_csv(tmp_path / "weighted.csv", pairs)
    lines = path.read_text().splitlines()
    weighted = [f"{lines[0]},weight", *(f"{line},{1 + i % 3}" for i, line in enumerate(lines[1:]))]
    path.write_text("\n".join(weighted) + "\n")
    run = train(str(recipe_file), pairs=path, out=tmp_path / "run", overrides=["stages.2.epochs=1"])
    assert isinstance(run, Run) and run.best is not None


def test_stages_alone_make_a_recipe(pairs_csv: Path, tmp_path: Path, encoder_folder: Path) -> None:
    from gradate.training.stage import Stage

    plan = train(
        [Stage(trainable="head"), Stage(epochs=1)],
        pairs=pairs_csv,
        out=tmp_path / "run",
        dry_run=True,
        overrides=[f"encoder={encoder_folder}"],
    )
    assert isinstance(plan, Plan) and [stage["trainable"] for stage in plan.stages] == ["head", "all"]
