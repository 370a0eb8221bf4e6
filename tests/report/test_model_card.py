"""The model card: front matter the Hub reads, and honest sentences."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from gradate.errors import InputError
from gradate.evaluation.significance import Interval
from gradate.report.model_card import CardData, CardMetric, CardSource, model_card
from gradate.scale import LabelScale

SCALE = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])


def _card(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "name": "support-questions",
        "base_model": "bundled",
        "recipe": "two-stage",
        "objective": {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"},
        "scale": SCALE,
        "sources": (CardSource("train", "mine", 640, "0123456789abcdef"),),
        "metrics": (
            CardMetric("mine-test", "spearman_cosine", 81.234, Interval(81.234, 77.0, 85.5), before=70.0),
            CardMetric("mine-test", "accuracy", 0.815),
        ),
        "protocol": "Cosine, Spearman × 100.",
        "seeds": (1, 2, 3),
        "environment": {"torch": "2.13.0"},
    }
    return model_card(CardData(**{**fields, **changes}))


def test_the_hub_reads_the_front_matter() -> None:
    card = ModelCard(_card(licence="apache-2.0"))
    assert card.data.library_name == "sentence-transformers"
    assert card.data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert card.data.license == "apache-2.0"
    assert {"gradate", "sentence-similarity"} <= set(card.data.tags)
    results = card.data.eval_results
    assert [(r.dataset_name, r.metric_type, r.metric_value) for r in results] == [
        ("mine-test", "spearman_cosine", 81.234),
        ("mine-test", "accuracy", 0.815),
    ]


def test_the_body_names_scale_data_seeds_and_numbers() -> None:
    card = _card()
    for part in (
        "| irrelevant | 0 |",
        "| highly | 3 |",
        "| train | mine | 640 | `0123456789abcdef` |",
        "seeds: 1, 2, 3",
        "| mine-test | spearman cosine | 70.00 | 81.23 | 77.00 … 85.50 |",
        "| mine-test | grade accuracy | – | 0.815 | – |",
        "`smooth-k2` (k = 2.0, x0 = 0.25, boundary = both)",
        "SentenceTransformer(",
        "GradedModel.from_pretrained(",
        "model.classify(pairs)",
    ):
        assert part in card


def test_in_domain_supervision_is_said_only_where_it_happened() -> None:
    assert "in-domain supervised" not in _card()
    assert "the training data of STS-B and SICK-R was used" in _card(in_domain=("STS-B", "SICK-R"))


def test_without_a_head_nothing_is_predicted() -> None:
    card = _card(scale=None)
    assert "predict(" not in card and "graded_head" not in card and "## Scale" not in card


def test_a_continuous_scale_has_no_classes() -> None:
    card = _card(scale=LabelScale.continuous(0, 5))
    assert "Continuous, from 0 to 5." in card
    assert "predict(" in card and "classify(" not in card


@pytest.mark.parametrize("path", ["/srv/models/my-model/", "C:\\models\\my-model", "runs/x/my-model"])
def test_folders_of_the_machine_stay_out(path: str) -> None:
    card = _card(base_model=path)
    assert "`my-model`" in card
    assert "srv" not in card and "C:" not in card and "runs/x" not in card
    assert "base_model" not in yaml.safe_load(card.split("---\n")[1])


def test_hub_names_are_linked() -> None:
    front = yaml.safe_load(_card(base_model="nomic-ai/nomic-embed-text-v1").split("---\n")[1])
    assert front["base_model"] == "nomic-ai/nomic-embed-text-v1"


def test_text_cannot_break_the_markup() -> None:
    evil = "a: |b|\n---\n# <script> `x` [l](u) *e*"
    scale = LabelScale.from_names([evil, "b"])
    card = _card(name=evil, scale=scale, sources=(CardSource("train", evil, 1, "f", evil),), notes=(evil,))
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["model-index"][0]["name"] == " ".join(evil.split())
    body = card.split("---\n", 2)[2]
    assert "\n# <script>" not in body
    assert "<script>" not in body.replace("\\<script\\>", "").replace("`a: |b| --- # <script> 'x' [l](u) *e*,b`", "")
    table = [line for line in body.splitlines() if line.startswith("| train")]
    assert len(table) == 1 and table[0].replace("\\|", "").count("|") == 6


def test_a_card_needs_a_name() -> None:
    with pytest.raises(InputError, match="name"):
        _card(name="  ")
