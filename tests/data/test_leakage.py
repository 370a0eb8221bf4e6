from __future__ import annotations

import numpy as np

from gradate.data.examples import Pairs
from gradate.data.leakage import drop_leaks, find_leaks, pair_keys
from gradate.scale import LabelScale

TESTS = {"one": [("a b", "c"), ("d", "d")], "two": [("c", "a b"), ("E", "f")]}
TRAIN = [("a b", "c"), ("f", "E"), ("A  b ", "C"), ("F", "e"), ("d", "d"), ("x", "c"), ("c", "a b")]


def _pairs() -> Pairs:
    first, second = ([pair[side] for pair in TRAIN] for side in (0, 1))
    return Pairs(first, second, np.zeros(7), LabelScale.continuous(0, 1), rows=np.arange(2, 9))


def test_each_leak_is_counted_once_under_its_strictest_kind() -> None:
    leaks = find_leaks(TRAIN, TESTS)
    assert (leaks.exact, leaks.swapped, leaks.folded) == (3, 1, 2)
    assert [(leak.kind, leak.test) for leak in leaks.found] == [
        ("exact", "one"),
        ("swapped", "two"),
        ("folded", "one"),
        ("folded", "two"),
        ("exact", "one"),
        ("exact", "two"),
    ]
    assert leaks.index.tolist() == [0, 1, 2, 3, 4, 6] and leaks.rows == (1, 2, 3, 4, 5, 7)


def test_rows_are_those_of_the_file() -> None:
    assert find_leaks(_pairs(), TESTS).rows == (2, 3, 4, 5, 6, 8)


def test_one_test_set_needs_no_name() -> None:
    assert find_leaks(TRAIN, [("a b", "c")]).found[0].test == "the test set"
    assert find_leaks(TRAIN, _pairs()).exact == 7 and find_leaks(TRAIN, _pairs()).found[0].test == "pairs"


def test_no_tests_no_leaks() -> None:
    assert find_leaks(TRAIN, {}).found == () and find_leaks(TRAIN, {}).index.tolist() == []


def test_drop_leaks_uses_exact_strings_in_either_order() -> None:
    kept, removed = drop_leaks(_pairs(), TESTS)
    assert removed == 4 and list(zip(kept.text1, kept.text2, strict=True)) == [TRAIN[2], TRAIN[3], TRAIN[5]]
    assert kept.notes == ("4 of 7 pairs left out: they stand in one, two",)
    assert drop_leaks(kept, TESTS)[1] == 0 and drop_leaks(kept, TESTS)[0].notes == kept.notes


def test_keys_ignore_order() -> None:
    assert pair_keys([("b", "A"), ("A", "b")]) == [("A", "b")] * 2
    assert pair_keys([("B ", "a")], folded=True) == [("a", "b")]
