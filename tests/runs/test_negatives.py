"""Negatives are ranked by the encoder that a stage begins with, where its configuration says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gradate.data.locations import DataLocations
from gradate.data.ranked import RankedRows
from gradate.models.graded import GradedModel
from gradate.objectives.config import ObjectiveConfig
from gradate.runs.negatives import with_own_ranking
from gradate.runs.resolve import stage_examples
from gradate.runs.run import train
from gradate.training.hard_negatives import NegativesConfig
from gradate.training.stage import Stage
from gradate.training.task import TaskConfig
from tests.beir import write_beir
from tests.tiny import tiny_encoder

INFO_NCE = ObjectiveConfig(name="info-nce")


@pytest.mark.filterwarnings("ignore::UserWarning")  # the made-up set has other counts than the published one
def test_only_what_asks_for_it_is_ranked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADATE_CACHE", str(tmp_path / "cache"))
    here = DataLocations.resolve([f"beir/scifact={write_beir(tmp_path / 'scifact')}"], environ={})
    lexical = NegativesConfig(count=1, pool=3, skip=0)
    own = NegativesConfig(count=1, pool=3, skip=0, ranked_by="encoder")
    stage = Stage(
        source="scifact",
        objective=INFO_NCE,
        negatives=own,
        max_length=8,
        beside=(TaskConfig("scifact", INFO_NCE, lexical),),
    )
    model = GradedModel(tiny_encoder(), precision="fp32")
    limit = model.encoder.max_seq_length
    examples, task = stage_examples(stage, here), stage_examples(stage.beside[0], here)
    ranked, (untouched,) = with_own_ranking(model, stage, examples, (task,), here)
    assert untouched is task and model.encoder.max_seq_length == limit
    assert isinstance(examples, RankedRows) and isinstance(ranked, RankedRows)
    assert ranked.query == examples.query and ranked.positives == examples.positives
    for query, pool in zip(ranked.query, ranked.negatives, strict=True):
        vectors = np.asarray(model.encode([query, *pool], normalize_embeddings=True))
        cosines = vectors[1:] @ vectors[0]
        assert list(cosines) == sorted(cosines, reverse=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_names_the_rows_that_its_encoder_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADATE_CACHE", str(tmp_path / "cache"))
    tiny_encoder(tmp_path / "encoder")
    recipe = """
    encoder: {encoder}
    stages:
      - source: scifact
        objective: {{name: info-nce}}
        negatives: {{count: 1, pool: 3, skip: 0, ranked_by: {by}}}
        epochs: 1
        batch_size: 2
        selection: null
    evaluation: {{source: none}}
    """
    found = {}
    for by in ("encoder", "tf-idf"):
        path = tmp_path / f"{by}.yaml"
        path.write_text(recipe.format(encoder=tmp_path / "encoder", by=by), encoding="utf-8")
        data = [f"beir/scifact={write_beir(tmp_path / by / 'scifact')}"]
        train(str(path), out=tmp_path / f"run-{by}", data=data)
        found[by] = json.loads((tmp_path / f"run-{by}" / "data.json").read_text())
    assert "ranked_by_encoder" not in found["tf-idf"]
    (ranked,), read = found["encoder"]["ranked_by_encoder"]["stage-1"], found["encoder"]["stages"][0]
    assert ranked["name"] == read["name"] and ranked["fingerprint"] != read["fingerprint"]
    assert found["encoder"]["stages"] == found["tf-idf"]["stages"], "what was read is the same"
