"""When a stage's passes are compiled, what that changes (speed), and what it does not."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradate.errors import Interrupted
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import PairObjective
from gradate.training import compilation
from gradate.training.callbacks.observer import SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.callbacks.stop_signal import StopSignal
from gradate.training.compilation import compiled, missing_compiler
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.stage import Stage
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

OBJECTIVE = ObjectiveConfig(k=2.0, x0=0.25)
PASSES = 16


class Notes(SilentObserver):
    """Keeps what is said; asks for a stop at an update, if told to."""

    def __init__(self, stop: StopSignal | None = None, at: int = 0) -> None:
        self.said: list[str] = []
        self.stop, self.at = stop, at

    def note(self, text: str) -> None:
        self.said.append(text)

    def stepped(self, step: int, record: dict[str, Any]) -> None:
        if self.stop is not None and step == self.at:
            self.stop.received = "SIGTERM"


class Compiler:
    """Stands in for torch.compile: the same results, and a count of the passes that went through it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.passes, self.settings, self.error = 0, [], error

    def __call__(self, forward: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        self.settings.append(settings)

        def run(*args: Any, **kwargs: Any) -> Any:
            if self.error is not None:
                raise self.error
            self.passes += 1
            return forward(*args, **kwargs)

        return run


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = Compiler()
    monkeypatch.setattr(compilation, "SECONDS_PER_LAYER", 10.0)
    monkeypatch.setitem(compilation.SPEEDUP, "cpu", 1.3)
    monkeypatch.setattr(torch, "compile", found)
    monkeypatch.setattr(compilation, "missing_compiler", lambda device: None)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the measured seconds: of an accelerated pass, a plain one, and the compiled ones, the first compiling."""

    def run(fast: float, plain: float, first: float, then: float) -> None:
        measured = iter([[9.0, fast, fast], [9.0, plain, plain], [first, then, then]])
        monkeypatch.setattr(compilation, "_time_passes", lambda trainer, precision: next(measured))

    return run


def train(folder: Path, observer: Any = None, stop: StopSignal | None = None, **settings: Any) -> dict[str, Any]:
    encoder = tiny_encoder()
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # masks are drawn in other ways by other passes
    encoder.get_submodule("0.model").config.attention_probs_dropout_prob = 0.0
    for module in encoder.modules():
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    model, pairs = GradedModel(encoder, precision="fp32"), graded_pairs(64)
    hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=3)
    values = {"objective": OBJECTIVE, "epochs": 2, "batch_size": 8, "learning_rate": 5e-3, "evaluate_every": 4}
    stage = Stage(**{**values, "selection": None, **settings})  # type: ignore[arg-type]
    log = RunLog(None)
    run_stage(stage, model, pairs, folder=folder, log=log, precision=model.precision, observer=observer, stop=stop)
    assert model.head is not None
    return {**model.encoder.state_dict(), **model.head.state_dict()}


def decision(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "compile.json").read_text(encoding="utf-8"))


def test_never_measures_and_says_nothing(tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_time_passes", None)
    notes = Notes()
    train(tmp_path, notes)
    assert not notes.said and not compiler.settings and not (tmp_path / "compile.json").exists()


@pytest.mark.parametrize(
    ("fast", "plain", "first", "then", "said"),
    [
        # 16 passes: 16 × (fast − plain / 1.3) saved, against 2 layers × 10 s
        (4.0, 4.0, 30.0, 2.0, "no, about 20 s to compile against 15 s saved over 16 passes"),
        (8.0, 8.0, 30.0, 5.0, "yes, about 20 s to compile against 30 s saved over 16 passes"),
        (8.0, 11.0, 30.0, 5.0, "no, about 20 s to compile against 0 s saved over 16 passes"),
        (8.0, 8.0, 30.0, 9.0, "yes, about 20 s to compile against 30 s saved over 16 passes"),
    ],
)
def test_auto_weighs_cost_against_saving(
    tmp_path: Path, compiler: Compiler, clock: Any, fast: float, plain: float, first: float, then: float, said: str
) -> None:
    clock(fast, plain, first, then)
    notes = Notes()
    train(tmp_path, notes, compile="auto")
    assert notes.said[0] == f"compile: {said}"
    pays = said.startswith("yes") and then < fast
    assert compiler.passes == (PASSES if pays else 0)
    assert decision(tmp_path)["compiled"] is pays
    if said.startswith("yes"):
        end = f"a pass takes {1000 * then:.0f} ms, uncompiled 8000 ms"
        assert notes.said[1] == f"compiled in {first - then:.0f} s; {end}{'' if pays else ': dropped'}"
        assert decision(tmp_path)["seconds"] == first - then
    else:
        assert len(notes.said) == 1


def test_compiled_training_is_the_same_training(tmp_path: Path, compiler: Compiler) -> None:
    expected = train(tmp_path / "never")
    notes = Notes()
    found = train(tmp_path / "always", notes, compile="always")
    assert compiler.settings == [{"dynamic": True, "options": None}]
    assert compiler.passes == PASSES + 1 + compilation.PROBES
    assert notes.said[0] == "compile: yes, asked for; about 20 s to compile"
    assert notes.said[1].startswith("compiled in 0 s; a pass takes ")
    assert found.keys() == expected.keys(), "a compiled module must not rename its parameters"
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-4, rtol=1e-3, msg=name)


def test_measuring_leaves_no_trace(tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(tmp_path / "never")
    seen = []
    original = compilation._time_passes

    def watched(trainer: Any, precision: Any) -> list[float]:
        def state() -> list[Any]:
            parts = [*trainer.objective.parameters(), *trainer.objective.buffers()]
            modes = [module.training for module in trainer.objective.modules()]
            return [torch.get_rng_state(), *(p.detach().clone() for p in parts), torch.tensor(modes)]

        before = state()
        times = original(trainer, precision)
        seen.append(len(times))
        assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
        assert all(p.grad is None for p in trainer.objective.parameters())
        assert all(0 < t < 60 for t in times)
        return times

    monkeypatch.setattr(compilation, "_time_passes", watched)
    found = train(tmp_path / "auto", compile="auto")
    assert seen == [1 + compilation.PROBES] * 2 and compiler.passes == 0
    assert all(torch.equal(found[name], value) for name, value in expected.items()), "bitwise"


def test_without_a_compiler_the_stage_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setenv("CXX", "g++-99")
    assert missing_compiler(torch.device("cpu")) == "there is no C++ compiler (g++-99)"
    for wanted in ("auto", "always"):
        notes = Notes()
        train(tmp_path / wanted, notes, compile=wanted, epochs=1)
        assert notes.said == ["compile: no, there is no C++ compiler (g++-99)"]
        assert decision(tmp_path / wanted)["compiled"] is False


def test_a_failing_compiler_is_said_and_the_stage_goes_on(tmp_path: Path, compiler: Compiler) -> None:
    expected = train(tmp_path / "never")
    compiler.error = RuntimeError("BackendCompilerFailed: no such instruction\nand a long trace")
    notes = Notes()
    found = train(tmp_path / "always", notes, compile="always")
    reason = "compilation failed, the stage goes on without: BackendCompilerFailed: no such instruction"
    assert notes.said[1] == reason and decision(tmp_path / "always")["reason"] == reason
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("pays", [True, False])
def test_a_resumed_stage_decides_the_same(
    tmp_path: Path, compiler: Compiler, clock: Any, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    times = (8.0, 8.0, 30.0, 5.0) if pays else (4.0, 4.0, 30.0, 2.0)
    clock(*times)
    whole = train(tmp_path / "whole", compile="auto")
    clock(*times)
    stop = StopSignal()
    with pytest.raises(Interrupted, match="at update 6 of 16"):
        train(tmp_path / "stage", Notes(stop, at=6), stop, compile="auto")
    kept = decision(tmp_path / "stage")
    assert kept["compiled"] is pays
    # The clock now speaks for the opposite; the stage goes on as it began.
    monkeypatch.setattr(compilation, "_time_passes", lambda trainer, precision: [30.0, 99.0 if pays else 1.0])
    compiler.passes, notes = 0, Notes()
    found = train(tmp_path / "stage", notes, compile="auto")
    assert notes.said[0].endswith("(as before the interruption)")
    assert compiler.passes == (10 if pays else 0) and decision(tmp_path / "stage")["compiled"] is pays
    assert all(torch.equal(found[name], value) for name, value in whole.items())


def test_only_passes_that_train_are_compiled_and_the_signature_stays(compiler: Compiler) -> None:
    encoder = tiny_encoder()
    model = encoder.get_submodule("0.model")
    names, signature = [name for name, _ in encoder.named_parameters()], inspect.signature(model.forward)
    with compiled(encoder):
        assert [name for name, _ in encoder.named_parameters()] == names
        assert inspect.signature(model.forward) == signature
        encoder.encode(["a b"])
        encoder.train()
        with torch.no_grad():
            encoder(encoder.preprocess(["a b"]))
        assert compiler.passes == 0
        encoder(encoder.preprocess(["a b"]))
        assert compiler.passes == 1
    assert "forward" not in vars(model)


def test_a_cached_stage_compiles_with_torchs_own_random_numbers(tmp_path: Path, compiler: Compiler) -> None:
    train(tmp_path, compile="always", mini_batch_size=3, epochs=1)
    assert compiler.settings == [{"dynamic": True, "options": {"fallback_random": True}}]


def test_what_a_device_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert missing_compiler(torch.device("cuda")) == "Triton is not installed"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert missing_compiler(torch.device("cuda")) is None
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert missing_compiler(torch.device("cpu")) is None


@pytest.mark.slow
@pytest.mark.skipif(missing_compiler(torch.device("cpu")) is not None, reason="no C++ compiler")
def test_truly_compiled_gradients_with_dropout_are_the_uncompiled_ones() -> None:
    texts = (["a b c", "d", "e f g h i j k", "l m", "n o p"], ["c", "e f g h", "a", "b c d e f g", "h"])
    found = []
    for compile_it in (False, True):
        encoder = tiny_encoder(normalize=False)
        torch.manual_seed(1)
        objective = PairObjective(encoder, PairHead(32), OBJECTIVE, graded_pairs(4).scale).train()
        cached = CachedObjective(objective, 2)
        torch.manual_seed(5)
        features = [encoder.preprocess(side) for side in texts]
        with compiled(encoder, replayed=True) if compile_it else torch.enable_grad():
            cached(features, torch.tensor([0.0, 1, 2, 3, 1])).backward()
        found.append({n: p.grad for n, p in objective.named_parameters() if p.grad is not None})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-5, rtol=1e-3, msg=name)
