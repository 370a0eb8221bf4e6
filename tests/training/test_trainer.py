"""What sentence-transformers' trainer leaves out for a head, and gradate's trainer does."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gradate.errors import GradateError, InputError, TrainingStopped
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import PairObjective
from gradate.training.callbacks.observer import SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import StageResult, hand_over_head, run_stage
from gradate.training.stage import SelectionConfig, Stage
from gradate.training.trainer import last_checkpoint, parameter_groups
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

OBJECTIVE = ObjectiveConfig(k=2.0, x0=0.25)
Train = Callable[..., tuple[GradedModel, StageResult]]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    def run(folder: str = "stage", observer: Any = None, pairs: Any = None, **settings: Any) -> Any:
        model = GradedModel(tiny_encoder(), precision="fp32")
        pairs = pairs if pairs is not None else graded_pairs(64)
        hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
        values: dict[str, Any] = {
            "objective": OBJECTIVE,
            "epochs": 2,
            "batch_size": 8,
            "learning_rate": 5e-3,
            "evaluate_every": 4,
        }
        log = RunLog(tmp_path / "log.jsonl")
        stage = Stage(**values | settings)
        selection = {"dev": graded_pairs(40, seed=9)} if stage.selection is not None else None
        result = run_stage(
            stage,
            model,
            pairs,
            folder=tmp_path / folder,
            log=log,
            precision=model.precision,
            selection=selection,
            observer=observer,
        )
        return model, result

    return run


class Snapshots(SilentObserver):
    """Keeps a copy of the head at every update."""

    def __init__(self) -> None:
        self.heads: dict[int, torch.Tensor] = {}
        self.head: PairHead | None = None

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        if self.head is not None:
            self.heads[step] = self.head.linear.weight.detach().clone()


def test_every_checkpoint_holds_the_head(train: Train, tmp_path: Path) -> None:
    train(selection=SelectionConfig())
    checkpoints = sorted((tmp_path / "stage").glob("checkpoint-*"))
    assert checkpoints
    for checkpoint in checkpoints:
        state = load_file(checkpoint / "trained.safetensors")
        assert {"head.linear.weight", "head.linear.bias"} <= state.keys()
        assert any(name.startswith("model.") for name in state)
        assert not list(checkpoint.glob("*.bin"))


def test_best_model_comes_back_with_its_own_head(train: Train, tmp_path: Path) -> None:
    model, result = train(selection=SelectionConfig(metric="mae_head"), epochs=4, learning_rate=3e-2)
    assert model.head is not None
    best = load_file(tmp_path / "stage" / f"checkpoint-{result.step}" / "trained.safetensors")
    torch.testing.assert_close(model.head.linear.weight.detach(), best["head.linear.weight"], atol=0, rtol=0)
    for name, parameter in model.encoder.named_parameters():
        torch.testing.assert_close(parameter.detach(), best[f"model.{name}"], atol=0, rtol=0)


def test_the_start_is_kept_where_no_checkpoint_beats_it(train: Train) -> None:
    start = tiny_encoder().state_dict()
    for trainable in ("all", "lora"):
        model, result = train(trainable, trainable=trainable, selection=SelectionConfig(), learning_rate=0.3, epochs=1)
        assert result.step == 0 and result.best == result.start and result.steps == 8
        for name, value in model.encoder.state_dict().items():
            torch.testing.assert_close(value, start[name], atol=1e-6, rtol=0, msg=name)


@pytest.mark.parametrize("large_table", [1 << 20, 100])
def test_head_is_clipped_with_the_encoder(train: Train, monkeypatch: pytest.MonkeyPatch, large_table: int) -> None:
    from gradate.engine import acceleration
    from gradate.training.trainer import GradedTrainer

    monkeypatch.setattr(acceleration, "LARGE_TABLE", large_table)
    norms = []
    original = GradedTrainer._clip_grad_norm

    def recorded(self: GradedTrainer, model: torch.nn.Module) -> torch.Tensor:
        norm = original(self, model)
        gradients = [p.grad for p in self.objective.parameters() if p.grad is not None]
        norms.append((float(norm), float(torch.linalg.vector_norm(torch.stack([g.norm() for g in gradients])))))
        return norm

    monkeypatch.setattr(GradedTrainer, "_clip_grad_norm", recorded)
    train(clip=0.01, selection=None, epochs=1)
    assert len(norms) == 8
    assert all(before > 0.01 for before, _ in norms)
    assert all(after == pytest.approx(0.01, rel=1e-3) for _, after in norms)


def test_head_learns_at_its_own_rate_and_layers_decay() -> None:
    encoder, head = tiny_encoder(normalize=False), PairHead(32)
    objective = PairObjective(encoder, head, OBJECTIVE, graded_pairs(4).scale)
    stage = Stage(learning_rate=1e-3, head_learning_rate=1e-2, layer_decay=0.5, weight_decay=0.1)
    groups = parameter_groups(objective, stage)
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert len(rates) == len(list(objective.parameters()))
    assert rates[id(head.linear.weight)] == (1e-2, 0.1)
    assert rates[id(head.linear.bias)] == (1e-2, 0.0)
    for name, parameter in encoder.named_parameters():
        expected = 1e-3
        if ".layer.0." in name:
            expected = 5e-4
        elif "embeddings" in name:
            expected = 2.5e-4
        assert rates[id(parameter)][0] == pytest.approx(expected), name
    full = parameter_groups(objective, Stage(layer_decay=0.5, embeddings_rate="full", learning_rate=1e-3))
    word = encoder.get_submodule("0.model.embeddings.word_embeddings").weight
    assert next(g["lr"] for g in full if any(p is word for p in g["params"])) == 1e-3


@pytest.mark.parametrize(
    ("trainable", "moved"),
    [
        ("head", set()),
        ("last-1", {"layer.1"}),
        ("lora", {"layer.0", "layer.1"}),
        ("all", {"layer.0", "layer.1", "emb"}),
    ],
)
def test_only_what_is_trainable_moves(train: Train, trainable: str, moved: set[str]) -> None:
    start = {n: p.detach().clone() for n, p in tiny_encoder().named_parameters()}
    model, _ = train(trainable=trainable, solver="sgd", selection=None, learning_rate=0.05)
    end = dict(model.encoder.named_parameters())
    assert end.keys() == start.keys(), "adapters must be merged"
    changed = {n for n in start if not torch.equal(start[n], end[n])}
    kinds = {k for k in ("layer.0", "layer.1", "emb") if any(f".{k}" in n for n in changed)}
    assert kinds == moved
    assert all(p.requires_grad for p in end.values())


def test_training_learns(train: Train) -> None:
    _, result = train(selection=SelectionConfig(metric="mae_head"), epochs=8, learning_rate=1e-2)
    assert result.best is not None and result.start is not None
    assert result.best < 0.8 * result.start


def test_nan_stops_and_names_step_batch_and_rows(train: Train, tmp_path: Path) -> None:
    class Poison(SilentObserver):
        def __init__(self) -> None:
            self.armed = False

        def stepped(self, step: int, record: dict[str, Any]) -> None:
            self.armed = step >= 5

    poison = Poison()
    from gradate.losses.smooth_k2 import SmoothK2Loss

    original = SmoothK2Loss.penalty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SmoothK2Loss, "penalty", lambda self, x: original(self, x) * (float("nan") if poison.armed else 1.0)
        )
        with pytest.raises(TrainingStopped) as stopped:
            train(selection=None, observer=poison)
    message = str(stopped.value)
    assert "the loss became nan at step 6 (epoch 1, batch 6, rows " in message
    assert "last good checkpoint: checkpoint-4" in message
    kept = last_checkpoint(tmp_path / "stage")
    assert kept is not None and kept.name == "checkpoint-4"
    assert all(torch.isfinite(v).all() for v in load_file(kept / "trained.safetensors").values())


def test_full_disk_leaves_only_complete_checkpoints(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradate.training import trainer

    original, calls = trainer.save_file, []

    def save(state: dict[str, torch.Tensor], path: Path) -> None:
        calls.append(path)
        if len(calls) == 2:
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        original(state, path)

    monkeypatch.setattr(trainer, "save_file", save)
    with pytest.raises(GradateError, match=r"checkpoint-8: No space left on device .*checkpoint-4 is complete"):
        train(selection=None)
    assert [p.name for p in (tmp_path / "stage").glob("checkpoint-*")] == ["checkpoint-4"]


def test_checkpoint_of_another_stage_is_refused(train: Train, tmp_path: Path) -> None:
    train(selection=None, trainable="last-1", epochs=1)
    with pytest.raises(GradateError, match="does not belong to this stage"):
        train(selection=None, trainable="all", epochs=2)


def test_an_incomplete_checkpoint_is_never_resumed(train: Train, tmp_path: Path) -> None:
    whole, _ = train("whole", selection=None)
    (tmp_path / "stage" / "checkpoint-12").mkdir(parents=True)
    (tmp_path / "stage" / "checkpoint-12" / "trained.safetensors").write_bytes(b"cut off")
    model, _ = train(selection=None)
    assert model.head is not None and whole.head is not None
    assert torch.equal(model.head.linear.weight, whole.head.linear.weight)


def test_more_layers_than_there_are(train: Train) -> None:
    with pytest.raises(InputError, match=r"last-3 asks for more layers than the 2 there are .*last-1 to last-2"):
        train(selection=None, trainable="last-3")


def test_patience_ends_a_stage_early(train: Train) -> None:
    _, result = train(selection=SelectionConfig(), epochs=50, patience=2, learning_rate=1e-8)
    assert result.steps < 400


def test_a_failed_stage_gives_the_encoder_back_as_it_was(train: Train) -> None:
    model = GradedModel(tiny_encoder(), precision="fp32")
    limit = model.encoder.max_seq_length
    pairs = graded_pairs(16)
    hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
    stage = Stage(objective=OBJECTIVE, trainable="last-9", max_length=5, batch_size=8, evaluate_every=4)
    with pytest.raises(InputError):
        run_stage(stage, model, pairs, folder=Path("unused"), log=RunLog(None), precision=model.precision)
    assert model.encoder.max_seq_length == limit
    assert all(p.requires_grad for p in model.encoder.parameters())
