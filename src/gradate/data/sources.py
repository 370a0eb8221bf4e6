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
from gradate.data.contrast import Texts, Triplets, drop_test_texts, drop_test_triplets, triplets_of_classes
from gradate.data.corpus import (
    SICK_SCALE,
    STSB_SCALE,
    StsCorpus,
    build_sts_corpus,
    dev_clean_pairs,
    load_dev_clean,
    official_pairs,
)
from gradate.data.examples import Examples, Pairs
from gradate.data.hub import NLI_FILE, NLI_REPOSITORY, SENTEVAL_REPOSITORY, download
from gradate.data.leakage import drop_leaks
from gradate.data.locations import NAMES, RETRIEVAL_PREFIX, RETRIEVAL_SETS, DataLocations
from gradate.data.prompt_responses import read_prompt_responses
from gradate.data.ranked import Embeddings, RankedRows, ranked_negatives
from gradate.data.readers import RawTable, pairs_from_table, read_pairs, read_rows
from gradate.data.retrieval import load_retrieval
from gradate.data.tables import FORMATS, read_table, text_problem
from gradate.data.texts import read_texts
from gradate.errors import InputError
from gradate.scale import LabelScale

__all__ = [
    "SOURCES",
    "Source",
    "StsCorpus",
    "build_sts_corpus",
    "load_dev_clean",
    "load_examples",
    "load_nli",
    "load_source",
    "load_starter",
]

NLI_SCALE = LabelScale.from_names(["contradiction", "neutral", "entailment"])
STARTER_SCALE = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
# The Hub's data set numbers its classes the other way round; its ids are only ever read as these names.
HUB_NLI_NAMES = ("entailment", "neutral", "contradiction")
HUB_NLI_ROWS = 942_069
PROMPT_RESPONSES = "prompt-responses"
TRIPLETS_FILE, SENTENCES_FILE = "nli_for_simcse.csv", "wiki1m_for_simcse.txt"
TRIPLET_COLUMNS = (("anchor", "positive", "negative"), ("sent0", "sent1", "hard_neg"))
POSITIVE_FROM = 4.0
"""Grade from which on a pair of the STS corpus counts as positive (Zhang & Li 2024, section 4.2)."""
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
    if source is not None and (name in ("nli", "nli-dev") or name not in locations.named):
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
    if name in NAMES or is_retrieval(name):
        raise InputError("this source holds no graded pairs", where=name, remedy=f"choose {_listed()}, or a file")
    close = difflib.get_close_matches(name, SOURCES, n=1)
    raise InputError(
        "no such source or file",
        where=name,
        remedy=f"did you mean {close[0]!r}?" if close else f"sources are {_listed()}, or a {', '.join(FORMATS)} file",
    )


def load_examples(name: str, locations: DataLocations) -> Examples:
    """What a stage trains on: graded pairs as `load_source` finds them, the triplets `nli-triplets`, or `sentences`.

    Raises:
        InputError: no such source or file, or its data cannot be used.
    """
    if name == "nli-triplets":
        return load_triplets(locations)
    if name == "sentences":
        return load_sentences(locations)
    return load_source(name, locations)


def is_retrieval(name: str) -> bool:
    """Whether a source has queries, what answers each, and a corpus that negatives come from."""
    return name in (*RETRIEVAL_SETS, PROMPT_RESPONSES) or name.startswith(RETRIEVAL_PREFIX)


def load_ranked(
    name: str,
    locations: DataLocations,
    *,
    shown: tuple[int, int],
    pool: int,
    skip: int,
    nearest: bool,
    embed: Callable[[list[str]], Embeddings] | None = None,
) -> RankedRows:
    """Training rows of a retrieval set or of prompts with their responses.

    Args:
        name: The set, as in `evaluation.retrieval`, or `prompt-responses`.
        locations: Where the data lies.
        shown: Positives and negatives of a row.
        pool: Negatives kept for each query.
        skip: Nearest ones that are never shown.
        nearest: Show the nearest of the others instead of drawing them.
        embed: Embeddings (n, dim) of n texts, which rank the negatives; None: TF-IDF does.

    Raises:
        InputError: no such set, no training queries, or fewer documents than the pool asks for.
    """
    if name == PROMPT_RESPONSES:
        if name not in locations.named:
            remedy = f"pass a file with --data {name}=FILE"
            raise InputError("no data of this source was given", where=name, remedy=remedy)
        found = read_prompt_responses(locations.named[name])
    else:
        found = load_retrieval(name.removeprefix(RETRIEVAL_PREFIX), locations, "train")
    embeddings = None if embed is None else (embed([*found.queries.values()]), embed([*found.corpus.values()]))
    ranked = ranked_negatives(found, pool=pool, shown=shown, embeddings=embeddings)
    return replace(ranked, skip=skip, nearest=nearest)


def load_triplets(locations: DataLocations) -> Triplets:
    """Premise, what it entails and what it contradicts; none whose first two stand as a pair in the seven test sets.

    A local file of triplets (columns `anchor, positive, negative` or SimCSE's `sent0, sent1, hard_neg`) comes first;
    else triplets are made of a local file of NLI pairs; else SimCSE's file is read from the Hub.

    Raises:
        InputError: the file cannot be used, or there is none and the Hub is out of reach.
    """
    file = locations.named.get("nli-triplets")
    if file is None and "nli" in locations.named:
        triplets = triplets_of_classes(load_nli(locations))
    else:
        remedy = "pass a file with --data nli-triplets=FILE or --data nli=FILE"
        triplets = _read_triplets(file or download(SENTEVAL_REPOSITORY, TRIPLETS_FILE, remedy=remedy))
    tests = [pair for pairs in load_seven_sts(locations).text_pairs().values() for pair in pairs]
    kept = drop_test_triplets(replace(triplets, name="nli-triplets"), tests)
    if not len(kept):
        raise InputError("there are no triplets", where=file or "nli", remedy="give a file that holds some")
    return kept


def load_sentences(locations: DataLocations) -> Texts:
    """Unlabelled sentences, each once, none of which stands in the seven test sets.

    Raises:
        InputError: the file cannot be used, or there is none and the Hub is out of reach.
    """
    file = locations.named.get("sentences")
    remedy = "pass a file with --data sentences=FILE"
    found = read_texts(file or download(SENTEVAL_REPOSITORY, SENTENCES_FILE, remedy=remedy))
    tests = [pair for pairs in load_seven_sts(locations).text_pairs().values() for pair in pairs]
    texts = Texts([text for text in found if text.strip()], "sentences")
    if len(texts) < len(found):
        texts = texts.with_notes(f"{len(found) - len(texts):,} empty lines left out")
    return drop_test_texts(texts, tests)


def _read_triplets(path: Path) -> Triplets:
    table = read_table(path)
    if table.problems:
        raise InputError(table.problems[0].detail, where=f"{path}:{table.problems[0].row}")
    names = next((names for names in TRIPLET_COLUMNS if set(names) <= set(table.header)), None)
    if names is None:
        wanted = " or ".join(", ".join(names) for names in TRIPLET_COLUMNS)
        raise InputError(
            f"no columns of triplets among {', '.join(table.header)}", where=path, remedy=f"name them {wanted}"
        )
    columns = [table.column(table.header.index(name)) for name in names]
    for row, cells in zip(table.rows, zip(*columns, strict=True), strict=True):
        for name, cell in zip(names, cells, strict=True):
            if (problem := text_problem(cell, name)) is not None:
                raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
    anchor, positive, negative = columns
    return Triplets(anchor, positive, negative)


def load_nli(locations: DataLocations, part: str = "train") -> Pairs:
    """Pairs of three-class NLI; of the training part, none that stands in one of the seven test sets.

    A local file's rows count if their `split` is `part` or it has no such column; else the Hub's data set is read,
    which has a training part only.

    Raises:
        InputError: the file cannot be used, or there is none and the Hub is out of reach.
    """
    local = locations.named.get("nli")
    if local is not None:
        table = read_rows(local, only={"split": part})
        _refuse_numbers(table)
    elif part != "train":
        raise InputError(f"there is no file with a {part} part", where="nli", remedy="pass one with --data nli=FILE")
    else:
        table = _hub_nli()
    name = "nli" if part == "train" else f"nli-{part}"
    pairs = pairs_from_table(table, scale=NLI_SCALE, strict=local is not None, name=name)
    if part != "train":
        return pairs
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


def load_positives(locations: DataLocations) -> Pairs:
    """Pairs of the STS corpus with a grade of at least 4: what contrastive learning can use of it.

    Source: Zhang & Li (2024), section 4.2.
    """
    pairs = build_sts_corpus(locations).pairs
    positives = pairs.select(pairs.grades >= POSITIVE_FROM)
    note = f"{len(positives):,} of {len(pairs):,} pairs have a grade of {POSITIVE_FROM:g} or more"
    return replace(positives, name="sts-positives").with_notes(note)


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
        "sts-positives": Source(STSB_SCALE, load_positives),
        "nli": Source(NLI_SCALE, load_nli),
        "nli-dev": Source(NLI_SCALE, partial(load_nli, part="dev")),
        "starter": _starter("train"),
        "starter-dev": _starter("dev"),
        "starter-test": _starter("test"),
    }
)
