from __future__ import annotations

import json
import logging
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from gradate.errors import InputError
from gradate.models import loading
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.models.loading import find_pickles, open_encoder, resolve_model
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

SCALE = LabelScale.from_values([0, 1, 2])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return GradedModel(tiny_encoder(), PairHead(32), SCALE).save(tmp_path_factory.mktemp("models") / "saved")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (Path("opened"),)


def _plant(path: Path) -> None:
    path.write_bytes(pickle.dumps(_Bomb()))


def test_a_folder_opens_in_float32_evaluation_mode_without_network(saved: Path, no_network: list[str]) -> None:
    encoder = open_encoder(resolve_model(saved))
    assert encoder.dtype == torch.float32 and not encoder.training
    assert encoder.model_card_data.local_files_only
    assert no_network == []


def test_half_precision_weights_are_read_as_float32(tmp_path: Path) -> None:
    encoder = tiny_encoder().to(torch.bfloat16)
    encoder.save_pretrained(str(tmp_path / "half"), create_model_card=False)
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
    assert open_encoder(tmp_path / "half").dtype == torch.float32


@pytest.mark.parametrize(
    "name", ["./nowhere", "/no/such/folder", "a/b/c", "~/nowhere-at-all", "two words", "runs/mine", "owner/model/"]
)
def test_what_is_no_hub_name_is_a_missing_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[str]
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no such model folder \(a model is 'bundled', a folder, or a Hub name"):
        resolve_model(name)
    assert no_network == []


def test_a_missing_path_object_is_never_a_hub_name(no_network: list[str]) -> None:
    with pytest.raises(InputError, match="no such model folder"):
        resolve_model(Path("owner") / "model")
    assert no_network == []


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("owner/model", "owner/model"),
        ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("bert-base-uncased", "bert-base-uncased"),
    ],
)
def test_hub_names_are_downloaded_without_pickles(
    name: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}

    def download(repo_id: str, **options: object) -> str:
        asked.update(options, repo_id=repo_id)
        return str(tmp_path)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "snapshot_download", download)
    assert resolve_model(name, revision="v1") == tmp_path
    assert (asked["repo_id"], asked["revision"]) == (repository, "v1")
    assert {"*.bin", "*.pkl", "*.pt", "*.ckpt"} <= set(asked["ignore_patterns"])  # type: ignore[call-overload]


def test_bundled_wins_over_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bundled").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "bundled_path", lambda: tmp_path / "package")
    assert resolve_model("bundled") == tmp_path / "package"
    assert resolve_model("./bundled") == Path("bundled")


def test_a_file_and_a_folder_without_model(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"weights\.safetensors: is a file, not a model folder"):
        resolve_model(tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match=r"it has neither modules\.json nor config\.json"):
        open_encoder(tmp_path)
    shutil.copytree(saved, tmp_path / "run" / "model")
    with pytest.raises(InputError, match=r"did you mean .*run/model\?"):
        open_encoder(tmp_path / "run")


@pytest.mark.parametrize("with_modules", [True, False])
def test_pickled_weights_are_refused_unopened(
    folder: Path, with_modules: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    if not with_modules:
        (folder / "modules.json").unlink()
    _plant(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pickle \(pytorch_model\.bin\).*never opened \(convert them") as caught:
        GradedModel.from_pretrained(folder)
    assert str(folder) in str(caught.value)
    assert not Path("opened").exists()


def test_pickles_in_module_and_head_folders_are_refused_unopened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _plant(folder / "1_Pooling" / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pickle \(1_Pooling/pytorch_model\.bin\)"):
        GradedModel.from_pretrained(folder)
    (folder / "1_Pooling" / "pytorch_model.bin").unlink()
    (folder / "graded_head" / "model.safetensors").unlink()
    _plant(folder / "graded_head" / "head.pt")
    with pytest.raises(InputError, match=r"pair head is a pickle \(graded_head/head\.pt\).*gradate train"):
        GradedModel.from_pretrained(folder)
    assert not Path("opened").exists()


def test_pickles_beside_safetensors_are_named_and_left_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pytorch_model.bin", "training_args.bin", "extra.PKL"):
        _plant(folder / name)
    _plant(folder / "graded_head" / "head.pt")
    with caplog.at_level(logging.WARNING, logger="gradate"):
        model = GradedModel.from_pretrained(folder)
    assert model.head is not None
    assert "extra.PKL, graded_head/head.pt, pytorch_model.bin, training_args.bin" in caplog.text
    assert "not opened" in caplog.text and "delete them" in caplog.text
    assert len(find_pickles(folder)) == 4
    assert not Path("opened").exists()


def test_no_weights_at_all(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"no safetensors weights .*choose a revision or a copy"):
        open_encoder(folder)


def test_adapter_folders_name_their_base(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "adapter").mkdir()
    adapter = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "owner/base"})
    for place in (tmp_path / "adapter", folder):
        (place / "adapter_config.json").write_text(adapter)
        with pytest.raises(InputError, match=r"a PEFT adapter of owner/base, not a whole model \(merge the adapter"):
            open_encoder(place)


def test_code_of_its_own_needs_trust(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "custom.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "custom.py").write_text("raise AssertionError('run')\n")
    with pytest.raises(InputError, match=r"brings Python code of its own .*trust_remote_code=True"):
        open_encoder(folder)


def test_broken_files_are_named_in_one_line(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="cannot be opened as a sentence-transformers model") as caught:
        open_encoder(folder, name="mine")
    assert str(caught.value).startswith("mine: ") and "\n" not in str(caught.value)
    (folder / "modules.json").write_text("[{}]")
    with pytest.raises(InputError, match=r"modules\.json cannot be read: 'path'"):
        open_encoder(folder)
    (folder / "modules.json").write_text('[{"path": "../other", "type": "x"}]')
    with pytest.raises(InputError, match="a path outside the model folder"):
        open_encoder(folder)


def test_a_plain_transformer_gets_mean_pooling(folder: Path) -> None:
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "1_Pooling")
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    texts = ["a text", "another"]
    assert (open_encoder(folder).encode(texts) == plain.encode(texts)).all()
