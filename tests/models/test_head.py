from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gradate.errors import InputError
from gradate.models.concatenation import CONCATENATIONS, feature_blocks
from gradate.models.head import PairHead, pair_features
from gradate.scale import LabelScale

SCALE = LabelScale.from_names(["no", "partly", "yes"])
U = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
V = torch.tensor([[2.0, 2.0], [0.5, -1.0]])


@pytest.mark.parametrize(
    ("concatenation", "tied", "expected"),
    [
        ("u,v,|u-v|", False, [1, -2, 2, 2, 1, 4]),
        ("u,v", False, [1, -2, 2, 2]),
        ("|u-v|", False, [1, 4]),
        ("u*v", False, [2, -4]),
        ("|u-v|,u*v", False, [1, 4, 2, -4]),
        ("u,v,u*v", False, [1, -2, 2, 2, 2, -4]),
        ("u,v,|u-v|,u*v", False, [1, -2, 2, 2, 1, 4, 2, -4]),
        ("u,v,|u-v|", True, [3, 0, 1, 4]),
        ("u*v", True, [2, -4]),
    ],
)
def test_features_by_hand(concatenation: str, tied: bool, expected: list[float]) -> None:
    assert pair_features(U, V, concatenation, tied)[0].tolist() == expected


def test_unknown_concatenation_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown concatenation 'v,u'.*u,v,\|u-v\|"):
        feature_blocks("v,u")


def test_one_output_is_the_paper_s_regression() -> None:
    head = PairHead(2)
    w, b = head.linear.weight.detach().numpy()[0], head.linear.bias.item()
    u, v = U.numpy(), V.numpy()
    expected = np.concatenate([u, v, np.abs(u - v)], axis=1) @ w + b
    assert head(U, V).shape == (2,)
    np.testing.assert_allclose(head(U, V).detach().numpy(), expected, rtol=1e-5)


def test_k_outputs_are_logits() -> None:
    assert PairHead(2, outputs=3)(U, V).shape == (2, 3)


@pytest.mark.parametrize("concatenation", CONCATENATIONS)
def test_a_tied_head_is_symmetric_to_the_last_bit(concatenation: str) -> None:
    torch.manual_seed(0)
    u, v = torch.randn(40, 16), torch.randn(40, 16)
    head = PairHead(16, concatenation=concatenation, tied=True)
    assert torch.equal(head(u, v), head(v, u))


def test_an_untied_head_is_not_symmetric() -> None:
    assert not torch.allclose(PairHead(2)(U, V), PairHead(2)(V, U))


def test_normalized_features_ignore_the_lengths() -> None:
    head = PairHead(2, features="normalized")
    assert torch.allclose(head(U, V), head(7 * U, V / 3))
    assert not torch.allclose(head(U, V), head.linear(pair_features(U, V, "u,v,|u-v|")).squeeze())


def test_rescaling_re_expresses_the_predictions() -> None:
    head = PairHead(2)
    before = head(U, V)
    head.rescale(*LabelScale.continuous(0, 2).map_to(LabelScale.continuous(1, 5)))
    assert torch.allclose(head(U, V), 2 * before + 1, atol=1e-6)
    with pytest.raises(InputError, match="3 outputs cannot be rescaled"):
        PairHead(2, outputs=3).rescale(2, 0)


@pytest.mark.parametrize(
    "bad", [{"dim": 0}, {"dim": 2, "outputs": 0}, {"dim": 2, "features": "unit"}, {"dim": 2, "concatenation": "u"}]
)
def test_bad_arguments_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        PairHead(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [SCALE, LabelScale.continuous(0, 5), None])
def test_save_and_load(tmp_path: Path, scale: LabelScale | None) -> None:
    head = PairHead(2, concatenation="u,v,u*v", tied=True, features="normalized")
    head.save(tmp_path / "graded_head", scale, {"name": "smooth-k2", "k": 2.0})
    assert sorted(p.name for p in (tmp_path / "graded_head").iterdir()) == ["config.json", "model.safetensors"]
    state = torch.random.get_rng_state()
    loaded, loaded_scale, objective = PairHead.load(tmp_path / "graded_head")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert loaded.get_config_dict() == head.get_config_dict()
    assert torch.equal(loaded(U, V), head(U, V)) and not loaded.training
    assert (loaded_scale, objective) == (scale, {"name": "smooth-k2", "k": 2.0})


def _saved(folder: Path) -> Path:
    PairHead(2).save(folder, SCALE)
    return folder


def _set(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_broken_head_folders_say_what_and_how_to_proceed(tmp_path: Path) -> None:
    def broken(name: str) -> Path:
        return _saved(tmp_path / name)

    cases: list[tuple[Path, str]] = []
    cases.append((folder := broken("no-config"), "config.json: the configuration of the pair head is missing"))
    (folder / "config.json").unlink()
    cases.append((folder := broken("no-json"), "config.json: cannot be read as JSON"))
    (folder / "config.json").write_text("{")
    cases.append((folder := broken("list"), "config.json: must hold a JSON object"))
    (folder / "config.json").write_text("[]")
    cases.append((folder := broken("no-dim"), "config.json: lacks 'dim'"))
    (folder / "config.json").write_text("{}")
    cases.append((folder := broken("concatenation"), "unknown concatenation 'v'"))
    _set(folder, concatenation="v")
    cases.append((folder := broken("no-weights"), "model.safetensors: the weights of the pair head are missing"))
    (folder / "model.safetensors").unlink()
    cases.append((folder := broken("truncated"), "model.safetensors: cannot be read as safetensors"))
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:20])
    cases.append((folder := broken("width"), r"linear\.weight 1×6 where config\.json asks for .*linear\.weight 1×9"))
    _set(folder, dim=3)
    cases.append((folder := broken("names"), "the head's weights are other 2"))
    save_file({"other": torch.zeros(2)}, folder / "model.safetensors")
    for folder, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            PairHead.load(folder)
        assert "gradate train" in str(caught.value)


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("opened"),)


def test_a_pickle_beside_the_head_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = _saved(tmp_path / "head")
    (folder / "model.bin").write_bytes(pickle.dumps(_Bomb()))
    PairHead.load(folder)
    (folder / "model.safetensors").write_bytes((folder / "model.bin").read_bytes())
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        PairHead.load(folder)
    assert not Path("opened").exists()
