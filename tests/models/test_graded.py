from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import BoW

from gradate.errors import GradateError, InputError, MissingHeadError
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.scale import LabelScale
from tests.tiny import DIMENSION, tiny_encoder

SCALE = LabelScale.from_names(["no", "partly", "yes"])
PAIRS = [("where is my order", "track a parcel"), ("cancel it", "cancel it"), ("refund", "the sky is blue")]
TEXTS = [text for pair in PAIRS for text in pair]
OBJECTIVE = {"name": "smooth-k2", "k": 2.0, "x0": 0.25, "boundary": "both"}


@dataclass(frozen=True)
class Columns:
    text1: tuple[str, ...] = tuple(a for a, _ in PAIRS)
    text2: tuple[str, ...] = tuple(b for _, b in PAIRS)


def graded(
    *, normalize: bool = True, scale: LabelScale | None = SCALE, bias: float = 1.0, **head: object
) -> GradedModel:
    torch.manual_seed(0)
    pair_head = PairHead(DIMENSION, **head)  # type: ignore[arg-type]
    torch.nn.init.constant_(pair_head.linear.bias, bias)
    return GradedModel(tiny_encoder(normalize=normalize), pair_head, scale, OBJECTIVE, precision="fp32", name="mine")


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("features", ["raw", "normalized"])
def test_the_head_reads_the_state_it_says(normalize: bool, features: str) -> None:
    model = graded(normalize=normalize, features=features)
    pooled = torch.from_numpy(tiny_encoder(normalize=False).encode(TEXTS))
    states = pooled if features == "raw" else torch.nn.functional.normalize(pooled)
    assert model.head is not None
    expected = model.head(states[::2], states[1::2]).detach().numpy()
    np.testing.assert_allclose(model.predict(PAIRS, clip=False), expected, atol=1e-5)


def test_pairs_come_as_a_list_or_as_columns() -> None:
    model = graded()
    assert np.array_equal(model.predict(PAIRS), model.predict(Columns()))
    for bad in (["ab", "cd"], [("a", "b", "c")], [("a", 1)]):
        with pytest.raises(InputError, match=r"pairs\[0\]: expected pairs of two texts"):
            model.predict(bad)  # type: ignore[arg-type]


def test_no_pairs_give_no_scores() -> None:
    model = graded()
    assert model.predict([]).shape == model.similarity([]).shape == (0,)
    assert model.classify([]) == []


def test_clipping_is_optional_and_countable() -> None:
    model = graded(bias=5.0)
    free = model.predict(PAIRS, clip=False)
    clipped = model.predict(PAIRS)
    assert free.dtype == np.float64 and (free > 2).all()
    assert (clipped == 2).all()
    assert int((SCALE.clamp(free) != free).sum()) == 3
    assert model.classify(PAIRS) == ["yes"] * 3


def test_a_tied_head_does_not_mind_the_order_of_the_texts() -> None:
    model = graded(tied=True)
    swapped = [(b, a) for a, b in PAIRS]
    assert np.array_equal(model.predict(PAIRS), model.predict(swapped))
    assert np.array_equal(model.similarity(PAIRS), model.similarity(swapped))
    assert not np.allclose(graded().predict(PAIRS), graded().predict(swapped), atol=1e-4)


def test_k_outputs_classify() -> None:
    model = graded(outputs=3, scale=LabelScale.from_names(["no", "partly", "yes"], [0, 0.5, 2]))
    assert model.head is not None
    with torch.no_grad():
        model.head.linear.weight.zero_()
        model.head.linear.bias.copy_(torch.tensor([0.0, 3.0, 1.0]))
    assert model.predict(PAIRS).tolist() == [0.5] * 3
    assert model.classify(PAIRS) == ["partly"] * 3
    for scale in (None, LabelScale.continuous(0, 5), LabelScale.from_values([0, 1])):
        with pytest.raises(InputError, match="3 outputs needs a scale with 3 grades"):
            graded(outputs=3, scale=scale)


def test_a_continuous_scale_predicts_and_does_not_classify() -> None:
    model = graded(scale=LabelScale.continuous(0, 5))
    assert model.predict(PAIRS).shape == (3,)
    with pytest.raises(InputError, match="has no classes"):
        model.classify(PAIRS)


def test_without_a_head_it_measures_similarity_only() -> None:
    model = GradedModel(tiny_encoder(), name="owner/model")
    plain = model.encoder.encode(TEXTS)
    np.testing.assert_allclose(model.similarity(PAIRS), np.sum(plain[::2] * plain[1::2], axis=1), atol=1e-3)
    assert model.score(PAIRS).prediction is None
    for call in (model.predict, model.classify):
        with pytest.raises(MissingHeadError, match=r"owner/model: has no pair head.*gradate train two-stage"):
            call(PAIRS)
    with pytest.raises(MissingHeadError, match="a pair head without a scale"):
        graded(scale=None).predict(PAIRS)


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reads embeddings of width 7, the encoder's have width 32"):
        GradedModel(tiny_encoder(), PairHead(7), SCALE)
    folder = graded().save(tmp_path / "model")
    PairHead(7).save(folder / "graded_head", SCALE)
    with pytest.raises(InputError, match=r"model: the pair head reads .* width 7.*delete graded_head and run"):
        GradedModel.from_pretrained(folder)


def test_zero_vectors_count_as_undefined() -> None:
    bag = SentenceTransformer(modules=[BoW(vocab=["order", "parcel"])], device="cpu", local_files_only=True)
    scores = GradedModel(bag).score([("order", "order parcel"), ("order", "sky"), ("sky", "sea")])
    np.testing.assert_allclose(scores.similarity, [np.sqrt(0.5), 0, 0], atol=1e-6)
    assert scores.undefined == 2


@pytest.mark.parametrize("precision", ["fp32", "bf16", "auto"])
def test_encode_is_plain_encode(precision: str) -> None:
    encoder = tiny_encoder(normalize=False)
    encoder.prompts["query"] = "find: "
    model = GradedModel(encoder, precision=precision)
    options: list[dict[str, Any]] = [
        {},
        {"batch_size": 2, "normalize_embeddings": True},
        {"prompt_name": "query"},
        {"prompt": "say: ", "show_progress_bar": False},
    ]
    for option in options:
        ours, theirs = model.encode(TEXTS, **option), encoder.encode(TEXTS, **option)
        assert isinstance(ours, np.ndarray) and ours.dtype == np.float32 and ours.shape == theirs.shape
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        assert (np.sum(ours * theirs, axis=1) / lengths).min() >= 0.9995
    np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS, normalize_embeddings=True), axis=1), 1, atol=1e-3)
    tensor = model.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32 and tensor.shape == (6, DIMENSION)
    assert np.array_equal(model.encode(np.array(TEXTS)), model.encode(TEXTS))
    assert model.encode("one text").shape == (DIMENSION,)
    assert model.encode([]).shape == encoder.encode([]).shape


def test_precision_belongs_to_the_object() -> None:
    encoder = tiny_encoder()
    full, half = GradedModel(encoder, precision="fp32"), GradedModel(encoder, precision="bf16")
    assert (full.precision.name, half.precision.name) == ("fp32", "bf16")
    np.testing.assert_allclose(full.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    assert not np.allclose(half.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


# Run where gradate cannot be imported.
_PLAIN = """
import sys
sys.modules["gradate"] = None
import numpy, sentence_transformers
model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
numpy.save(sys.argv[2], model.encode(sys.argv[3:]))
try:
    import gradate
except ImportError:
    print("plain", model.max_seq_length)
"""


def test_a_saved_model_opens_in_plain_sentence_transformers_with_identical_embeddings(tmp_path: Path) -> None:
    model = graded()
    model.encoder.max_seq_length = 12
    folder = model.save(tmp_path / "model")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", _PLAIN, str(folder), str(tmp_path / "plain.npy"), *TEXTS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["plain", "12"]
    assert np.array_equal(np.load(tmp_path / "plain.npy"), model.encoder.encode(TEXTS))


@pytest.mark.parametrize("normalize", [True, False])
def test_save_and_open_again_without_network(normalize: bool, tmp_path: Path, no_network: list[str]) -> None:
    model = graded(normalize=normalize, concatenation="u,v,u*v", tied=True)
    model.encoder.prompts["query"] = "find: "
    folder = model.save(tmp_path / "deep" / "model", card="# My card\n")
    again = GradedModel.from_pretrained(folder, device="cpu", precision="fp32")
    assert np.array_equal(again.encode(TEXTS), model.encode(TEXTS))
    assert np.array_equal(again.predict(PAIRS, clip=False), model.predict(PAIRS, clip=False))
    assert (again.scale, again.objective, again.encoder.prompts) == (SCALE, OBJECTIVE, model.encoder.prompts)
    assert (folder / "README.md").read_text() == "# My card\n"
    assert no_network == []


def test_the_folder_holds_safetensors_only_and_nothing_of_this_machine(tmp_path: Path) -> None:
    folder = graded().save(tmp_path / "model")
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".safetensors", ".md"}
    assert "library_name: sentence-transformers" in (folder / "README.md").read_text()
    for path in folder.rglob("*.json"):
        assert str(tmp_path) not in path.read_text()
    assert {p.name for p in (folder / "graded_head").iterdir()} == {"config.json", "model.safetensors"}
    config = json.loads((folder / "graded_head" / "config.json").read_text())
    assert config["scale"]["names"] == ["no", "partly", "yes"] and config["objective"] == OBJECTIVE
    mask = os.umask(0)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o777 if path.is_dir() else 0o666) & ~mask


def test_saving_over_something(tmp_path: Path) -> None:
    model = graded()
    target = tmp_path / "model"
    target.mkdir()
    model.save(target)
    with pytest.raises(InputError, match=r"model: is not empty \(name another folder, or pass overwrite=True\)"):
        model.save(target)
    other = graded(bias=2.0)
    other.save(target, overwrite=True)
    assert np.array_equal(GradedModel.from_pretrained(target, precision="fp32").predict(PAIRS), other.predict(PAIRS))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not empty and holds no model"):
        model.save(precious, overwrite=True)
    with pytest.raises(InputError, match="is a file, not a folder"):
        model.save(precious / "thesis.txt", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "precious"]


def test_a_failing_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = graded()
    before = sorted(path.name for path in model.save(tmp_path / "model").rglob("*"))

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PairHead, "save", full_disk)
    for target in (tmp_path / "new", tmp_path / "model"):
        with pytest.raises(GradateError, match=r"cannot be written, and is as it was before: .*No space left"):
            model.save(target, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert sorted(path.name for path in (tmp_path / "model").rglob("*")) == before


def test_the_old_model_comes_back_if_the_last_rename_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = graded()
    model.save(tmp_path / "model")

    def fail(*_: object) -> None:
        raise OSError("no rename")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(GradateError, match="no rename"):
            graded(bias=2.0).save(tmp_path / "model", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert np.array_equal(
        GradedModel.from_pretrained(tmp_path / "model", precision="fp32").predict(PAIRS), model.predict(PAIRS)
    )


def test_an_encoder_that_saves_pickles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = graded()
    original = model.encoder.save_pretrained

    def with_pickle(path: str, **options: object) -> None:
        original(path, **options)
        (Path(path) / "1_Pooling" / "pytorch_model.bin").write_bytes(b"")

    monkeypatch.setattr(model.encoder, "save_pretrained", with_pickle)
    with pytest.raises(InputError, match=r"saves pickles \(1_Pooling/pytorch_model\.bin\)"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
