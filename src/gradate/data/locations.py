"""Where data lies: a folder in SentEval's layout, retrieval sets and named files, by `--data` and `GRADATE_DATA`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradate.errors import InputError

ENVIRONMENT_VARIABLE = "GRADATE_DATA"
LAYOUT = "STS/STS12-en-test/STS.input.MSRpar.txt, STS/STSBenchmark/sts-train.csv, SICK/SICK_train.txt, …"
NAMES = (
    "nli",
    "nli-dev",
    "nli-triplets",
    "prompt-responses",
    "sentences",
    "sts-corpus",
    "sts-positives",
    "stsb",
    "stsb-dev",
    "stsb-test",
    "sickr",
    "sickr-trial",
    "sickr-test",
    "sts-dev-clean",
    "stsb-dev-clean",
    "sick-trial-clean",
    "starter",
    "starter-dev",
    "starter-test",
)
RETRIEVAL_PREFIX = "beir/"
RETRIEVAL_SETS = ("scifact", "cranfield")
"""Retrieval sets known by their bare name; any other is called `beir/<set>`."""
RETRIEVAL_LAYOUT = "corpus.jsonl, queries.jsonl and qrels/test.tsv"


@dataclass(frozen=True)
class DataLocations:
    """Places to read data from.

    Args:
        senteval: Folder in SentEval's layout; None reads the STS sets from the Hub.
        named: File or folder of each named source; a retrieval set is called `beir/<set>`.
    """

    senteval: Path | None = None
    named: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def resolve(cls, values: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> DataLocations:
        """Read `--data` values, then those of `GRADATE_DATA`, which stand behind them.

        Args:
            values: Each a folder in SentEval's layout, a retrieval set, a folder of such sets, or `NAME=PATH`.
            environ: Environment that may hold `GRADATE_DATA`, the same values joined by the path separator.

        Raises:
            InputError: a path is missing, a folder has another layout, a name is unknown, or two values of one
                place contradict each other.
        """
        variable = [value for value in environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if value.strip()]
        given = cls._read(values or (), "--data")
        default = cls._read(variable, ENVIRONMENT_VARIABLE)
        return cls(given.senteval or default.senteval, {**default.named, **given.named})

    @classmethod
    def _read(cls, values: Iterable[str], where: str) -> DataLocations:
        senteval: Path | None = None
        named: dict[str, Path] = {}
        for value in values:
            name, path = _split_value(value.strip(), where)
            places = _retrieval_sets(path) if name is None else {name: path}
            if not places or (name is None and _has_layout(path)):
                folder = _layout_root(path, where)
                if senteval not in (None, folder):
                    raise InputError(
                        f"two folders in SentEval's layout, {senteval} and {folder}", where=where, remedy="give one"
                    )
                senteval = folder
            for source, place in places.items():
                if named.get(source, place) != place:
                    what = f"two places for {source}, {named[source]} and {place}"
                    raise InputError(what, where=where, remedy="give one")
                named[source] = place
        return cls(senteval, named)


def _split_value(value: str, where: str) -> tuple[str | None, Path]:
    name, separator, rest = value.partition("=")
    whole = Path(value).expanduser()
    if not separator or whole.exists():
        return None, whole
    if name in RETRIEVAL_SETS:
        name = f"{RETRIEVAL_PREFIX}{name}"
    if name not in NAMES and not (name.startswith(RETRIEVAL_PREFIX) and len(name) > len(RETRIEVAL_PREFIX)):
        close = difflib.get_close_matches(name, (*NAMES, *RETRIEVAL_SETS), n=1)
        raise InputError(
            f"no source is called {name!r}",
            where=f"{where} {value}",
            remedy=f"did you mean {close[0]!r}?"
            if close
            else f"names are {', '.join((*NAMES, *RETRIEVAL_SETS))} and beir/<set>",
        )
    path = Path(rest).expanduser()
    if not rest or not path.exists():
        expected = f"{'a folder' if name.startswith(RETRIEVAL_PREFIX) else 'a file'} of {name} data was expected"
        raise InputError("no such file or folder", where=f"{where} {value}", remedy=expected)
    return name, path


def _retrieval_sets(path: Path) -> dict[str, Path]:
    """Retrieval sets by name: the one this folder is, or those it holds."""
    if _is_retrieval_set(path):
        return {f"{RETRIEVAL_PREFIX}{path.resolve().name}": path}
    inner = sorted(path.iterdir()) if path.is_dir() else []
    return {f"{RETRIEVAL_PREFIX}{folder.name}": folder for folder in inner if _is_retrieval_set(folder)}


def _layout_root(path: Path, where: str) -> Path:
    if not path.exists():
        raise InputError(
            "no such folder", where=f"{where} {path}", remedy=f"a folder in SentEval's layout was expected: {LAYOUT}"
        )
    if not path.is_dir():
        raise InputError(
            "is a file, a folder in SentEval's layout was expected",
            where=f"{where} {path}",
            remedy=f"name a file's source, for instance nli={path}",
        )
    for root in (path, path / "downstream", path / "data" / "downstream"):
        if _has_layout(root):
            return root
    inner = next((child for child in sorted(path.iterdir()) if _has_layout(child)), None)
    raise InputError(
        f"is no folder in SentEval's layout: neither STS nor SICK is in it, expected {LAYOUT}",
        where=f"{where} {path}",
        remedy=f"did you mean {inner}?"
        if inner
        else f"give the folder that holds STS and SICK, or for retrieval {RETRIEVAL_LAYOUT}",
    )


def _has_layout(path: Path) -> bool:
    return (path / "STS").is_dir() or (path / "SICK").is_dir()


def _is_retrieval_set(path: Path) -> bool:
    return (path / "corpus.jsonl").is_file()
