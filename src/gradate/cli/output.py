"""What a verb prints: words and tables for people, one JSON value for machines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.table import Table

PIPE_WIDTH = 119


class Output:
    """The streams of one verb.

    Without `--json` the result goes to stdout. With it stdout carries the JSON value alone, and everything for
    people goes to stderr. Notes and progress always go to stderr.

    Args:
        machine: The stream that takes the JSON value; None without `--json`.
        quiet: Whether notes and progress are left out.

    Attributes:
        notes: Console on stderr.
    """

    def __init__(self, machine: TextIO | None, quiet: bool) -> None:
        self._machine = machine
        self._quiet = quiet
        self.notes = _console(sys.stderr)
        self._result = _console(sys.stderr if machine is not None else sys.stdout)

    @property
    def progress(self) -> bool:
        """Whether progress bars are welcome: stderr is a terminal and nobody asked for quiet."""
        return self.notes.is_terminal and not self._quiet

    def note(self, *lines: str) -> None:
        """Say something beside the result."""
        if not self._quiet:
            for line in lines:
                self.notes.print(line, soft_wrap=True)

    def result(self, value: Mapping[str, Any] | Sequence[Any], *shown: RenderableType) -> None:
        """Give the result: `value` as JSON where `--json` was asked, `shown` for people.

        Raises:
            ValueError: a NaN or an infinity, which JSON does not know.
        """
        if self._machine is None or not self._quiet:
            for part in shown:
                self._result.print(part, soft_wrap=isinstance(part, str))
        if self._machine is not None:
            self._machine.write(json.dumps(value, allow_nan=False, indent=2) + "\n")
            self._machine.flush()


@contextmanager
def open_output(as_json: bool, *, quiet: bool = False) -> Iterator[Output]:
    """Open the streams of one verb; with `as_json` whatever else prints to stdout meanwhile lands on stderr."""
    if not as_json:
        yield Output(None, quiet)
        return
    with _stdout_set_aside() as machine:
        yield Output(machine, quiet)


@contextmanager
def _stdout_set_aside() -> Iterator[TextIO]:
    """Point stdout, the object and the file descriptor, at stderr; yields a stream on the real one."""
    real = sys.stdout
    real.flush()
    try:
        descriptor = real.fileno()
    except (OSError, ValueError):  # an in-memory stream has none
        descriptor = None
    kept = os.dup(descriptor) if descriptor is not None else None
    machine = real if kept is None else os.fdopen(kept, "w", encoding="utf-8")
    try:
        if descriptor is not None:
            os.dup2(sys.stderr.fileno(), descriptor)
        sys.stdout = sys.stderr
        yield machine
    finally:
        sys.stdout = real
        machine.flush()
        if descriptor is not None and kept is not None:
            os.dup2(kept, descriptor)
            machine.close()


def _console(stream: TextIO) -> Console:
    """Plain words: no markup, emoji or colouring of what texts and paths happen to contain."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Table of rows; a column of figures is right-aligned, one that holds words is left-aligned."""
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for position, column in enumerate(columns):
        words = any(isinstance(row[position], str) for row in rows)
        shown.add_column(column, justify="left" if words else "right")
    for row in rows:
        shown.add_row(*map(figure, row))
    return shown


def facts(rows: Mapping[str, object]) -> str:
    """One line for each fact, never wrapped: a path stays whole."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:<{width}}   {figure(value)}" for name, value in rows.items())


def figure(value: object) -> str:
    """One cell: a float with two decimals, nothing as a dash.

    >>> figure(82.0345), figure(None), figure(12)
    ('82.03', '–', '12')
    """
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
