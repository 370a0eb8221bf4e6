from __future__ import annotations

import gzip
import json
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradate.data.locations import NAMES, DataLocations
from gradate.data.sources import (
    SOURCES,
    build_sts_corpus,
    load_dev_clean,
    load_nli,
    load_source,
    load_starter,
)
from gradate.errors import InputError
from gradate.scale import LabelScale
from tests.hub_download import FakeHub, use_hub
from tests.senteval_layout import LEAKED

# The made-up layout has its own fingerprint and counts, which is warned about and not the point of these tests.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def here(layout: Path) -> DataLocations:
    return DataLocations(layout)


def test_every_source_can_be_placed_with_data() -> None:
    assert set(SOURCES) <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "n", "scale"),
    [
        ("stsb", 5749, "0..5"),
        ("stsb-dev", 1500, "0..5"),
        ("stsb-test", 1379, "0..5"),
        ("sickr", 4500, "1..5"),
        ("sickr-trial", 500, "1..5"),
        ("sickr-test", 4927, "1..5"),
        ("sts-corpus", 5749 + 4500 - 60, "0..5"),
        ("sts-dev-clean", 1500 + 500 - 40, "0..5"),
        ("stsb-dev-clean", 1470, "0..5"),
        ("sick-trial-clean", 490, "1..5"),
    ],
)
def test_official_parts(here: DataLocations, name: str, n: int, scale: str) -> None:
    pairs = load_source(name, here)
    assert (len(pairs), str(pairs.scale), pairs.name) == (n, scale, name)


def test_corpus_drops_test_pairs_in_either_order_and_rescales(here: DataLocations) -> None:
    with pytest.warns(UserWarning, match="the published corpus has 991"):
        corpus = build_sts_corpus(here)
    assert (corpus.stsb, corpus.sick) == (5749 - LEAKED["stsb-train"], 4500 - LEAKED["sick-train"])
    assert corpus.total == len(corpus.sources) == corpus.stsb + corpus.sick and corpus.removed == 60
    assert not any(text.startswith("STS13") for text in corpus.pairs.texts())
    sick = corpus.pairs.select(np.array(corpus.sources) == "sick")
    assert sick.text1[0] == '"sick train first 20' and sick.grades[:2].tolist() == pytest.approx([2.5, 2.625])
    assert (corpus.pairs.grades.min(), corpus.pairs.grades.max()) == (0, 5)


def test_selection_set_reports_its_sentence_overlap(here: DataLocations) -> None:
    parts = load_dev_clean(here)
    assert {name: len(pairs) for name, pairs in parts.items()} == {"stsb-dev-clean": 1470, "sick-trial-clean": 490}
    notes = parts["stsb-dev-clean"].notes
    assert notes[0].startswith("30 of 1,500 pairs left out: they stand in STS12, ")
    assert notes[1] == "0 of its 2,940 distinct sentences stand in the tests, in other pairs"


def test_official_corpus_in_both_forms(raw_data: Path, senteval_data: Path) -> None:
    for folder in (raw_data, senteval_data):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            corpus = build_sts_corpus(DataLocations(folder))
        assert (corpus.stsb, corpus.sick, corpus.total, corpus.removed) == (991, 4407, 5398, 4851)
        assert int((corpus.pairs.grades >= 4.0).sum()) == 1543
        assert len(set(zip(corpus.pairs.text1, corpus.pairs.text2, strict=True))) == 5378
        parts = load_dev_clean(DataLocations(folder))
        assert [len(pairs) for pairs in parts.values()] == [369, 491]


def test_official_nli(raw_data: Path, shared_data: Path) -> None:
    pairs = load_nli(DataLocations(raw_data, {"nli": shared_data / "nli.tsv.gz"}))
    assert len(pairs) == 113_753 and pairs.notes[-1] == (
        "113,754 training pairs, 1 left out because they stand in one of the seven tests"
    )
    assert Counter(pairs.grades.tolist()) == {0: 38333, 1: 38044, 2: 37376}


# NLI


def _nli(folder: Path, *lines: str) -> Path:
    path = folder / "nli.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(("split\tpremise\thypothesis\tlabel", *lines)).encode()))
    return path


def test_nli_from_a_file(layout: Path, tmp_path: Path) -> None:
    path = _nli(
        tmp_path,
        'train\t"a\tb\tentailment',
        "dev\tc\td\tneutral",
        "train\te\tf\tcontradiction",
        "train\tSTS13 FNWN second 1\tSTS13 FNWN first 1\tneutral",
    )
    pairs = load_source("nli", DataLocations(layout, {"nli": path}))
    assert pairs.text1 == ['"a', "e"] and pairs.grades.tolist() == [2, 0]
    assert str(pairs.scale) == "contradiction,neutral,entailment"
    assert pairs.notes[-2] == "1 row left out: split is not train" and pairs.notes[-1].startswith(
        "3 training pairs, 1 left"
    )


def test_nli_labels_are_names_never_numbers(layout: Path, tmp_path: Path) -> None:
    path = _nli(tmp_path, "train\ta\tb\t0", "train\tc\td\t2")
    with pytest.raises(InputError, match=r"nli\.tsv\.gz:2: the label is the number 0.*write the names"):
        load_source("nli", DataLocations(layout, {"nli": path}))


def _hub_nli(names: list[str] | None) -> bytes:
    table = pa.table({"premise": list("abcd"), "hypothesis": list("wxyz"), "label": [0, 1, 2, -1]})
    if names is not None:
        features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("names", [["entailment", "neutral", "contradiction"], None])
def test_nli_from_the_hub_maps_ids_by_name(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str] | None
) -> None:
    file = "pair-class/train-00000-of-00001.parquet"
    with FakeHub({"datasets/sentence-transformers/all-nli": {file: _hub_nli(names)}}) as hub:
        use_hub(monkeypatch, hub.endpoint, tmp_path)
        with pytest.warns(UserWarning, match="4 rows, 942,069 were expected"):
            pairs = load_source("nli", DataLocations(layout))
    assert pairs.text1 == ["a", "b", "c"] and pairs.grades.tolist() == [2, 1, 0]
    assert any("1 row left out (grade 1)" in note for note in pairs.notes)


# Starter, files, names


@pytest.mark.parametrize(("name", "least"), [("starter", 500), ("starter-dev", 50), ("starter-test", 200)])
def test_starter_set_is_in_the_package(name: str, least: int) -> None:
    pairs = load_source(name, DataLocations())
    assert len(pairs) >= least and pairs.name == name and pairs.scale.names is not None
    assert set(pairs.grades.tolist()) == {0, 1, 2, 3}


def test_a_missing_starter_set_is_said() -> None:
    with pytest.raises(InputError, match="the starter set is not in this installation"):
        load_starter("nowhere")


def test_files_by_path_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("q,d,y\na,b,1.5\nc,d,4\n")
    pairs = load_source(str(path), DataLocations(), scale=LabelScale.continuous(0, 5), columns="q,d,y")
    assert pairs.name == "mine" and pairs.grades.tolist() == [1.5, 4]
    placed = load_source("stsb", DataLocations(None, {"stsb": path}), columns="q,d,y")
    assert placed.name == "stsb" and str(placed.scale) == "0..5"
    with pytest.raises(InputError, match="no such file"):
        load_source("nowhere.csv", DataLocations())


def test_a_named_source_keeps_its_scale_and_columns(here: DataLocations) -> None:
    assert len(load_source("stsb-dev", here, scale=LabelScale.continuous(0, 5))) == 1500
    with pytest.raises(InputError, match=r"--scale: the source stsb has its own columns and the scale 0\.\.5"):
        load_source("stsb", here, scale=LabelScale.continuous(0, 1))
    with pytest.raises(InputError, match="--columns: the source stsb"):
        load_source("stsb", here, columns="a,b,c")


def test_unknown_names_say_the_nearest() -> None:
    with pytest.raises(InputError, match=r"starter-tets: no such source or file \(did you mean 'starter-test'\?\)"):
        load_source("starter-tets", DataLocations())
    with pytest.raises(InputError, match="sources are sts-corpus, stsb, "):
        load_source("zzz", DataLocations())
    for name in ("sentences", "nli-triplets", "beir/scifact"):
        with pytest.raises(InputError, match=f"{name}: this source holds no graded pairs"):
            load_source(name, DataLocations())
