"""Interleaved measuring: A B A B …, each system in a process of its own, every measurement kept as it is made."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from benchmarks import machine

VERSION = 1
PRELOADED = ("benchmarks.preload",)


class Measurement(Protocol):
    """What a system's `build` returns: measures one round."""

    def __call__(self, number: int) -> dict[str, Any]:
        """Numbers of round `number`: `seconds` at least."""


@dataclass(frozen=True)
class System:
    """One of the contenders.

    Args:
        name: Key in the results.
        build: Function of a module, called once in the system's own process; it prepares and warms up.
        arguments: What it is called with.
    """

    name: str
    build: Callable[..., Measurement]
    arguments: dict[str, Any] = field(default_factory=dict)


class Results:
    """Measurements of one table, written after each one, so that a run that was stopped goes on.

    Args:
        path: The JSON file.
        table: Name of the table.
        settings: What the measurements depend on; a file with other settings is refused.
        command: Command line to show beside the figures.
        quick: A trial, marked as such.
        fresh: Forget what the file holds.
    """

    def __init__(
        self,
        path: Path,
        table: str,
        settings: dict[str, Any],
        command: str,
        *,
        quick: bool = False,
        fresh: bool = False,
    ) -> None:
        self.path = path
        self.found: dict[str, Any] = {
            "version": VERSION,
            "table": table,
            "quick": quick,
            "command": command,
            "settings": settings,
            "facts": {},
            "sessions": [],
            "measurements": [],
        }
        if path.exists() and not fresh:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if (stored["version"], stored["settings"]) != (VERSION, json.loads(json.dumps(settings))):
                raise SystemExit(f"{path} was measured with other settings; begin anew with --fresh")
            self.found = stored | {"command": command}

    def __enter__(self) -> Results:
        """Begin a session: the machine and its peak."""
        self.found["sessions"].append({**machine.describe(), "peak": None})
        self._renew_peak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The peak once more: the machine may have been busy at the start."""
        if kind is None:
            self._renew_peak()

    @property
    def session(self) -> int:
        """Number of the running session."""
        return len(self.found["sessions"]) - 1

    @property
    def settings(self) -> dict[str, Any]:
        """What the measurements depend on."""
        return dict(self.found["settings"])

    def measurements(self, part: str) -> list[dict[str, Any]]:
        """Measurements of one part of the table."""
        return [m for m in self.found["measurements"] if m["part"] == part]

    def record(self, **facts: Any) -> None:
        """Keep what was counted rather than measured."""
        self.found["facts"] |= facts
        self.write()

    def append(self, part: str, system: str, number: int, values: dict[str, Any]) -> dict[str, Any]:
        """Keep one measurement; it replaces an earlier one of the same part, system and round."""
        kept = [
            m for m in self.found["measurements"] if (m["part"], m["system"], m["round"]) != (part, system, number)
        ]
        measurement = {"part": part, "system": system, "round": number, "session": self.session, **values}
        self.found["measurements"] = [*kept, measurement]
        self.write()
        return measurement

    def write(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.path)

    def _renew_peak(self) -> None:
        session = self.found["sessions"][-1]
        found = machine.peak(machine.SIZES["cpu"][:1]) if self.found["quick"] else machine.peak()
        session["peak"] = machine.better_peak(session["peak"], found)
        self.write()


class Worker:
    """A system, alive in its own process (or, not isolated, in this one) from its first measurement to the end."""

    def __init__(self, system: System, *, isolate: bool) -> None:
        self.system, self.isolate = system, isolate
        self._pool: ProcessPoolExecutor | None = None
        self._here: Measurement | None = None

    def __enter__(self) -> Worker:
        """Nothing starts yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()
        self._here = None

    def measure(self, number: int) -> dict[str, Any]:
        """One round."""
        if not self.isolate:
            self._here = self._here or self.system.build(**self.system.arguments)
            return self._here(number)
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, _context(), _begin, (self.system.build, self.system.arguments))
        return self._pool.submit(_measure, number).result()


def interleave(
    results: Results,
    part: str,
    systems: Sequence[System],
    rounds: int,
    *,
    isolate: bool = True,
    only: Iterable[str] = (),
    keep: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """Measure every system once per round, in the given order, and keep each measurement at once.

    A round in which a chosen system is missing is measured anew from its start, so that all of a round met the same
    machine.

    Args:
        results: Where measurements go.
        part: Part of the table.
        systems: In the order of measuring.
        rounds: How often each is measured in all, earlier sessions included.
        isolate: One process per system; else all here.
        only: Names of the systems to measure; empty: all.
        keep: Turns a raw measurement of a system into what is kept, outside the clock.
    """
    wanted = [s for s in systems if not only or s.name in set(only)]
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(system, isolate=isolate)) for system in wanted]
        for number in missing_rounds(results.measurements(part), [s.name for s in wanted], rounds):
            for worker in workers:
                values = worker.measure(number)
                if keep is not None:
                    values = keep(worker.system.name, values)
                show(part, results.append(part, worker.system.name, number, values))


def missing_rounds(measurements: Sequence[dict[str, Any]], names: Sequence[str], rounds: int) -> list[int]:
    """Rounds in which at least one of the named systems was not measured."""
    done = {(m["system"], m["round"]) for m in measurements}
    return [number for number in range(rounds) if any((name, number) not in done for name in names)]


def show(part: str, measurement: dict[str, Any]) -> None:
    """One line on stderr."""
    numbers = {k: v for k, v in measurement.items() if isinstance(v, (int, float)) and k not in ("round", "session")}
    shown = ", ".join(f"{k} {_short(v)}" for k, v in numbers.items())
    print(f"{part} {measurement['round']}: {measurement['system']}: {shown}", file=sys.stderr, flush=True)


def _short(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# -- inside a system's process ---------------------------------------------------------------------------------------

_system: Measurement | None = None


def _context() -> Any:
    # The server has imported the libraries once; a system's process is forked from it and shares nothing else.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(list(PRELOADED))
    return context


def _begin(build: Callable[..., Measurement], arguments: dict[str, Any]) -> None:
    global _system
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _system = build(**arguments)


def _end_with_parent() -> None:
    """Be gone when the parent is: a stopped run's processes would compute on beside the next run's."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _measure(number: int) -> dict[str, Any]:
    assert _system is not None
    return _system(number)
