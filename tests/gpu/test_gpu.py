"""A GPU computes what the CPU does: embeddings, gradients, whole stages and runs. `make test-gpu` runs these."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from gradate.cli import app
from gradate.data.contrast import Triplets
from gradate.engine.precision import resolve_precision
from gradate.models.four_bit import held_in_four_bits
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.models.loading import open_encoder
from gradate.models.pooling import with_pooling
from gradate.objectives.build import build_objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.matryoshka import at_widths
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.stage import LoraConfig, SelectionConfig, Stage
from gradate.training.task import TaskConfig
from tests.beir import write_beir
from tests.graded import SCALE, graded_pairs, write_csv
from tests.tiny import DIMENSION, set_dropout, tiny_decoder, tiny_encoder

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU in sight: `make test-gpu` on a machine that has one"
)

TEXTS = ["a b c", "d e f g h i j k", "l", "m n o p q r s t u v w x y z"]
OTHERS = ["a b", "k z", "l", "x y d"]
PEARSON, MIDDLE = ObjectiveConfig(name="pearson"), ObjectiveConfig(name="mid-info-nce", temperature=0.1)
SMOOTH, INFO_NCE = ObjectiveConfig(k=2.0, x0=0.25), ObjectiveConfig(name="info-nce", temperature=0.1)
GRADED = (
    SMOOTH,
    ObjectiveConfig(name="translated-relu", k=2.0, x0=0.25),
    *(ObjectiveConfig(name=name) for name in ("mse", "cross-entropy", "cosine-mse")),
    *(ObjectiveConfig(name=name) for name in ("pearson", "mid-info-nce", "rank-kl", "pro", "cosent", "angle")),
    ObjectiveConfig(name="sum", parts=(PEARSON, SMOOTH, MIDDLE)),
)


def plain_encoder() -> SentenceTransformer:
    encoder = tiny_encoder(normalize=False)
    set_dropout(encoder, 0.0)
    return encoder


@pytest.mark.parametrize(("precision", "close"), [("fp32", 1e-5), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_embeddings_and_grades_are_those_of_the_cpu(precision: str, close: float) -> None:
    head = PairHead(DIMENSION)
    there = GradedModel(tiny_encoder().to("cuda"), deepcopy(head), SCALE, precision=precision)
    here = GradedModel(tiny_encoder(), head, SCALE, precision="fp32")
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    assert torch.as_tensor(there.encode(TEXTS, convert_to_tensor=True)).is_cuda
    np.testing.assert_allclose(there.encode(TEXTS), here.encode(TEXTS), atol=close)
    np.testing.assert_allclose(there.score(pairs).similarity, here.score(pairs).similarity, atol=close)
    np.testing.assert_allclose(there.predict(pairs), here.predict(pairs), atol=close)


@pytest.mark.parametrize("kind", ["llama", "mistral", "opt"])
def test_decoders_read_their_last_token_there_too(kind: str, tmp_path: Path) -> None:
    folder = tiny_decoder(tmp_path / kind, kind)
    found = [
        GradedModel(with_pooling(open_encoder(folder, device=device), "last-token"), precision="fp32").encode(TEXTS)
        for device in ("cuda", "cpu")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


@pytest.mark.parametrize(
    ("config", "wrap"),
    [
        pytest.param(config, wrap, id=f"{config.title}-{wrap}")
        for config in (*GRADED, INFO_NCE)
        for wrap in ("plain", "cached", "matryoshka")
        if wrap != "matryoshka" or not (config.needs_head or config.name in ("mid-info-nce", "sum"))
    ],
)
def test_gradients_are_those_of_the_cpu(config: ObjectiveConfig, wrap: str) -> None:
    encoder = plain_encoder()
    torch.manual_seed(0)
    head = PairHead(DIMENSION, outputs=4 if config.name == "cross-entropy" else 1) if config.needs_head else None
    grades = torch.tensor([0.0, 1, 2, 3], dtype=torch.float64) if config.reads_grades else None
    found = []
    for device in ("cpu", "cuda"):
        objective = build_objective(config, deepcopy(encoder).to(device), deepcopy(head), SCALE).to(device)
        loss: nn.Module = CachedObjective(objective, 2) if wrap == "cached" else objective
        loss = at_widths(objective.model, loss, [8]) if wrap == "matryoshka" else loss
        batch = [
            {key: v.to(device) if torch.is_tensor(v) else v for key, v in objective.model.preprocess(texts).items()}
            for texts in (TEXTS, OTHERS)
        ]
        value = loss(batch, None if grades is None else grades.to(device))
        value.backward()
        gradients = {n: p.grad.cpu() for n, p in objective.named_parameters() if p.grad is not None}
        found.append((float(value), gradients))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-4, abs=1e-5)
    assert found[1][1].keys() == found[0][1].keys()
    for name, expected in found[0][1].items():
        difference = (found[1][1][name] - expected).norm()
        assert difference <= 2e-3 * expected.norm() + 1e-6, f"{name}: {difference}"


def trained(device: str, folder: Path, **values: Any) -> tuple[GradedModel, list[float], float | None]:
    """A tiny model after a stage, the losses logged, and its selection value."""
    model = GradedModel(plain_encoder().to(device), precision="fp32")
    pairs = graded_pairs(48)
    hand_over_head(model, pairs, lambda: PairHead(DIMENSION).to(device), rescale=True, seed=3)
    triplets = Triplets(["a b", "c d", "e f", "g"] * 4, ["b a", "d", "f", "g h"] * 4, ["x", "y", "z", "w"] * 4)
    precision = values.pop("precision", "fp32")
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "objective": SMOOTH, "epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "evaluate_every": 4,
        "selection": SelectionConfig(), "compile": "never",
    }  # fmt: skip
    stage = Stage(**settings | values)
    log = RunLog(folder / "log.jsonl")
    result = run_stage(
        stage, model, pairs, beside=[triplets] * len(stage.beside), folder=folder / "stage", log=log,
        precision=resolve_precision(precision, device), seed=3, selection={"dev": graded_pairs(30, seed=5)},
    )  # fmt: skip
    return model, [line["loss"] for line in log.records() if "loss" in line], result.best


def embedded(*models: GradedModel) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(model.encode(TEXTS)) for model in models]


STAGES: dict[str, dict[str, Any]] = {
    "pairs": {},
    "batch": {"objective": PEARSON},
    "sum": {"objective": ObjectiveConfig(name="sum", parts=(PEARSON, SMOOTH, MIDDLE))},
    "cached": {"objective": PEARSON, "mini_batch_size": 4},
    "matryoshka": {"objective": PEARSON, "matryoshka": (8,)},
    "alternate": {"objective": PEARSON, "beside": (TaskConfig("triplets", INFO_NCE, batch_size=4),)},
    "together": {
        "objective": PEARSON,
        "beside": (TaskConfig("triplets", INFO_NCE, batch_size=4, weight=0.5),),
        "mix": "together",
    },
    "convex": {"trainable": "head", "selection": None},
}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_ends_where_it_does_on_the_cpu(name: str, tmp_path: Path) -> None:
    here, losses, best = trained("cpu", tmp_path / "cpu", **STAGES[name])
    there, found, value = trained("cuda", tmp_path / "cuda", **STAGES[name])
    assert there.encoder.device.type == "cuda"
    if name != "convex":
        assert found == pytest.approx(losses, rel=2e-2, abs=1e-4)
    assert (value is None) == (best is None) and (best is None or value == pytest.approx(best, abs=1.0))
    unit = [
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for m in (here, there)
        for vectors in [m.encode(TEXTS)]
    ]
    np.testing.assert_allclose(unit[1], unit[0], atol=2e-2)
    if name == "convex":
        pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
        np.testing.assert_allclose(there.predict(pairs), here.predict(pairs), atol=1e-2)


@pytest.mark.parametrize(
    "values",
    [
        {"precision": "bf16"},
        {"precision": "tf32"},
        {"compile": "always"},
        {"activation_checkpointing": True},
        {"trainable": "last-1"},
        {"trainable": "lora", "lora": LoraConfig(r=4)},
    ],
    ids=lambda values: next(iter(values.values())) if isinstance(values, dict) else None,
)
def test_a_stage_learns(values: dict[str, Any], tmp_path: Path) -> None:
    model, losses, _ = trained("cuda", tmp_path, objective=PEARSON, epochs=8, learning_rate=3e-3, **values)
    assert np.isfinite(losses).all() and losses[-1] < losses[0] - 0.05
    folder = model.save(tmp_path / "model")
    alone = SentenceTransformer(str(folder), device="cuda").encode(TEXTS)
    np.testing.assert_allclose(GradedModel.from_pretrained(folder, precision="fp32").encode(TEXTS), alone, atol=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="the extra 4bit is not installed")
def test_weights_in_four_bits_are_small_there_and_whole_afterwards() -> None:
    encoder = nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 1024)).to("cuda")
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    whole = torch.cuda.memory_allocated()
    with held_in_four_bits(encoder):
        assert torch.cuda.memory_allocated() < whole - 2 * 1024 * 1024 * 3, "four bits for 32, on the GPU"
        assert encoder[0].weight.dtype == torch.uint8 and encoder[0].weight.device.type == "cuda"
        inside = encoder(torch.ones(1, 1024, device="cuda"))
    after = encoder.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    outside = encoder(torch.ones(1, 1024, device="cuda"))
    assert 0 < (inside - outside).norm() < 0.3 * outside.norm()


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="the extra 4bit is not installed")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_adapters_train_over_four_bits(precision: str, tmp_path: Path) -> None:
    encoder = with_pooling(open_encoder(tiny_decoder(tmp_path / "llama"), device="cuda"), "last-token")
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    model = GradedModel(encoder, precision="fp32")
    lora = LoraConfig(r=4, alpha=8, target_modules=("q_proj", "v_proj"), bits=4)
    stage = Stage(
        trainable="lora", lora=lora, objective=PEARSON, epochs=4, batch_size=8, learning_rate=1e-2, evaluate_every=8,
        selection=None, compile="never",
    )  # fmt: skip
    log = RunLog(tmp_path / "log")
    run_stage(
        stage, model, graded_pairs(32), folder=tmp_path / "s", log=log, precision=resolve_precision(precision, "cuda")
    )
    after = model.encoder.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if "q_proj" in name or "v_proj" in name}


@pytest.fixture
def gradate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.delenv("GRADATE_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments: object) -> str:
        capsys.readouterr()
        code = app.run([str(argument) for argument in arguments])
        out, errors = capsys.readouterr()
        assert code == 0, errors
        return out

    return run


def test_a_run_from_pairs_to_report(gradate: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    tiny_encoder(folder)
    pairs = write_csv(tmp_path / "pairs.csv", graded_pairs(120))
    for seed in (1, 2):
        words = ("two-stage", "--pairs", pairs, "--set", f"encoder={folder}", "--set", f"seed={seed}", "--quiet")
        gradate("train", *words, "--out", tmp_path / f"run-{seed}")
    known = json.loads((tmp_path / "run-1" / "env.json").read_text())
    assert known["device"] == "cuda" and known["precision"] == "bf16"
    answer = json.loads(gradate("evaluate", tmp_path / "run-1" / "model", "--pairs", pairs, "--json"))
    assert answer
    gradate("fuse", folder, tmp_path / "run-1", tmp_path / "run-2", "--out", tmp_path / "fused")
    assert (tmp_path / "fused" / "model.safetensors").is_file()


def test_negatives_that_stay_hard_beside_graded_pairs(gradate: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    tiny_encoder(folder)
    beir = write_beir(tmp_path / "letters")
    pairs = write_csv(tmp_path / "pairs.csv", graded_pairs(40))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"""
encoder: {folder}
stages:
  - source: beir/letters
    trainable: all
    objective: {{name: info-nce, temperature: 0.05, candidates: own}}
    negatives: {{count: 2, pool: 4, skip: 0, choice: nearest, replace_every: 2, ranked_by: encoder}}
    beside: [{{source: {pairs}, objective: {{name: cosent}}, batch_size: 8, weight: 0.8}}]
    mix: together
    matryoshka: [16]
    epochs: 6
    batch_size: 2
    learning_rate: 1e-4
    evaluate_every: 4
    selection: null
evaluation: {{source: none, retrieval: [beir/letters]}}
"""
    )
    gradate("train", recipe, "--data", f"beir/letters={beir}", "--out", tmp_path / "run", "--quiet")
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
