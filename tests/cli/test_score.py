from __future__ import annotations

import csv
import json

import pytest

from gradate.models.graded import GradedModel
from tests.cli.conftest import GRADES


def test_two_texts_give_a_list_of_one(gradate, graded_model):
    answer = gradate("score", graded_model, "how do i pay", "my parcel is late", "--precision", "fp32", "--json")
    assert answer.code == 0
    (item,) = answer.json
    model = GradedModel.from_pretrained(graded_model, precision="fp32")
    pair = [("how do i pay", "my parcel is late")]
    assert item == {
        "prediction": model.predict(pair)[0],
        "grade": model.classify(pair)[0],
        "similarity": model.similarity(pair)[0],
    }


def test_what_was_clipped_is_counted(gradate, graded_model):
    answer = gradate("score", graded_model, "same", "same", "--json")
    assert answer.json[0]["prediction"] == 3.0
    assert answer.json[0]["grade"] == "highly"
    assert "clipped to the scale irrelevant,slightly,moderately,highly: 1 of 1 predictions" in answer.err


def test_for_people_the_figures_stand_on_stdout(gradate, graded_model):
    answer = gradate("score", graded_model, "same", "same")
    assert [line.split() for line in answer.out.splitlines()] == [
        ["prediction", "3.00"],
        ["grade", "highly"],
        ["similarity", "1.00"],
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_file_is_scored_row_by_row(suffix, gradate, graded_model, pairs_file, tmp_path):
    out = tmp_path / f"scored.{suffix}"
    answer = gradate("score", graded_model, "--pairs", pairs_file, "--out", out, "--precision", "fp32", "--json")
    assert answer.code == 0
    assert answer.json["rows"] == 5
    assert answer.json["out"] == str(out)
    rows = _read(out)
    assert [row["text2"] for row in rows][:2] == ["how do i pay", "where can i pay"]
    model = GradedModel.from_pretrained(graded_model, precision="fp32")
    pairs = [(row["text1"], row["text2"]) for row in rows]
    unclipped = model.predict(pairs, clip=False)
    assert answer.json["clipped"] == int(((unclipped < 0) | (unclipped > 3)).sum()) > 0
    assert [float(row["prediction"]) for row in rows] == model.predict(pairs).tolist()
    assert all(row["grade"] in GRADES for row in rows)


def test_without_out_json_lists_every_pair(gradate, graded_model, pairs_file):
    items = gradate("score", graded_model, "--pairs", pairs_file, "--json").json
    assert len(items) == 5
    assert items[0].keys() == {"prediction", "grade", "similarity"}


def test_columns_are_chosen_by_name(gradate, graded_model, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("left,right\na,b\n", encoding="utf-8")
    answer = gradate("score", graded_model, "--pairs", file, "--columns", "left,right", "--json")
    assert len(answer.json) == 1


def test_a_model_without_head_says_how_to_get_one(gradate, plain_model):
    answer = gradate("score", plain_model, "a", "b", "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "no pair head" in answer.err and "gradate train" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "two texts"),
        (["a"], "got 1"),
        (["a", "b", "c"], "got 3"),
        (["a", "  "], "empty text"),
        (["a", "b", "--pairs", "x.csv"], "--pairs"),
        (["a", "b", "--out", "x.csv"], "--out belongs to --pairs"),
        (["--pairs", "x.csv"], "--out FILE"),
        (["--pairs", "x.csv", "--out", "x.txt"], ".parquet"),
        (["--pairs", "missing.csv", "--json"], "missing.csv"),
    ],
)
def test_wrong_use_is_refused(arguments, said, gradate, graded_model):
    answer = gradate("score", graded_model, *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_former_result_is_kept_without_overwrite(gradate, graded_model, pairs_file, tmp_path):
    out = tmp_path / "scored.csv"
    out.write_text("mine", encoding="utf-8")
    assert gradate("score", graded_model, "--pairs", pairs_file, "--out", out).code == 2
    assert out.read_text(encoding="utf-8") == "mine"
    assert gradate("score", graded_model, "--pairs", pairs_file, "--out", out, "--overwrite").code == 0
    assert len(_read(out)) == 5


def _read(path):
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
