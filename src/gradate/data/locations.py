"""Where data lies: a folder in SentEval's layout and named files, from `--data` and `GRADATE_DATA`."""

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
_RETRIEVAL_PREFIX = "beir/"


@dataclass(frozen=True)
class DataLocations:
    """Places to read data from.

    Args:
        senteval: Folder in SentEval's layout; None reads the STS sets from the Hub.
        named: File or folder of each named source.
    """

    senteval: Path | None = None
    named: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def resolve(cls, values: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> DataLocations:
        """Read `--data` values, then those of `GRADATE_DATA`, which stand behind them.

        Args:
            values: Each a folder in SentEval's layout or `NAME=PATH`.
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
            if name is None:
                folder = _layout_root(path, where)
                if senteval not in (None, folder):
                    raise InputError(
                        f"two folders in SentEval's layout, {senteval} and {folder}", where=where, remedy="give one"
                    )
                senteval = folder
            else:
                if named.get(name, path) != path:
                    what = f"two places for {name}, {named[name]} and {path}"
                    raise InputError(what, where=where, remedy="give one")
                named[name] = path
        return cls(senteval, named)


def _split_value(value: str, where: str) -> tuple[str | None, Path]:
    name, separator, rest = value.partition("=")
    whole = Path(value).expanduser()
    if not separator or whole.exists():
        return None, whole
    if name not in NAMES and not (name.startswith(_RETRIEVAL_PREFIX) and len(name) > len(_RETRIEVAL_PREFIX)):
        close = difflib.get_close_matches(name, NAMES, n=1)
        raise InputError(
            f"no source is called {name!r}",
            where=f"{where} {value}",
            remedy=f"did you mean {close[0]!r}?" if close else f"names are {', '.join(NAMES)} and beir/<set>",
        )
    path = Path(rest).expanduser()
    if not rest or not path.exists():
        expected = f"{'a folder' if name.startswith(_RETRIEVAL_PREFIX) else 'a file'} of {name} data was expected"
        raise InputError("no such file or folder", where=f"{where} {value}", remedy=expected)
    return name, path


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
        remedy=f"did you mean {inner}?" if inner else "give the folder that holds STS and SICK",
    )


def _has_layout(path: Path) -> bool:
    return (path / "STS").is_dir() or (path / "SICK").is_dir()
