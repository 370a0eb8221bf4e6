"""Fusing whole model folders: what opens afterwards, what becomes of heads, and what is never left behind."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from gradate.errors import GradateError, InputError
from gradate.models.graded import GradedModel
from gradate.models.head import HEAD_FOLDER, PairHead
from gradate.runs import soups
from gradate.runs.fuse import fuse
from gradate.runs.soups import greedy_soup
from gradate.scale import LabelScale
from tests.graded import SCALE, graded_pairs, write_csv
from tests.tiny import DIMENSION, tiny_encoder

TEXTS = ["a b c", "c d e f", "x"]


def head(bias, **settings):
    made = PairHead(DIMENSION, concatenation="|u-v|", **settings)
    with torch.no_grad():
        made.linear.weight.fill_(bias / 10)
        made.linear.bias.fill_(bias)
    return made


def model(folder, *, seed, bias=None, scale=SCALE, **settings):
    made = head(bias, **settings) if bias is not None else None
    GradedModel(tiny_encoder(seed=seed), made, scale if made else None, {"name": "mse"}).save(folder)
    return str(folder)


@pytest.fixture
def family(tmp_path):
    """A base without a head and three runs with one."""
    base = model(tmp_path / "base", seed=0)
    return base, [model(tmp_path / f"run{i}", seed=i, bias=float(i)) for i in (1, 2, 3)]


def test_the_fused_folder_opens_everywhere_and_holds_the_weighted_mean(family, tmp_path):
    base, runs = family
    found = fuse(base, runs, tmp_path / "out", rule="uniform")
    assert found.weights == pytest.approx((1 / 3,) * 3)
    weights = [load_file(tmp_path / f"run{i}" / "model.safetensors") for i in (1, 2, 3)]
    for name, value in load_file(tmp_path / "out" / "model.safetensors").items():
        torch.testing.assert_close(value, torch.stack([tensors[name] for tensors in weights]).mean(dim=0))
    plain = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    graded = GradedModel.from_pretrained(tmp_path / "out", device="cpu", precision="fp32")
    np.testing.assert_allclose(graded.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)
    assert graded.head is not None and graded.head.linear.bias.item() == pytest.approx(2)
    assert graded.scale == SCALE and graded.objective == {"name": "mse"}
    assert {path.name for path in tmp_path.iterdir()} == {"base", "out", "run1", "run2", "run3"}


@pytest.mark.parametrize(("method", "parameters"), [("linear", None), ("ties", {"density": 0.5})])
def test_sentence_transformers_own_merge_opens_what_is_saved(method, parameters, family, tmp_path):
    pytest.importorskip("mergekit", reason="the extra `merge` is not installed")
    base, runs = family
    own = {} if method == "linear" else {"base_model": base, "parameters": parameters}
    merged = SentenceTransformer.merge(runs, method=method, device="cpu", local_files_only=True, **own)
    merged.save_pretrained(str(tmp_path / "merged"))
    opened = GradedModel.from_pretrained(tmp_path / "merged", device="cpu", precision="fp32")
    assert opened.head is None
    if method == "linear":
        fuse(base, runs, tmp_path / "fused", rule="uniform")
        fused = GradedModel.from_pretrained(tmp_path / "fused", device="cpu", precision="fp32")
        np.testing.assert_allclose(opened.encode(TEXTS), fused.encode(TEXTS), atol=1e-5)


def test_runs_that_read_texts_of_other_lengths_say_so(family, tmp_path):
    base, (first, second, _) = family
    assert fuse(base, [first, second], tmp_path / "same", rule="uniform").notes == ()
    shorter = SentenceTransformer(second, device="cpu", local_files_only=True)
    shorter.max_seq_length = 9
    shorter.save_pretrained(second)
    (note,) = fuse(base, [first, second], tmp_path / "out", rule="uniform").notes[:1]
    assert note.startswith("it reads as many tokens of a text as run1 does: run1 ") and note.endswith(", run2 9")


def test_identical_runs_are_that_run(family, tmp_path):
    base, (run, *_) = family
    shutil.copytree(run, tmp_path / "copy")
    fuse(base, [run, str(tmp_path / "copy")], tmp_path / "out")
    before, after = (GradedModel.from_pretrained(f, precision="fp32") for f in (run, tmp_path / "out"))
    assert np.array_equal(before.encode(TEXTS), after.encode(TEXTS))
    assert np.array_equal(before.predict([("a", "b")]), after.predict([("a", "b")]))


def test_what_was_done_lies_in_the_folder_without_paths_of_this_machine(family, tmp_path):
    base, runs = family
    found = fuse(base, runs, tmp_path / "out", rule="softmax", level="layer", temperature=0.5, pull_back=0.1)
    written = json.loads((tmp_path / "out" / "fusion.json").read_text())
    assert written["runs"] == ["run1", "run2", "run3"] and written["base"] == "base"
    assert (written["rule"], written["level"]) == ("softmax", "layer")
    assert (written["temperature"], written["pull_back"]) == (0.5, 0.1)
    assert list(written["weights"].values()) == list(found.weights)
    assert written["notes"] == list(found.notes) and "no pair head to deviate from" in found.notes[0]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "softmax, by layer, pulled back 0.1" in card and "| `run2` |" in card
    for file in (tmp_path / "out").rglob("*.*"):
        assert str(tmp_path) not in file.read_text(encoding="latin-1")


def test_heads_deviate_from_the_head_of_the_base(family, tmp_path):
    _, runs = family
    base = model(tmp_path / "graded", seed=0, bias=0.0)
    found = fuse(base, runs[1:], tmp_path / "out")
    written = PairHead.load(tmp_path / "out" / HEAD_FOLDER)[0]
    assert found.notes == ()
    assert written.linear.bias.item() == pytest.approx(2 * 2 / 5 + 3 * 3 / 5)  # weights as 2 : 3


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({}, "only run1 of 2 runs brought one"),
        ({"bias": 1.0, "scale": LabelScale.from_values([0, 1, 2])}, "run1 has scale 0,1,2,3, other has 0,1,2"),
        ({"bias": 1.0, "features": "normalized"}, "run1 has features raw, other has normalized"),
    ],
)
def test_heads_that_do_not_go_together_are_left_out(made, said, family, tmp_path):
    base, (run, *_) = family
    other = model(tmp_path / "other", seed=7, **made)
    found = fuse(base, [run, other], tmp_path / "out")
    assert len(found.notes) == 1 and said in found.notes[0]
    assert GradedModel.from_pretrained(tmp_path / "out").head is None


def test_the_table_of_values_is_that_of_the_models(family, tmp_path):
    base, runs = family
    file = write_csv(tmp_path / "letters.csv", graded_pairs(40))
    found = fuse(base, runs, tmp_path / "out", rule="greedy", select=str(file), precision="fp32")
    judge = soups.Judge(soups.selection_sets(str(file)), "fp32")
    selection = found.selection
    assert selection is not None and (selection.sets, selection.pairs) == (("letters",), 40)
    assert selection.base == judge(tmp_path / "base")
    assert selection.runs == tuple(judge(tmp_path / f"run{i}") for i in (1, 2, 3))
    assert found.value == selection.greedy == judge(tmp_path / "out")
    assert selection.greedy >= max(selection.runs) == selection.runs[selection.chosen[0]]
    inside = [weight > 0 for weight in found.weights]
    assert inside == [position in selection.chosen for position in range(3)]
    soup = fuse(base, runs, tmp_path / "soup", rule="uniform", select=str(file), precision="fp32")
    assert soup.value == pytest.approx(selection.uniform)


def test_a_greedy_soup_takes_what_does_not_lower_it(monkeypatch):
    worth = {"a": 5.0, "b": 7.0, "c": 6.0, "d": 1.0}
    soup = {("b", "c"): 6.9, ("b", "a"): 7.0, ("b", "a", "d"): 8.0}
    monkeypatch.setattr(soups, "soup_value", lambda runs, judge: soup[tuple(runs)])
    assert greedy_soup(list(worth), list(worth.values()), None) == ((1, 0, 3), 8.0)


def test_a_run_folder_stands_for_its_model(family, tmp_path):
    base, (one, two, _) = family
    (tmp_path / "runs").mkdir()
    shutil.copytree(two, tmp_path / "runs" / "model")
    (tmp_path / "runs" / "status.json").write_text("{}")
    found = fuse(base, [one, str(tmp_path / "runs")], tmp_path / "out")
    assert len(found.weights) == 2
    shutil.rmtree(tmp_path / "runs" / "model")
    with pytest.raises(InputError, match="is no finished run"):
        fuse(base, [one, str(tmp_path / "runs")], tmp_path / "other")


def test_few_or_repeated_runs_are_refused(family, tmp_path):
    base, (one, *_) = family
    with pytest.raises(InputError, match="at least two runs"):
        fuse(base, [one], tmp_path / "out")
    with pytest.raises(InputError, match="is the same model as"):
        fuse(base, [one, f"{one}/"], tmp_path / "out")
    with pytest.raises(InputError, match="chosen by its value on pairs"):
        fuse(base, [one, one], tmp_path / "out", rule="greedy")


def test_pickles_and_exported_graphs_are_refused(family, tmp_path):
    base, (one, two, _) = family
    weights = tmp_path / "run2" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(InputError, match="the weights are a pickle"):
        fuse(base, [one, two], tmp_path / "out")
    weights.with_name("pytorch_model.bin").unlink()
    (tmp_path / "run2" / "onnx").mkdir()
    (tmp_path / "run2" / "onnx" / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="is an exported graph"):
        fuse(base, [one, two], tmp_path / "out")


def test_nothing_half_written_stays(family, tmp_path, monkeypatch):
    base, (one, two, _) = family
    before = sorted(path.name for path in tmp_path.iterdir())
    tensors = load_file(tmp_path / "run2" / HEAD_FOLDER / "model.safetensors")
    tensors["linear.bias"][0] = math.nan
    save_file(tensors, tmp_path / "run2" / HEAD_FOLDER / "model.safetensors")
    with pytest.raises(InputError, match=r"run2, pair head: the tensor linear\.bias holds NaN"):
        fuse(base, [one, two], tmp_path / "out")

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradate.runs.fuse.write_fused", full_disk)
    with pytest.raises(GradateError, match="No space left on device"):
        fuse(base, [one, two], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_no_whole_model_is_loaded_to_fuse(family, tmp_path, monkeypatch):
    base, runs = family

    def refuse(*_, **__):
        raise AssertionError("a whole model was loaded")

    monkeypatch.setattr("gradate.models.loading.SentenceTransformer", refuse)
    fuse(base, runs, tmp_path / "out", level="element")
