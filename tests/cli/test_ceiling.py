"""`gradate ceiling` through its entry point."""

from __future__ import annotations

import pytest

from tests.cli.conftest import GRADES


def test_a_file_of_pairs(gradate, pairs_file):
    answer = gradate("ceiling", pairs_file, "--scale", ",".join(GRADES), "--json")
    assert answer.code == 0, answer.err
    assert {"ceiling", "threshold", "share_positive", "n", "no_ties_formula", "tie_correct"} <= answer.json.keys()
    # Grades 3, 2, 0, 3, 1 have the ranks 4.5, 3, 1, 4.5, 2; yes from 2 and from 3 correlate alike.
    assert answer.json["ceiling"] == pytest.approx(3 / (9.5 * 1.2) ** 0.5)
    assert (answer.json["threshold"], answer.json["share_positive"], answer.json["n"]) == (2, 0.6, 5)


def test_for_people_there_is_a_table_and_what_it_means(gradate):
    answer = gradate("ceiling", "starter-test")
    assert answer.code == 0, answer.err
    assert "starter-test" in answer.out and "yes from grade" in answer.out
    assert "0.875 of the literature" in answer.out and "0.8660" in answer.out and "no theorem" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.csv"], "gone.csv"),
        (["starter-tset"], "did you mean 'starter-test'?"),
        (["starter", "--scale", "0..5"], "has its own columns and the scale"),
        (["seven-sts", "--scale", "0..5"], "leave out --scale and --columns"),
        (["seven-sts", "--data", "gone"], "gone"),
    ],
)
def test_bad_input_is_one_line(arguments, said, gradate):
    answer = gradate("ceiling", *arguments)
    assert answer.code == 2
    assert said in answer.err and answer.err.count("\n") == 1


def test_equal_grades_are_one_line(gradate, tmp_path):
    file = tmp_path / "flat.csv"
    file.write_text("text1,text2,grade\na,b,1\nc,d,1\n", encoding="utf-8")
    answer = gradate("ceiling", file, "--scale", "0,1,2")
    assert answer.code == 2
    assert "all 2 grades are equal" in answer.err and answer.err.count("\n") == 1
