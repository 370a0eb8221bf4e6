from __future__ import annotations

import json

import pytest

from gradate.cli.output import facts, open_output, table


def test_without_json_the_result_is_for_people_and_notes_go_to_stderr(capsys):
    with open_output(False) as output:
        output.note("scale inferred: 0..5")
        output.result({"average": 78.87}, table(("task", "spearman"), [("STS12", 72.3711), ("STS13", None)]))
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [["task", "spearman"], ["STS12", "72.37"], ["STS13", "–"]]
    assert err == "scale inferred: 0..5\n"


def test_with_json_people_read_stderr(capsys):
    with open_output(True) as output:
        print("stray")
        output.result({"average": 78.87}, "shown")
        print("stray")
    out, err = capsys.readouterr()
    assert json.loads(out) == {"average": 78.87}
    assert err == "stray\nshown\nstray\n"


def test_stdout_is_given_back_after_an_error(capsys):
    with pytest.raises(RuntimeError), open_output(True):
        raise RuntimeError
    print("back")
    assert capsys.readouterr().out == "back\n"


def test_quiet_leaves_out_everything_but_the_result(capsys):
    with open_output(True, quiet=True) as output:
        output.note("a note")
        output.result([1], "shown")
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ([1], "")


def test_a_nan_never_becomes_json(capsys):
    with pytest.raises(ValueError, match="JSON"), open_output(True) as output:
        output.result({"spearman": float("nan")})
    assert capsys.readouterr().out == ""


def test_nothing_is_taken_for_markup_and_paths_are_not_wrapped(capsys):
    path = "runs/" + "long/" * 60 + "[bold]model[/bold] :smile:"
    with open_output(False) as output:
        output.result({}, facts({"model": path}))
    assert capsys.readouterr().out == f"model   {path}\n"


def test_no_progress_off_a_terminal():
    with open_output(False) as output:
        assert not output.progress
