"""`gradate compare` through its entry point."""

from __future__ import annotations

from tests.graded import graded_pairs, write_csv
from tests.tiny import tiny_encoder


def test_two_models_on_a_file(gradate, plain_model, tmp_path):
    other = tmp_path / "other"
    tiny_encoder(other, seed=3)
    file = write_csv(tmp_path / "letters.csv", graded_pairs(40))
    plot = tmp_path / "plot.svg"
    answer = gradate("compare", plain_model, other, "--pairs", file, "--resamples", 20, "--plot", plot, "--json")
    assert answer.code == 0 and plot.is_file()
    assert answer.json["average"].keys() >= {"difference", "low", "high", "p"}
    assert answer.json["tasks"]["letters"]["williams"].keys() == {"t", "df", "p"}
    shown = gradate("compare", plain_model, other, "--pairs", file, "--resamples", 20)
    assert "average" in shown.out and "Williams" in shown.out


def test_bad_input_is_one_line(gradate, plain_model, tmp_path):
    for arguments in (
        ("compare", plain_model),
        ("compare", plain_model, tmp_path / "nothing"),
        ("compare", plain_model, plain_model, "--benchmark", "other"),
        ("compare", plain_model, plain_model, "--plot", "a.gif"),
        ("compare", plain_model, plain_model, "--benchmark", "seven-sts", "--pairs", "a.csv"),
    ):
        answer = gradate(*arguments)
        assert answer.code == 2 and answer.err.count("\n") == 1, arguments
