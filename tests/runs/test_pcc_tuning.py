"""Pcc-tuning of a tiny Llama, end to end: two stages of LoRA behind a template, and the head fitted on top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from gradate.data.examples import Pairs
from gradate.errors import InputError
from gradate.evaluation.metrics import spearman
from gradate.models.graded import GradedModel
from gradate.models.loading import open_encoder
from gradate.models.tokenizer import with_template
from gradate.objectives.config import ObjectiveConfig
from gradate.runs.recipe import EvaluationConfig, HeadConfig, Recipe
from gradate.runs.results import Run
from gradate.runs.run import train
from gradate.scale import LabelScale
from gradate.training.stage import LoraConfig, Stage
from tests.senteval_layout import write_layout
from tests.tiny import tiny_decoder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # the made-up sets have another fingerprint

LORA = LoraConfig(r=8, alpha=16, dropout=0.05, target_modules=("all-linear",))
COMMON: dict[str, Any] = {"trainable": "lora", "lora": LORA, "selection": None, "batch_size": 16, "warmup": 0.0}
CONTRAST = Stage(
    "nli-triplets",
    objective=ObjectiveConfig(name="info-nce"),
    epochs=1,
    mini_batch_size=16,
    max_length=64,
    learning_rate=1e-3,
    **COMMON,
)
CORRELATION = Stage(objective=ObjectiveConfig(name="pearson"), epochs=5, learning_rate=3e-3, **COMMON)
HEAD = Stage(trainable="head", objective=ObjectiveConfig(k=2.0, x0=0.25), selection=None)


def half_relevant(n: int, seed: int) -> Pairs:
    """Pairs that share letters of both halves of the alphabet, graded by those of the first half alone."""
    rng = np.random.default_rng(seed)
    first, second, grades = [], [], []
    for _ in range(n):
        left: list[str] = []
        right: list[str] = []
        shared = rng.integers(0, 3, size=2)
        for letters, same in zip(("abcdefghijklm", "nopqrstuvwxyz"), shared, strict=True):
            drawn = list(rng.choice(list(letters), 4, replace=False))
            left += drawn[:2]
            right += drawn[:same] + drawn[2 : 4 - same]
        first.append(" ".join(rng.permutation(left)))
        second.append(" ".join(rng.permutation(right)))
        grades.append(float(shared[0]))
    return Pairs(first, second, np.array(grades), LabelScale.from_values([0, 1, 2]), name="half relevant")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_decoder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    layout = write_layout(folder / "senteval")  # triplets must not stand in the test sets
    pairs = half_relevant(160, 4)
    rows = [f"{a},{b},{c}" for a, b, c in zip(pairs.text1, pairs.text1, pairs.text2[::-1], strict=True)]
    (folder / "triplets.csv").write_text("\n".join(["sent0,sent1,hard_neg", *rows]) + "\n", encoding="utf-8")
    recipe = Recipe(
        (CONTRAST, CORRELATION, HEAD),
        encoder=str(checkpoint),
        pooling="last-token",
        template="prompt-sum",
        head=HeadConfig(concatenation="cos"),
        evaluation=EvaluationConfig(source="none"),
        precision="fp32",
    )
    run = train(
        recipe,
        out=folder / "run",
        pairs=half_relevant(320, 1),
        data=[str(layout), f"nli-triplets={folder / 'triplets.csv'}"],
    )
    assert isinstance(run, Run)
    return run


def test_adapters_on_every_linear_layer_are_merged(tuned: Run, checkpoint: Path) -> None:
    start = open_encoder(checkpoint).state_dict()
    end = GradedModel.from_pretrained(tuned.model).encoder.state_dict()
    assert end.keys() == start.keys()
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    assert moved == {name for name in start if "_proj" in name}


def test_the_model_opens_in_sentence_transformers_with_its_template(tuned: Run) -> None:
    model = GradedModel.from_pretrained(tuned.model, precision="fp32")
    plain = SentenceTransformer(str(tuned.model), device="cpu", local_files_only=True)
    texts = half_relevant(20, 7).texts()
    np.testing.assert_allclose(plain.encode(list(texts)), model.encode(list(texts)), atol=5e-6)
    assert with_template(plain, "prompt-sum") is plain
    assert model.predict([("a b c", "a b c")]) > model.predict([("a b c", "d e f")])


def test_pearson_orders_held_out_pairs_better_than_contrast_alone(tuned: Run) -> None:
    held_out = half_relevant(300, 11)
    stages = [tuned.folder / "checkpoints" / f"stage-{number}" / "model" for number in (1, 2)]
    models = [GradedModel.from_pretrained(folder, precision="fp32") for folder in stages]
    contrast, correlation = (spearman(held_out.grades, model.similarity(held_out)) for model in models)
    assert contrast is not None and correlation is not None
    assert correlation > contrast + 20


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_length_below_the_template_is_refused_before_anything_trains(
    dry_run: bool, checkpoint: Path, tmp_path: Path
) -> None:
    recipe = Recipe((HEAD, CORRELATION), encoder=str(checkpoint), template="prompt-sum")
    with pytest.raises(InputError, match=r"stages\.2\.max_length: max_length = 9 leaves no room"):
        train(
            recipe,
            out=tmp_path / "run",
            pairs=half_relevant(60, 1),
            overrides=["stages.2.max_length=9"],
            dry_run=dry_run,
        )
