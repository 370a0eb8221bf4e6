"""STS-B and SICK as graded pairs: the official parts, the paper's filtered corpus, the leak-free selection set."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from gradate.data.benchmarks import Benchmark, layout_folder, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.leakage import drop_leaks
from gradate.data.locations import DataLocations
from gradate.data.sts_files import read_sick, read_stsb
from gradate.scale import LabelScale

STSB_SCALE = LabelScale.continuous(0, 5)
SICK_SCALE = LabelScale.continuous(1, 5)
CORPUS_COUNTS = {"stsb": 991, "sick": 4407}


@dataclass(frozen=True)
class StsCorpus:
    """The training corpus of the paper.

    Args:
        pairs: The pairs that stand in no test set, STS-B first, on the scale 0..5; SICK is mapped to it by 5(z-1)/4.
        sources: Origin of each pair, `stsb` or `sick`.
        removed: Pairs left out because they stand in a test set.
    """

    pairs: Pairs
    sources: tuple[str, ...]
    removed: int

    @property
    def stsb(self) -> int:
        """Pairs from STS-B."""
        return self.sources.count("stsb")

    @property
    def sick(self) -> int:
        """Pairs from SICK."""
        return self.sources.count("sick")

    @property
    def total(self) -> int:
        """All pairs."""
        return len(self.pairs)


def official_pairs(name: str, locations: DataLocations) -> Pairs:
    """An official part of STS-B (0..5) or SICK (1..5).

    Args:
        name: `stsb`, `stsb-dev`, `stsb-test`, `sickr`, `sickr-trial` or `sickr-test`.
        locations: Where the data lies.

    Raises:
        InputError: the file is missing, broken or of another length than the official one.
    """
    folder = layout_folder(locations)
    corpus, _, part = name.partition("-")
    scored = (read_stsb if corpus == "stsb" else read_sick)(folder, part or "train")
    scale = STSB_SCALE if corpus == "stsb" else SICK_SCALE
    return Pairs(scored.text1, scored.text2, scored.gold, scale, rows=scored.rows, name=name)


def build_sts_corpus(locations: DataLocations, benchmark: Benchmark | None = None) -> StsCorpus:
    """STS-B and SICK training pairs without those that stand in one of the seven test sets.

    A pair is left out if the same two strings, in either order, stand in a test set, whatever the grade. Grades stay
    real-valued. Other counts than the published 991 + 4,407 are warned about.

    Args:
        locations: Where the data lies.
        benchmark: The seven test sets, where they were read already.

    Raises:
        InputError: a file is missing, broken or of another length than the official one.

    Source: Zhang & Li (2024), appendix A.
    """
    tests = (benchmark or load_seven_sts(locations)).text_pairs()
    parts, sources, removed = [], [], 0
    for source, name in (("stsb", "stsb"), ("sick", "sickr")):
        kept, dropped = drop_leaks(official_pairs(name, locations), tests)
        parts.append(replace(kept, grades=kept.scale.rescale(kept.grades, STSB_SCALE), scale=STSB_SCALE))
        sources += [source] * len(kept)
        removed += dropped
        if len(kept) != CORPUS_COUNTS[source]:
            published = f"the published corpus has {CORPUS_COUNTS[source]:,}"
            warnings.warn(f"{len(kept):,} {source} pairs stand in no test set, {published}", stacklevel=2)
    pairs = Pairs.concatenate(parts, "sts-corpus").with_notes("sickr: grades mapped from 1..5 to 0..5 by 5(z-1)/4")
    return StsCorpus(pairs, tuple(sources), removed)


def load_dev_clean(locations: DataLocations, benchmark: Benchmark | None = None) -> dict[str, Pairs]:
    """The selection set: STS-B dev and SICK trial pairs that stand in no test set, each on its own scale.

    Its notes count the sentences that stand in the tests all the same, in other pairs.

    Args:
        locations: Where the data lies.
        benchmark: The seven test sets, where they were read already.

    Raises:
        InputError: a file is missing, broken or of another length than the official one.
    """
    tests = (benchmark or load_seven_sts(locations)).text_pairs()
    test_texts = {text for pairs in tests.values() for pair in pairs for text in pair}
    parts = {}
    for name, source in (("stsb-dev-clean", "stsb-dev"), ("sick-trial-clean", "sickr-trial")):
        kept, _ = drop_leaks(official_pairs(source, locations), tests)
        texts = kept.texts()
        shared = sum(text in test_texts for text in texts)
        note = f"{shared:,} of its {len(texts):,} distinct sentences stand in the tests, in other pairs"
        parts[name] = replace(kept, name=name).with_notes(note)
    return parts


def dev_clean_pairs(locations: DataLocations, benchmark: Benchmark | None = None) -> Pairs:
    """The selection set as one set of pairs on the scale 0..5; see `load_dev_clean` for its two parts."""
    parts = [
        replace(part, grades=part.scale.rescale(part.grades, STSB_SCALE), scale=STSB_SCALE)
        for part in load_dev_clean(locations, benchmark).values()
    ]
    return Pairs.concatenate(parts, "sts-dev-clean")
