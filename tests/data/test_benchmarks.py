from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from gradate.data.benchmarks import SEVEN_STS, Benchmark, load_seven_sts
from gradate.data.locations import DataLocations
from gradate.data.sts_files import STS_YEARS, read_sick, read_sts_subset, read_stsb
from gradate.errors import InputError
from tests.senteval_layout import BLANK_SCORES

OFFICIAL = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STS-B": 1379, "SICK-R": 4927}


def _load(folder: Path) -> Benchmark:
    with pytest.warns(UserWarning, match="which is no published form"):
        return load_seven_sts(DataLocations(folder))


@pytest.fixture
def copy(layout: Path, tmp_path: Path) -> Path:
    return shutil.copytree(layout, tmp_path / "copy")


def test_tasks_subsets_and_rows_stand_in_official_order(layout: Path) -> None:
    benchmark = _load(layout)
    assert tuple(benchmark.tasks) == SEVEN_STS == tuple(OFFICIAL)
    assert {name: len(task) for name, task in benchmark.tasks.items()} == OFFICIAL
    for year, subsets in STS_YEARS.items():
        found = benchmark.tasks[year].subsets
        assert {subset.name: len(subset.gold) for subset in found} == dict(subsets)
    sts13 = benchmark.tasks["STS13"].subsets[0]
    assert sts13.text1[3] == "STS13 FNWN first 3" and sts13.text2[3] == "STS13 FNWN second 3"
    assert sts13.gold[:4].tolist() == [0.0, 0.1, 0.2, 0.3]


def test_blank_scores_are_skipped_and_counted(layout: Path) -> None:
    benchmark = _load(layout)
    for year in ("STS15", "STS16"):
        assert [subset.skipped for subset in benchmark.tasks[year].subsets] == [BLANK_SCORES] * 5
    headlines = benchmark.tasks["STS16"].subsets[1]
    assert headlines.text2[1] == "STS16 headlines second 2" and headlines.gold[1] == 0.2


def test_quotes_licence_columns_and_line_ends(layout: Path) -> None:
    stsb, sick = read_stsb(layout, "test"), read_sick(layout, "test")
    assert stsb.text1[0] == '"stsb test first 0' and stsb.text2[50] == '"stsb test second 50'
    assert sick.text2[7] == '"sick test second 7' and sick.gold[7] == 1.7 and sick.rows[0] == 2


def test_fingerprint_follows_text_and_gold(layout: Path, copy: Path) -> None:
    first = _load(layout).fingerprint()
    assert len(first) == 16 and _load(copy).fingerprint() == first and _load(copy).form == "unknown"
    path = copy / "STS" / "STS12-en-test" / "STS.input.MSRpar.txt"
    path.write_text(path.read_text().replace("first 0\t", "FIRST 0\t"))
    assert _load(copy).fingerprint() != first


def _remove(path: Path) -> None:
    path.unlink()


def _drop_line(path: Path) -> None:
    path.write_text("\n".join(path.read_text().split("\n")[1:]))


def _first_line(line: bytes) -> object:
    return lambda path: path.write_bytes(line + b"\n" + path.read_bytes().split(b"\n", 1)[1])


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("STS/STS14-en-test/STS.input.images.txt", _remove, "no such file .expected STS14 images with 750 scored"),
        ("STS/STS14-en-test/STS.gs.images.txt", _remove, "no such file .expected the gold scores of STS14 images"),
        ("STS/STSBenchmark/sts-test.csv", _remove, "no such file .expected STS-B test with 1,379 pairs"),
        ("SICK/SICK_test_annotated.txt", _remove, "no such file .expected SICK test with 4,927 pairs"),
        ("STS/STS12-en-test/STS.gs.MSRvid.txt", _drop_line, "750 pairs, but 749 scores"),
        ("STS/STS12-en-test/STS.gs.MSRvid.txt", _first_line(b""), "749 scored pairs, the official file has 750"),
        ("STS/STSBenchmark/sts-test.csv", _drop_line, "1,378 scored pairs, the official file has 1,379"),
        ("STS/STS12-en-test/STS.gs.MSRvid.txt", _first_line(b"5,1"), ":1: the score '5,1' is no number from 0 to 5"),
        ("STS/STS12-en-test/STS.gs.MSRvid.txt", _first_line(b"7"), ":1: the score '7' is no number from 0 to 5"),
        ("STS/STS12-en-test/STS.input.MSRvid.txt", _first_line(b"one"), ":1: 1 column in 'one'"),
        ("STS/STS12-en-test/STS.input.MSRvid.txt", _first_line(b"a\t"), ":1: a sentence is empty"),
        ("STS/STS12-en-test/STS.input.MSRvid.txt", _first_line(b"a\tb\xff"), ":1: a sentence is not UTF-8"),
        ("STS/STSBenchmark/sts-test.csv", _first_line(b"a\tb"), ":1: 2 columns .*expected genre, file, year"),
        ("SICK/SICK_test_annotated.txt", _first_line(b"a\tb"), ":1: the header is .*expected sentence_A"),
    ],
)
def test_broken_files_name_path_row_and_expectation(copy: Path, file: str, change: object, message: str) -> None:
    change(copy / file)  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as caught:
        load_seven_sts(DataLocations(copy))
    assert str(copy / file) in str(caught.value)


def test_a_missing_year_is_named(copy: Path) -> None:
    shutil.rmtree(copy / "STS" / "STS15-en-test")
    with pytest.raises(InputError, match=r"STS15-en-test.*no such file .expected STS15 answers-forums with 375"):
        load_seven_sts(DataLocations(copy))


def test_official_files_in_both_forms(raw_data: Path, senteval_data: Path) -> None:
    forms = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for folder in (raw_data, senteval_data):
            benchmark = load_seven_sts(DataLocations(folder))
            forms[benchmark.form] = benchmark
            assert {name: len(task) for name, task in benchmark.tasks.items()} == OFFICIAL
            skipped = {name: sum(s.skipped for s in task.subsets) for name, task in benchmark.tasks.items()}
            assert skipped == {**dict.fromkeys(OFFICIAL, 0), "STS15": 5500, "STS16": 7997}
    assert set(forms) == {"raw", "senteval"}
    gold = [[s.gold for t in b.tasks.values() for s in t.subsets] for b in forms.values()]
    assert all(np.array_equal(a, b) for a, b in zip(*gold, strict=True))
    texts = [text for pairs in forms["raw"].text_pairs().values() for pair in pairs for text in pair]
    assert (len(texts), len(set(texts))) == (37_700, 26_173)


def test_one_subset_alone(layout: Path) -> None:
    pairs = read_sts_subset(layout, "STS16", "headlines")
    assert len(pairs.text1) == 249 and pairs.skipped == BLANK_SCORES and pairs.rows[:3].tolist() == [1, 3, 5]
