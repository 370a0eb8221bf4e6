"""Retrieval measured: as sentence-transformers' evaluator measures it, graded as BEIR grades it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from gradate.data.retrieval import RetrievalSet, read_retrieval
from gradate.errors import InputError
from gradate.evaluation.retrieval import evaluate_retrieval
from gradate.models.graded import GradedModel
from tests.beir import write_beir
from tests.tiny import tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # made-up sets have other counts than published ones


@pytest.fixture(scope="module")
def model() -> GradedModel:
    return GradedModel(tiny_encoder(), precision="fp32")


def _random_set(documents: int = 150, queries: int = 12) -> RetrievalSet:
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz")

    def text() -> str:
        return " ".join(rng.choice(letters, 4))

    corpus = {f"d{i}": text() for i in rng.permutation(documents)}
    corpus |= {f"e{i}": found for i, found in enumerate(list(corpus.values())[:20])}  # equal cosines
    asked = {f"q{i}": text() for i in range(queries)}
    relevant = {query: {str(d): 1.0 for d in rng.choice(list(corpus), 3, replace=False)} for query in asked}
    return RetrievalSet("random", "test", corpus, asked, relevant)


def test_values_are_those_of_sentence_transformers(model: GradedModel) -> None:
    found = _random_set()
    relevant = {query: set(documents) for query, documents in found.relevant.items()}
    peer = InformationRetrievalEvaluator(
        dict(found.queries), dict(found.corpus), relevant, precision_recall_at_k=[100], write_csv=False
    )
    expected = peer(model.encoder)
    task = evaluate_retrieval(model, found).to_json()["tasks"]["random"]
    for metric in ("ndcg@10", "mrr@10", "recall@100"):
        name = next(key for key in expected if key.endswith(metric))
        assert task[metric] == pytest.approx(100 * expected[name], abs=1e-6)


def test_grades_weigh_and_ties_are_ordered_by_id(model: GradedModel) -> None:
    corpus = {"b": "x y", "a": "x y", "c": "k l m n o"}
    graded = RetrievalSet("tie", "test", corpus, {"q": "x y"}, {"q": {"b": 3.0, "c": 1.0}})
    result = evaluate_retrieval(model, graded).tasks["tie"]
    # Ranked a, b, c: 3/log2(3) + 1/2 of 3 + 1/log2(3).
    assert result.ndcg[0] == pytest.approx(100 * (3 / np.log2(3) + 0.5) / (3 + 1 / np.log2(3)))
    assert (result.reciprocal_rank[0], result.recall[0]) == (50, 100)


def test_prompts_of_queries_and_documents_are_used(model: GradedModel) -> None:
    encoder = tiny_encoder()
    encoder.prompts = {"query": "q r s ", "passage": "t u v "}
    found = _random_set()
    relevant = {query: set(documents) for query, documents in found.relevant.items()}
    peer = InformationRetrievalEvaluator(dict(found.queries), dict(found.corpus), relevant, write_csv=False)
    expected = next(value for key, value in peer(encoder).items() if key.endswith("ndcg@10"))
    prompted = evaluate_retrieval(GradedModel(encoder, precision="fp32"), found)
    assert prompted.average == pytest.approx(100 * expected)
    assert not np.array_equal(prompted.tasks["random"].ndcg, evaluate_retrieval(model, found).tasks["random"].ndcg)


def test_differences_are_paired_over_queries(model: GradedModel) -> None:
    first = evaluate_retrieval(model, _random_set()).tasks["random"]
    better = replace(first, ndcg=first.ndcg + 1)
    difference = better.minus(first)
    assert (difference.value, difference.low, difference.high) == pytest.approx((1, 1, 1))
    with pytest.raises(InputError, match="different queries"):
        first.minus(replace(first, queries=first.queries[1:]))


def test_named_sets_and_their_average(model: GradedModel, tmp_path: Path) -> None:
    for name in ("scifact", "cranfield", "own"):
        write_beir(tmp_path / "beir" / name)
    both = evaluate_retrieval(model, data=[str(tmp_path / "beir")])
    assert list(both.tasks) == ["scifact", "cranfield"] and both.average == both.tasks["scifact"].ndcg.mean()
    entry = json.loads(json.dumps(both.to_json(), allow_nan=False))
    assert entry["tasks"]["scifact"].keys() >= {"ndcg@10", "recall@100", "mrr@10", "queries", "intervals"}
    assert "scifact: empty documents, which stay in the corpus: 1" in entry["notes"]
    own = evaluate_retrieval(model, "beir/own", data=[str(tmp_path / "beir")], split="train", precision="fp32")
    assert list(own.tasks) == ["own"] and own.tasks["own"].queries == ("q1", "q2")
    assert evaluate_retrieval(model, read_retrieval(tmp_path / "beir" / "own")).benchmark == "own"
    with pytest.raises(InputError, match=r"unknown benchmark 'eight' \(seven-sts, retrieval, scifact"):
        evaluate_retrieval(model, "eight", data=[str(tmp_path / "beir")])
