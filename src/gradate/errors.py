"""What gradate raises: one line that says what, where and how to go on."""

from __future__ import annotations


class GradateError(Exception):
    """Anything gradate refuses or cannot finish; the command line turns it into one line and `exit_code`."""

    exit_code = 1


class InputError(GradateError, ValueError):
    """Bad input or bad usage: names the place, the value and the remedy.

    Args:
        what: What is wrong, without a final full stop.
        where: The place: a file, `file:row`, or a recipe key.
        remedy: What to do about it.

    >>> str(InputError("grade 7 is off the scale 0..5", where="a.csv:3", remedy="fix the row or pass --scale 0..7"))
    'a.csv:3: grade 7 is off the scale 0..5 (fix the row or pass --scale 0..7)'
    """

    exit_code = 2

    def __init__(self, what: str, *, where: object = None, remedy: str | None = None) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        place = f"{where}: " if where is not None else ""
        hint = f" ({remedy})" if remedy else ""
        super().__init__(f"{place}{what}{hint}")


class MissingHeadError(InputError):
    """A prediction was asked of a model that has no pair head."""


class TrainingStopped(GradateError):
    """Training stopped itself, for instance because the loss became NaN."""


class Interrupted(GradateError):
    """The user or the system asked to stop; a checkpoint was written."""

    exit_code = 130
