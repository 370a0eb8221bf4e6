from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradate.data.examples import Pairs
from gradate.data.leakage import fold
from gradate.data.split import split_pairs
from gradate.errors import InputError
from gradate.scale import LabelScale

SCALE = LabelScale.from_values([0, 1, 2, 3])


def _pairs(texts: list[tuple[str, str]], seed: int = 0) -> Pairs:
    grades = np.random.default_rng(seed).integers(0, 4, len(texts)).astype(float)
    return Pairs([a for a, _ in texts], [b for _, b in texts], grades, SCALE, rows=np.arange(len(texts)))


def _texts(pairs: Pairs) -> set[str]:
    return {fold(text) for text in pairs.texts()}


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 120), st.integers(2, 200), st.integers(0, 5))
def test_parts_are_whole_disjoint_and_not_empty(n: int, vocabulary: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = _pairs([(f"a{i}", f"b{j}") for i, j in rng.integers(0, vocabulary, (n, 2))])
    split = split_pairs(pairs, seed=seed)
    parts = (split.train, split.dev, split.test)
    rows = np.concatenate([part.rows for part in parts if part.rows is not None])
    assert sorted(rows.tolist()) == list(range(n)) and all(len(part) for part in parts)
    assert len(split.train) >= len(split.dev) and len(split.train) >= len(split.test)
    if any("stay together" in note for note in split.notes):
        assert not _texts(split.train) & (_texts(split.dev) | _texts(split.test))
        assert not _texts(split.dev) & _texts(split.test)
    else:
        assert any("the split is by pair" in note for note in split.notes)


def test_sizes_and_grades_follow_the_shares() -> None:
    pairs = _pairs([(f"question {i // 4}", f"answer {i}") for i in range(1000)])
    split = split_pairs(pairs, seed=3)
    assert [len(split.train), len(split.dev), len(split.test)] == pytest.approx([800, 100, 100], abs=6)
    shares = [np.bincount(part.grades.astype(int), minlength=4) / len(part) for part in (split.train, split.test)]
    assert np.abs(shares[0] - shares[1]).max() < 0.06
    assert split.notes[0].startswith("split 80/10/10 with seed 3: train ")


def test_a_seed_decides_the_split() -> None:
    pairs = _pairs([(f"a{i}", f"b{i}") for i in range(60)])
    first, again, other = (split_pairs(pairs, seed=seed).test.fingerprint() for seed in (1, 1, 2))
    assert first == again != other


def test_texts_that_differ_in_case_and_blanks_only_stay_together() -> None:
    pairs = _pairs([(f"Question {i // 2}" if i % 2 else f"question  {i // 2} ", f"b{i}") for i in range(40)])
    split = split_pairs(pairs, seed=0)
    assert not _texts(split.train) & (_texts(split.dev) | _texts(split.test))


def test_where_everything_hangs_together_the_split_is_by_pair() -> None:
    texts = [("hub", f"b{i}") for i in range(50)]
    split = split_pairs(_pairs(texts + [(b, a) for a, b in texts]), seed=0)
    assert any("100 of 100 pairs hang together" in note for note in split.notes)
    keys = [{frozenset(p) for p in zip(s.text1, s.text2, strict=True)} for s in (split.train, split.dev, split.test)]
    assert not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]


def test_one_pair_over_and_over_is_still_split() -> None:
    split = split_pairs(_pairs([("a", "b")] * 12), seed=0)
    assert len(split.dev) == len(split.test) == 1
    assert any("parts share pairs too" in note for note in split.notes)


def test_a_continuous_scale_is_stratified_by_quantiles() -> None:
    grades = np.linspace(0, 5, 500) ** 2 / 5
    pairs = Pairs([f"a{i}" for i in range(500)], [f"b{i}" for i in range(500)], grades, LabelScale.continuous(0, 5))
    split = split_pairs(pairs, seed=0)
    assert abs(np.median(split.train.grades) - np.median(split.test.grades)) < 0.25


def test_a_part_without_share_is_empty() -> None:
    split = split_pairs(_pairs([(f"a{i}", f"b{i}") for i in range(40)]), seed=0, fractions=(0.9, 0.0, 0.1))
    assert len(split.dev) == 0 and len(split.test) == 4 and len(split.train) == 36


def test_too_few_pairs_and_wrong_shares_are_refused() -> None:
    with pytest.raises(InputError, match=r"9 pairs are too few .*--dev and --test"):
        split_pairs(_pairs([(f"a{i}", f"b{i}") for i in range(9)]), seed=0)
    pairs = _pairs([(f"a{i}", f"b{i}") for i in range(10)])
    for shares in ((0.8, 0.1, 0.2), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (float("nan"), 0.1, 0.1)):
        with pytest.raises(InputError, match="must sum to 1"):
            split_pairs(pairs, seed=0, fractions=shares)
