"""Named sources of graded pairs: what a recipe means by `nli`, `stsb`, `starter` or a file name."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from gradate.data.benchmarks import load_seven_sts
from gradate.data.corpus import (
    SICK_SCALE,
    STSB_SCALE,
    StsCorpus,
    build_sts_corpus,
    dev_clean_pairs,
    load_dev_clean,
    official_pairs,
)
from gradate.data.examples import Pairs
from gradate.data.hub import NLI_FILE, NLI_REPOSITORY, download
from gradate.data.leakage import drop_leaks
from gradate.data.locations import NAMES, DataLocations
from gradate.data.readers import RawTable, pairs_from_table, read_pairs, read_rows
from gradate.data.tables import FORMATS
from gradate.errors import InputError
from gradate.scale import LabelScale

__all__ = [
    "SOURCES",
    "Source",
    "StsCorpus",
    "build_sts_corpus",
    "load_dev_clean",
    "load_nli",
    "load_source",
    "load_starter",
]

NLI_SCALE = LabelScale.from_names(["contradiction", "neutral", "entailment"])
STARTER_SCALE = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
# The Hub's data set numbers its classes the other way round; its ids are only ever read as these names.
HUB_NLI_NAMES = ("entailment", "neutral", "contradiction")
HUB_NLI_ROWS = 942_069
_STARTER_FOLDER = Path(__file__).parent / "starter"


@dataclass(frozen=True)
class Source:
    """How a named source is read.

    Args:
        scale: The scale of its grades.
        load: Reads it, given where the data lies.
    """

    scale: LabelScale
    load: Callable[[DataLocations], Pairs]


def load_source(
    name: str,
    locations: DataLocations,
    *,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
) -> Pairs:
    """Graded pairs of a named source or a file.

    Args:
        name: One of `SOURCES`, or a file of pairs.
        locations: Where the data lies; a file named there stands in for the source of that name.
        scale: The scale of a file's grades; a named source has its own.
        columns: Names of a file's columns, as for `read_pairs`.

    Raises:
        InputError: no such source or file, or its data cannot be used.
    """
    source = SOURCES.get(name)
    if source is not None and (name == "nli" or name not in locations.named):
        if columns is not None or scale not in (None, source.scale):
            raise InputError(
                f"the source {name} has its own columns and the scale {source.scale}",
                where="--scale" if columns is None else "--columns",
                remedy="leave it out, or name a file instead",
            )
        return source.load(locations)
    if source is not None:
        return replace(read_pairs(locations.named[name], scale=scale or source.scale, columns=columns), name=name)
    path = Path(name).expanduser()
    if path.is_file() or path.name.lower().removesuffix(".gz").endswith(FORMATS):
        return read_pairs(path, scale=scale, columns=columns)
    if name in NAMES or name.startswith("beir/"):
        raise InputError("this source holds no graded pairs", where=name, remedy=f"choose {_listed()}, or a file")
    close = difflib.get_close_matches(name, SOURCES, n=1)
    raise InputError(
        "no such source or file",
        where=name,
        remedy=f"did you mean {close[0]!r}?" if close else f"sources are {_listed()}, or a {', '.join(FORMATS)} file",
    )


def load_nli(locations: DataLocations) -> Pairs:
    """Training pairs of three-class NLI that stand in none of the seven test sets.

    A local file's rows count if their `split` is `train` or it has no such column; else the Hub's data set is read.

    Raises:
        InputError: the file cannot be used, or there is none and the Hub is out of reach.
    """
    local = locations.named.get("nli")
    if local is not None:
        table = read_rows(local, only={"split": "train"})
        _refuse_numbers(table)
    else:
        table = _hub_nli()
    pairs = pairs_from_table(table, scale=NLI_SCALE, strict=local is not None, name="nli")
    kept, removed = drop_leaks(pairs, load_seven_sts(locations).text_pairs())
    note = f"{len(pairs):,} training pairs, {removed:,} left out because they stand in one of the seven tests"
    return replace(kept, notes=(*pairs.notes, note))


def load_starter(part: str) -> Pairs:
    """The starter set that ships with gradate: `train`, `dev` or `test`.

    Raises:
        InputError: this installation lacks the file.
    """
    path = _STARTER_FOLDER / f"{part}.csv"
    if not path.is_file():
        raise InputError("the starter set is not in this installation", where=path, remedy="install gradate again")
    name = "starter" if part == "train" else f"starter-{part}"
    return replace(read_pairs(path, scale=STARTER_SCALE), name=name)


def _hub_nli() -> RawTable:
    path = download(NLI_REPOSITORY, NLI_FILE, remedy="pass a file with --data nli=FILE")
    table = read_rows(path)
    if table.total != HUB_NLI_ROWS:
        warnings.warn(f"{path}: {table.total:,} rows, {HUB_NLI_ROWS:,} were expected", stacklevel=2)
    grades = [HUB_NLI_NAMES[cell] if type(cell) is int and 0 <= cell < 3 else cell for cell in table.grades or []]
    return replace(table, grades=grades)


def _refuse_numbers(table: RawTable) -> None:
    for row, cell in zip(table.rows, table.grades or [], strict=True):
        if isinstance(cell, (int, float)) or str(cell).strip().isdigit():
            raise InputError(
                f"the label is the number {cell}, and data sets number the classes either way",
                where=f"{table.path}:{row}",
                remedy=f"write the names {', '.join(HUB_NLI_NAMES)}",
            )


def _listed() -> str:
    return ", ".join(SOURCES)


def _official(name: str) -> Callable[[DataLocations], Pairs]:
    return partial(official_pairs, name)


def _starter(part: str) -> Source:
    return Source(STARTER_SCALE, lambda _locations: load_starter(part))


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "sts-corpus": Source(STSB_SCALE, lambda locations: build_sts_corpus(locations).pairs),
        **{name: Source(STSB_SCALE, _official(name)) for name in ("stsb", "stsb-dev", "stsb-test")},
        **{name: Source(SICK_SCALE, _official(name)) for name in ("sickr", "sickr-trial", "sickr-test")},
        "sts-dev-clean": Source(STSB_SCALE, dev_clean_pairs),
        "stsb-dev-clean": Source(STSB_SCALE, lambda locations: load_dev_clean(locations)["stsb-dev-clean"]),
        "sick-trial-clean": Source(SICK_SCALE, lambda locations: load_dev_clean(locations)["sick-trial-clean"]),
        "nli": Source(NLI_SCALE, load_nli),
        "starter": _starter("train"),
        "starter-dev": _starter("dev"),
        "starter-test": _starter("test"),
    }
)
