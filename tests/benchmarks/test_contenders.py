"""Each contender does the same job, on a tiny encoder."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest
import torch

from benchmarks import evaluate as evaluate_table
from benchmarks import ours
from benchmarks.job import TrainingJob
from benchmarks.peers import published, senteval, simcse, stock
from gradate.data.benchmarks import Benchmark, Subset, Task
from gradate.evaluation.protocol import evaluate
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

TRAINERS = {"stock": {"arguments": {}}, "ours": {}, "published": {}}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    tiny_encoder(folder)
    return folder


@pytest.fixture(scope="module")
def job(encoder, tmp_path_factory):
    folder, pairs = tmp_path_factory.mktemp("head"), graded_pairs(40)
    ours.fit_initial_head(encoder, pairs, folder, k=2.0, x0=0.25)
    return TrainingJob(encoder, folder, pairs, batch_size=8, k=2.0, x0=0.25)


@pytest.fixture(scope="module")
def benchmark():
    tasks = {}
    for name, seeds in (("STS12", (1, 2)), ("STS-B", (3,))):
        subsets = []
        for seed in seeds:
            pairs = graded_pairs(30, seed=seed)
            subsets.append(Subset(str(seed), tuple(pairs.text1), tuple(pairs.text2), pairs.grades, 0))
        tasks[name] = Task(name, tuple(subsets))
    return Benchmark("two", tasks)


@pytest.mark.parametrize("name", TRAINERS)
def test_segments_time_the_same_pairs_after_the_same_steps(name, job):
    module = {"stock": stock, "ours": ours, "published": published}[name]
    measure = module.build_segment(job=job, steps=2, skipped=1, **TRAINERS[name])
    for number in (0, 1):
        found = measure(number)
        assert (found["pairs"], found["steps"]) == (16, 2)
        assert found["rate"] == pytest.approx(2 * 16 / found["seconds"])
        assert found["before"] > 0


def test_every_contender_starts_from_the_same_head_and_encoder(job):
    head, _, _ = PairHead.load(job.head)
    assert head.linear.weight.abs().sum() > 0
    trainer = stock.StockTrainer(job)
    torch.testing.assert_close(trainer._loss().classifier.weight, head.linear.weight)
    pair = list(zip(job.pairs.text1[:5], job.pairs.text2[:5], strict=True))
    trainer.encoder.eval()
    u, v = (trainer.encoder.encode([p[i] for p in pair], convert_to_tensor=True) for i in (0, 1))
    model = ours.GradateTrainer(job, precision="fp32").model
    model.head, model.scale = head, job.pairs.scale
    np.testing.assert_allclose(head(u, v).detach().numpy(), model.predict(pair, clip=False), atol=1e-5)


@pytest.mark.parametrize("name", ["stock", "ours"])
def test_an_epoch_leaves_a_trained_encoder_that_anybody_opens(name, job, tmp_path):
    module = {"stock": stock, "ours": ours}[name]
    measure = module.build_epoch(job=job, folder=tmp_path / "model", **TRAINERS[name])
    found = measure(1)
    assert (found["steps"], found["pairs"], found["seed"]) == (5, 40, 2)
    before, after = (stock.open_stock(folder).eval() for folder in (job.encoder, tmp_path / "model"))
    texts = list(job.pairs.text1)
    assert np.abs(before.encode(texts) - after.encode(texts, normalize_embeddings=True)).max() > 1e-4
    # The next round starts from the initial weights again.
    assert measure(1)["steps"] == 5


def test_encoders_give_the_same_embeddings(encoder, tmp_path):
    texts = [*graded_pairs(20).texts()]
    settings = {"encoder": encoder, "texts": texts, "warm_up": 4}
    theirs = stock.build_encode(**settings, folder=tmp_path / "a", bf16=False, batch_size=8, compiled=False)(0)
    own = ours.build_encode(**settings, folder=tmp_path / "b")(0)
    a, b = (np.load(found["embeddings"]) for found in (theirs, own))
    assert np.einsum("nd,nd->n", a, b).min() > 0.999
    assert theirs["texts"] == own["texts"] == len(texts)


def test_memory_is_read_at_the_last_step(encoder):
    theirs = simcse.build_memory(encoder, length=12, batch=4, steps=3, bf16=False)(0)
    own = ours.build_memory(encoder, length=12, batch=4, steps=3, settings={}, precision="fp32")(0)
    assert theirs["seconds"] > 0 and own["seconds"] > 0
    assert abs(theirs["peak_bytes"]) < 2**31 and abs(own["peak_bytes"]) < 2**31


def test_the_senteval_loop_gives_the_protocols_numbers(encoder, benchmark):
    found = senteval.evaluate(senteval.Batcher(encoder, limit=64), benchmark)
    expected = evaluate(GradedModel(tiny_encoder(), precision="fp32"), benchmark)
    assert found == pytest.approx({name: task.spearman for name, task in expected.tasks.items()}, abs=0.01)


@pytest.mark.skipif(importlib.util.find_spec("mteb") is None, reason="mteb is not installed")
def test_mteb_gives_the_protocols_numbers(encoder, benchmark):
    from benchmarks.peers import mteb_sts

    found = mteb_sts.evaluate(tiny_encoder(), benchmark)
    expected = evaluate(GradedModel(tiny_encoder(), precision="fp32"), benchmark)
    assert found == pytest.approx({name: task.spearman for name, task in expected.tasks.items()}, abs=0.01)


def test_an_evaluation_is_timed_as_a_process():
    values = {"tasks": {"STS12": {"spearman": 70.0}, "STS13": {"spearman": 80.0}}}
    command = [sys.executable, "-c", f"print('a line before'); print({json.dumps(values)!r})"]
    found = evaluate_table.build(command)(0)
    assert (found["average"], found["tasks"]["STS13"]) == (75.0, 80.0)
    assert found["rate"] == 1 / found["seconds"]
    with pytest.raises(SystemExit, match="ended with 3"):
        evaluate_table.build([sys.executable, "-c", "raise SystemExit(3)"])(0)
    if importlib.util.find_spec("mteb") is None:
        with pytest.raises(SystemExit, match="has no mteb"):
            evaluate_table._mteb_version(sys.executable)
