from __future__ import annotations

import pytest

from gradate.data.benchmarks import Benchmark, Subset, Task
from tests.cli.conftest import GRADES

SCALE = ",".join(GRADES)


def test_clean_pairs_pass(gradate, pairs_file):
    answer = gradate("check", pairs_file, "--scale", SCALE, "--json")
    assert answer.code == 0
    found = answer.json
    assert found["rows"] == 5
    assert found["scale"] == SCALE
    assert found["duplicates"] == {"exact": 0, "swapped": 0}
    assert found["leaks"] == {"exact": 0, "swapped": 0, "folded": 0}
    assert found["truncated"] is None
    assert found["empty"] == 0
    assert found["imbalance"]["counts"] == {"irrelevant": 1, "slightly": 1, "moderately": 1, "highly": 2}
    assert found["problems"] == []
    assert "unused columns: note" in answer.err


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("new,,highly,x", "empty"),
        ("new,one,enormously,x", "grade"),
        ("my parcel is late,a parcel is late,slightly,x", "conflict"),
    ],
)
def test_what_must_be_mended_blocks(row, kind, gradate, pairs_file):
    with pairs_file.open("a", encoding="utf-8") as file:
        file.write(row + "\n")
    answer = gradate("check", pairs_file, "--scale", SCALE, "--json")
    assert answer.code == 3
    (problem,) = answer.json["problems"]
    assert (problem["row"], problem["kind"]) == (7, kind)
    assert "blocked" in answer.err


def test_a_duplicate_does_not_block(gradate, pairs_file):
    with pairs_file.open("a", encoding="utf-8") as file:
        file.write("can i swap it,can i return it,slightly,x\n")
    answer = gradate("check", pairs_file, "--scale", SCALE, "--json")
    assert answer.code == 0
    assert answer.json["duplicates"] == {"exact": 0, "swapped": 1}


def test_leaks_into_a_file_are_told_apart(gradate, pairs_file, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text("text1,text2\nhow do i pay,where can i pay\nCan I  swap it,can i return it\n", encoding="utf-8")
    answer = gradate("check", pairs_file, "--scale", SCALE, "--against", test, "--json")
    assert answer.code == 3
    assert answer.json["leaks"] == {"exact": 1, "swapped": 0, "folded": 1}


def test_leaks_into_the_seven_sets(gradate, pairs_file, monkeypatch):
    subset = Subset("MSRpar", ["my parcel is late"], ["a parcel is late"], [1.0], 0)
    seven = Benchmark("seven-sts", {"STS12": Task("STS12", (subset,))})
    monkeypatch.setattr("gradate.data.benchmarks.load_seven_sts", lambda locations: seven)
    answer = gradate("check", pairs_file, "--scale", SCALE, "--against", "seven-sts", "--json")
    assert answer.code == 3
    assert answer.json["leaks"] == {"exact": 0, "swapped": 1, "folded": 0}
    assert "STS12" in answer.json["problems"][0]["detail"]


def test_texts_beyond_the_encoders_limit_are_counted(gradate, pairs_file, plain_model):
    with pairs_file.open("a", encoding="utf-8") as file:
        file.write(f"{'abcdefgh ' * 20},short,slightly,x\n")
    answer = gradate("check", pairs_file, "--scale", SCALE, "--model", plain_model, "--json")
    assert (answer.code, answer.json["truncated"]) == (0, 1)


def test_for_people_long_lists_are_cut_and_counted(gradate, pairs_file):
    with pairs_file.open("a", encoding="utf-8") as file:
        file.writelines(f"text {number},,highly,x\n" for number in range(25))
    answer = gradate("check", pairs_file, "--scale", SCALE)
    assert answer.code == 3
    assert answer.out.count("text2 is empty") == 20
    assert "5 more" in answer.err


def test_names_need_a_declared_order(gradate, pairs_file):
    answer = gradate("check", pairs_file)
    assert answer.code == 2
    assert "--scale" in answer.err


@pytest.mark.parametrize("missing", ["pairs", "against", "data"])
def test_a_missing_file_is_named(missing, gradate, pairs_file, tmp_path):
    gone = tmp_path / "gone.csv"
    arguments = {"pairs": [gone], "against": [pairs_file, "--against", gone], "data": [pairs_file, "--data", gone]}
    answer = gradate("check", *arguments[missing], "--scale", SCALE)
    assert answer.code == 2
    assert str(gone) in answer.err
