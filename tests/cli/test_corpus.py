from __future__ import annotations

import json

import numpy as np
import pytest

from gradate.data.corpus import STSB_SCALE, StsCorpus
from gradate.data.examples import Pairs


@pytest.fixture
def small_corpus(monkeypatch):
    pairs = Pairs(["a", "b", "c"], ["d", "e", "f"], np.array([5.0, 3.75, 4.0]), STSB_SCALE, notes=("4 left out",))
    corpus = StsCorpus(pairs, ("stsb", "stsb", "sick"), 4)
    monkeypatch.setattr("gradate.data.corpus.build_sts_corpus", lambda locations: corpus)


def test_the_file_holds_all_rows_and_the_json_counts_them(gradate, small_corpus, tmp_path):
    out = tmp_path / "corpus.jsonl"
    answer = gradate("corpus", "sts", "--out", out, "--positives", "4.0", "--json")
    assert answer.code == 0
    expected = {"stsb": 2, "sick": 1, "total": 3, "removed": 4, "positives": 2}
    assert {key: answer.json[key] for key in expected} == expected
    assert "4 left out" in answer.err
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows[1] == {"sentence1": "b", "sentence2": "e", "score": 3.75, "source": "stsb"}
    assert len(rows) == 3


def test_a_former_corpus_is_kept_without_overwrite(gradate, small_corpus, tmp_path):
    out = tmp_path / "corpus.jsonl"
    assert gradate("corpus", "sts", "--out", out).code == 0
    assert gradate("corpus", "sts", "--out", out).code == 2
    assert gradate("corpus", "sts", "--out", out, "--overwrite").code == 0
    assert list(tmp_path.iterdir()) == [out]


def test_missing_data_leaves_no_file(gradate, tmp_path):
    answer = gradate("corpus", "sts", "--data", tmp_path / "gone", "--out", tmp_path / "corpus.jsonl")
    assert answer.code == 2
    assert "gone" in answer.err
    assert list(tmp_path.iterdir()) == []
