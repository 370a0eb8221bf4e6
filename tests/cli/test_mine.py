from __future__ import annotations

import csv

import pytest

from tests.cli.conftest import GRADES
from tests.graded import graded_pairs, write_csv

SCALE = ",".join(GRADES)


@pytest.fixture
def texts_file(tmp_path):
    file = tmp_path / "texts.txt"
    pairs = graded_pairs(30)
    file.write_text("\n".join([*pairs.text1, *pairs.text2, "", pairs.text1[0].upper()]) + "\n", encoding="utf-8")
    return file


def test_a_filled_file_is_read_as_it_is_and_an_unfilled_one_is_refused(gradate, plain_model, texts_file, tmp_path):
    out = tmp_path / "pairs.csv"
    answer = gradate(
        "mine", texts_file, "--model", plain_model, "--out", out, "--count", 40, "--bands", "0.5,0.8", "--json"
    )
    assert answer.code == 0, answer.err
    assert answer.json["texts"] == 60 and answer.json["notes"][:2] == [
        "empty texts, left out: 1",
        "repeated texts, left out: 1",
    ]
    assert answer.json["pairs"] == sum(band["found"] for band in answer.json["bands"]) > 10

    unfilled = gradate("check", out, "--scale", SCALE)
    assert unfilled.code == 3 and "the grade is missing" in unfilled.out
    assert gradate("check", out).code == 2
    refused = gradate("train", "two-stage", "--pairs", out, "--scale", SCALE, "--out", tmp_path / "run")
    assert refused.code == 2 and "pairs.csv:2: the grade is missing" in refused.err

    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["text1", "text2", "grade", "similarity", "band"]
    for number, row in enumerate(rows):
        row["grade"] = GRADES[number % 4]
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    checked = gradate("check", out, "--scale", SCALE, "--json")
    assert checked.code == 0 and checked.json["rows"] == len(rows)
    planned = gradate(
        "train", "two-stage", "--pairs", out, "--scale", SCALE, "--out", tmp_path / "run", "--dry-run",
        "--set", f"encoder={plain_model}",
    )  # fmt: skip
    assert planned.code == 0, planned.err


def test_graded_pairs_are_looked_at_again(gradate, plain_model, tmp_path):
    file, out = write_csv(tmp_path / "graded.csv", graded_pairs(40)), tmp_path / "again.csv"
    answer = gradate("mine", "--pairs", file, "--model", plain_model, "--out", out, "--count", 5, "--json")
    assert answer.code == 0 and (answer.json["pairs"], answer.json["compared"]) == (5, 40)
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    far = [abs(float(row["disagreement"])) for row in rows]
    assert far == sorted(far, reverse=True)
    given = file.read_text(encoding="utf-8").splitlines()
    assert all(given[int(row["row"]) - 1].startswith(f"{row['text1']},{row['text2']},") for row in rows)
    shown = gradate("mine", "--pairs", file, "--model", plain_model, "--out", out, "--overwrite")
    assert shown.code == 0 and "compared" in shown.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "what to mine? (give a file of texts, or graded pairs with --pairs FILE)"),
        (("texts.txt", "--pairs", "pairs.csv"), "what to mine?"),
        (("texts.txt", "--bands", "low"), "--bands: cannot read 'low'"),
        (("texts.txt", "--bands", "0.4,0.2"), "does not rise"),
        (("texts.txt", "--out", "pairs.xls"), "cannot write .xls"),
        (("gone.txt",), "gone.txt"),
    ],
)
def test_wrong_use_is_refused_in_one_line(arguments, said, gradate, plain_model, texts_file, monkeypatch):
    monkeypatch.chdir(texts_file.parent)
    answer = gradate("mine", "--model", plain_model, "--out", "pairs.csv", *arguments)
    assert answer.code == 2 and said in answer.err and answer.err.count("\n") == 1
    assert not (texts_file.parent / "pairs.csv").exists()
