"""Errors say what, where and how to go on, in one line, and carry the exit code of the command line."""

from __future__ import annotations

import pytest

from gradate.errors import GradateError, InputError, Interrupted, MissingHeadError, TrainingStopped


@pytest.mark.parametrize(
    ("where", "remedy", "line"),
    [
        (None, None, "it broke"),
        ("a.csv:3", None, "a.csv:3: it broke"),
        (None, "mend it", "it broke (mend it)"),
        ("a.csv:3", "mend it", "a.csv:3: it broke (mend it)"),
    ],
)
def test_one_line(where: str | None, remedy: str | None, line: str) -> None:
    assert str(InputError("it broke", where=where, remedy=remedy)) == line


def test_exit_codes() -> None:
    assert (GradateError.exit_code, InputError.exit_code, Interrupted.exit_code) == (1, 2, 130)
    assert TrainingStopped.exit_code == 1 and MissingHeadError.exit_code == 2
    assert issubclass(InputError, ValueError), "callers of the library may catch what Python would raise"
