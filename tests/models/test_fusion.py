"""Fusion: what its weights must satisfy, on numbers and on checkpoints; and which checkpoints it refuses."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load_file, save_file

from gradate.errors import InputError
from gradate.models import checkpoint
from gradate.models.checkpoint import Checkpoint
from gradate.models.fusion import Deviations, Weighting, fusion_weights, layer_of, write_fused
from gradate.models.likeness import require_alike
from tests.tiny import tiny_encoder

RULES = ("proportional", "squared", "inverse", "softmax", "uniform")
LEVELS = ("model", "layer", "tensor", "element")
SHAPES = st.tuples(st.integers(2, 5), st.integers(1, 4))
DEVIATIONS = arrays.arrays(np.float64, SHAPES, elements=st.sampled_from([0.0]) | st.floats(1e-6, 10)).map(torch.tensor)


@settings(max_examples=50, deadline=None)
@given(DEVIATIONS, st.sampled_from(RULES), st.sampled_from([None, 0.01, 1.0]))
def test_weights_are_shares(deviation, rule, temperature):
    weights = fusion_weights(deviation, rule, temperature)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=0), torch.ones(deviation.shape[1], dtype=torch.float64))


@settings(max_examples=50, deadline=None)
@given(DEVIATIONS, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_weights_follow_the_order_of_the_checkpoints(deviation, rule, chance):
    order = chance.sample(range(len(deviation)), len(deviation))
    torch.testing.assert_close(fusion_weights(deviation[order], rule), fusion_weights(deviation, rule)[order])


@settings(max_examples=50, deadline=None)
@given(DEVIATIONS, st.sampled_from(RULES), st.floats(1e-3, 1e3))
def test_weights_do_not_change_when_all_deviations_grow_by_one_factor(deviation, rule, factor):
    torch.testing.assert_close(fusion_weights(factor * deviation, rule), fusion_weights(deviation, rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("deviation", [0.0, 0.3])
def test_equal_deviations_make_a_soup(rule, deviation):
    weights = fusion_weights(torch.full((4, 3), deviation, dtype=torch.float64), rule)
    torch.testing.assert_close(weights, torch.full((4, 3), 0.25, dtype=torch.float64))


def test_the_rules_are_their_formulas():
    deviation = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    expected = {
        "proportional": [0, 1 / 4, 3 / 4],
        "squared": [0, 1 / 10, 9 / 10],
        "inverse": [1, 0, 0],
        "softmax": [math.exp(x * 3 / 4) / sum(math.exp(y * 3 / 4) for y in (0, 1, 3)) for x in (0, 1, 3)],
        "uniform": [1 / 3] * 3,
    }
    for rule, weights in expected.items():
        np.testing.assert_allclose(fusion_weights(deviation, rule), weights, atol=1e-8)
    np.testing.assert_allclose(fusion_weights(deviation[1:], "inverse"), [0.75, 0.25], atol=1e-8)
    np.testing.assert_allclose(
        fusion_weights(deviation[:2], "softmax", 0.5), [1 / (1 + math.e**2), 0.880797], atol=1e-6
    )


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [
        ("encoder.layer.3.attention.self.query.weight", "encoder.layer.3"),
        ("layers.12.mlp.Wo.weight", "layers.12"),
        ("encoder.block.0.layer.1.DenseReluDense.wi.weight", "encoder.block.0"),
        ("pooler.dense.bias", "pooler"),
        ("2_Dense/linear.weight", "2_Dense/linear"),
        ("weight", "weight"),
    ],
)
def test_a_layer_is_named_by_its_number(tensor, layer):
    assert layer_of(tensor) == layer


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rule": "best"}, "unknown rule 'best'"),
        ({"level": "head"}, "unknown level 'head'"),
        ({"temperature": 1.0}, "only the softmax rule"),
        ({"rule": "softmax", "temperature": 0.0}, "no number above 0"),
        ({"pull_back": 1.0}, "no share from 0 to below 1"),
        ({"pull_back": math.nan}, "no share from 0 to below 1"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Weighting(**settings)


def stored(folder, **tensors):
    """A checkpoint of these tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    return Checkpoint(folder, folder.name)


def fused(base, runs, folder, **settings):
    weighting = Weighting(**settings)
    shares = write_fused(runs, folder, weighting, base=base, deviations=Deviations.measure(base, runs))
    return load_file(folder / "model.safetensors"), shares


@pytest.fixture
def trio(tmp_path):
    """A base and three checkpoints; the first did not touch `b`, none touched `c`."""
    chance = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(shape, generator=chance)

    start = {"l.0.a": numbers(5, 3), "l.0.b": numbers(4), "c": numbers(2), "one": numbers()}
    ids = torch.arange(4).unsqueeze(0)
    moved = [{name: value + 0.1 * numbers(*value.shape) for name, value in start.items()} for _ in range(3)]
    moved[0]["l.0.b"] = start["l.0.b"].clone()
    for tensors in moved:
        tensors["c"] = start["c"].clone()
    base = stored(tmp_path / "base", **start, ids=ids + 1)
    return base, [stored(tmp_path / f"run{i}", **tensors, ids=ids) for i, tensors in enumerate(moved)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", LEVELS)
def test_the_result_lies_between_the_runs(rule, level, trio, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "BLOCK", 6)  # so that tensors are read in several blocks
    base, runs = trio
    found, shares = fused(base, runs, tmp_path / "out", rule=rule, level=level)
    assert sum(shares) == pytest.approx(1)
    loaded = [load_file(run.folder / "model.safetensors") for run in runs]
    for name, value in found.items():
        stack = torch.stack([tensors[name] for tensors in loaded])
        assert (value >= stack.amin(dim=0)).all() and (value <= stack.amax(dim=0)).all()
        assert value.dtype == stack.dtype
    again, other_shares = fused(base, runs[::-1], tmp_path / "reversed", rule=rule, level=level)
    np.testing.assert_allclose(other_shares[::-1], shares, atol=1e-12)
    for name, value in found.items():
        torch.testing.assert_close(again[name], value)


@pytest.mark.parametrize("level", LEVELS)
def test_identical_checkpoints_stay_as_they_are(level, trio, tmp_path):
    base, runs = trio
    copies = [stored(tmp_path / name, **load_file(runs[1].folder / "model.safetensors")) for name in "xyz"]
    found, _ = fused(base, copies, tmp_path / "out", level=level)
    for name, value in load_file(runs[1].folder / "model.safetensors").items():
        assert torch.equal(found[name], value)


def test_the_weights_are_those_of_their_level(trio, tmp_path):
    base, runs = trio
    start, *loaded = (load_file(model.folder / "model.safetensors") for model in (base, *runs))
    delta = {name: torch.stack([t[name] - start[name] for t in loaded]).double() for name in start if name != "ids"}
    rms = {name: d.reshape(3, -1).square().mean(dim=1).sqrt() for name, d in delta.items()}
    layer = torch.cat([delta["l.0.a"].reshape(3, -1), delta["l.0.b"]], dim=1).square().mean(dim=1).sqrt()
    everything = torch.cat([d.reshape(3, -1) for d in delta.values()], dim=1).square().mean(dim=1).sqrt()
    for level, deviation in (
        ("tensor", rms["l.0.b"].unsqueeze(1)),
        ("layer", layer.unsqueeze(1)),
        ("model", everything.unsqueeze(1)),
        ("element", delta["l.0.b"].abs()),
    ):
        weights = deviation / deviation.sum(dim=0)
        expected = (weights * torch.stack([t["l.0.b"] for t in loaded])).sum(dim=0)
        found, _ = fused(base, runs, tmp_path / level, level=level)
        torch.testing.assert_close(found["l.0.b"].double(), expected, atol=1e-6, rtol=0)
        assert torch.equal(found["c"], start["c"])  # nobody touched it
    np.testing.assert_allclose(Deviations.measure(base, runs).overall(), everything)


def test_a_checkpoint_has_no_say_in_what_it_did_not_touch(trio, tmp_path):
    base, runs = trio
    found, _ = fused(base, runs[:2], tmp_path / "out")
    assert torch.equal(found["l.0.b"], load_file(runs[1].folder / "model.safetensors")["l.0.b"])


def test_pulling_back_is_a_step_towards_the_base(trio, tmp_path):
    base, runs = trio
    start = load_file(base.folder / "model.safetensors")
    whole, _ = fused(base, runs, tmp_path / "whole")
    part, _ = fused(base, runs, tmp_path / "part", pull_back=0.25)
    for name in ("l.0.a", "one"):
        torch.testing.assert_close(part[name], 0.75 * whole[name] + 0.25 * start[name])


def test_the_soup_needs_no_base(trio, tmp_path):
    _, runs = trio
    assert write_fused(runs, tmp_path / "out") == pytest.approx((1 / 3,) * 3)
    found = load_file(tmp_path / "out" / "model.safetensors")["l.0.a"]
    mean = torch.stack([load_file(run.folder / "model.safetensors")["l.0.a"] for run in runs]).mean(dim=0)
    torch.testing.assert_close(found, mean)


def test_integers_are_copied_and_must_agree(trio, tmp_path):
    base, runs = trio
    found, _ = fused(base, runs, tmp_path / "out")
    assert torch.equal(found["ids"], torch.arange(4).unsqueeze(0))
    tensors = load_file(runs[2].folder / "model.safetensors")
    other = stored(tmp_path / "other", **{**tensors, "ids": tensors["ids"] + 7})
    with pytest.raises(InputError, match="other: the integers of ids are others than those of run0"):
        fused(base, [*runs, other], tmp_path / "out")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_name_run_and_tensor(value, trio, tmp_path):
    base, runs = trio
    tensors = load_file(runs[2].folder / "model.safetensors")
    tensors["l.0.a"][3, 1] = value
    with pytest.raises(InputError, match=r"^broken: the tensor l\.0\.a holds NaN or an infinity"):
        fused(base, [runs[0], stored(tmp_path / "broken", **tensors)], tmp_path / "out")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_number_format_is_that_of_the_first_run(dtype, trio, tmp_path):
    base, runs = trio
    tensors = load_file(runs[0].folder / "model.safetensors")
    half = stored(tmp_path / "half", **{k: v if k == "ids" else v.to(dtype) for k, v in tensors.items()})
    found, _ = fused(base, [half, runs[1]], tmp_path / "out")
    assert found["l.0.a"].dtype == dtype


def test_no_more_than_a_block_of_each_checkpoint_is_read_at_once(tmp_path, monkeypatch):
    """Memory holds one file and one block of every checkpoint, however large the tensors are."""
    monkeypatch.setattr(checkpoint, "BLOCK", 64)
    read = []
    original = Checkpoint.read
    monkeypatch.setattr(Checkpoint, "read", lambda *a: read.append(original(*a)) or read[-1])
    value = torch.arange(1000.0).reshape(50, 20)
    base, *runs = (stored(tmp_path / str(i), large=value + i) for i in range(3))
    found, _ = fused(base, runs, tmp_path / "out", level="element")
    assert max(block.numel() for block in read) <= 64
    torch.testing.assert_close(found["large"], value + 5 / 3)


def test_shards_stay_shards(tmp_path):
    for i, name in enumerate(("base", "a", "b")):
        (tmp_path / name).mkdir()
        for part, tensor in (("model-00001-of-00002", "x"), ("model-00002-of-00002", "y")):
            save_file({tensor: torch.full((2,), float(i))}, tmp_path / name / f"{part}.safetensors")
    whole = stored(tmp_path / "whole", x=torch.zeros(2), y=torch.zeros(2))
    runs = [Checkpoint(tmp_path / name, name) for name in "ab"]
    write_fused(runs, tmp_path / "out", Weighting(), base=whole, deviations=Deviations.measure(whole, runs))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    torch.testing.assert_close(
        load_file(tmp_path / "out" / "model-00002-of-00002.safetensors")["y"], torch.full((2,), 5 / 3)
    )


def test_a_broken_file_and_a_tensor_in_two_files_are_refused(tmp_path):
    run = stored(tmp_path / "run", x=torch.zeros(2))
    save_file({"x": torch.zeros(2)}, run.folder / "model_fp16.safetensors")
    with pytest.raises(InputError, match=r"x stands in model\.safetensors and in model_fp16\.safetensors"):
        Checkpoint(run.folder, "run")
    (run.folder / "model_fp16.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(InputError, match=r"run: model_fp16\.safetensors cannot be read as safetensors"):
        Checkpoint(run.folder, "run")
    with pytest.raises(InputError, match="holds no weights in safetensors"):
        Checkpoint(tmp_path / "nothing", "nothing")


@pytest.fixture
def models(tmp_path):
    """Folders of a base and two runs of one architecture."""
    for seed, name in enumerate(("base", "one", "two")):
        tiny_encoder(tmp_path / name, seed=seed)
    return tmp_path


def check(folder):
    base, *runs = (Checkpoint(folder / name, name) for name in ("base", "one", "two"))
    require_alike(base, runs)


def edit(file, **changes):
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_models_of_one_architecture_are_alike(models):
    check(models)
    edit(models / "two/tokenizer.json", version="9", truncation={"max_length": 7})
    edit(models / "two/config.json", transformers_version="9", dtype="float16")
    # The base gives its weights alone, and older libraries stored integer buffers too.
    edit(models / "base/1_Pooling/config.json", pooling_mode="cls")
    tensors = load_file(models / "base/model.safetensors")
    save_file({**tensors, "embeddings.position_ids": torch.arange(4)}, models / "base/model.safetensors")
    check(models)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda f: edit(f / "two/1_Pooling/config.json", pooling_mode="cls"),
            "two: 1_Pooling/config.json says pooling",
        ),
        (lambda f: edit(f / "two/config_sentence_transformers.json", prompts={"query": "q: "}), "says prompts = "),
        (
            lambda f: tiny_encoder(f / "two", normalize=False),
            "two: its modules are Transformer, Pooling, those of one",
        ),
        (lambda f: edit(f / "two/tokenizer.json", normalizer=None), "two: has another tokenizer than one"),
        (lambda f: (f / "two/config.json").write_text("{"), "two: config.json cannot be read as JSON"),
        (lambda f: (f / "base/tokenizer.json").unlink(), "base: has another tokenizer than one"),
        (lambda f: swap(f / "two", "pooler.dense.bias"), r"two: lacks the tensor pooler\.dense\.bias, which one has"),
        (lambda f: swap(f / "base", "x", torch.zeros(3)), "base: has the tensor x, which one lacks"),
        (
            lambda f: swap(f / "base", "pooler.dense.bias", torch.zeros(3)),
            r"base: the tensor pooler\.dense\.bias holds 3 numbers, that of one 32 numbers",
        ),
        (
            lambda f: swap(f / "two", "pooler.dense.bias", torch.zeros(32, dtype=torch.int64)),
            "holds 32 integers, that of one 32 numbers",
        ),
    ],
)
def test_what_is_not_alike_is_refused_by_name(change, said, models):
    change(models)
    with pytest.raises(InputError, match=said):
        check(models)


def swap(folder, name, tensor=None):
    """Replace a tensor of a model, or take it away."""
    tensors = {**load_file(folder / "model.safetensors"), name: tensor}
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / "model.safetensors")
