"""Two processes (gloo) train one head: equal on both ranks, and equal to one process on the same global batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.training.callbacks.run_log import RunLog
from gradate.training.fit import hand_over_head, run_stage
from gradate.training.stage import Stage
from tests.graded import graded_pairs
from tests.tiny import tiny_encoder

folder, rank, batch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.manual_seed(100 + int(rank))  # different heads, unless something makes them equal
encoder = tiny_encoder()
encoder[0].model.config.hidden_dropout_prob = 0.0
for module in encoder.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
model = GradedModel(encoder, precision="fp32")
pairs = graded_pairs(66)  # the last global batch is incomplete
hand_over_head(model, pairs, lambda: PairHead(32), rescale=True, seed=7 if batch == 16 else 7 + int(rank))
stage = Stage(objective=ObjectiveConfig(k=2, x0=0.25), epochs=2, batch_size=batch, learning_rate=1e-2, clip=0.5,
              evaluate_every=4, selection=None)
log = RunLog(folder / "log.jsonl" if rank == "0" else None)
# Folders of their own: in one, the second run would resume the first and compare it with itself.
run_stage(stage, model, pairs, folder=folder / f"stage-{batch}", log=log, precision=model.precision, seed=7)
state = {f"head.{n}": p.detach().clone() for n, p in model.head.state_dict().items()}
state |= {f"encoder.{n}": p.detach().clone() for n, p in encoder.named_parameters()}
save_file(state, folder / f"rank{rank}-{batch}.safetensors")
if torch.distributed.is_initialized():
    # A rank that exits while gloo's threads still run is aborted now and then.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""


def run(folder: Path, ranks: int, batch: int, port: int, script: str = SCRIPT) -> None:
    processes = []
    for rank in range(ranks):
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
        if ranks > 1:
            env |= {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "ACCELERATE_USE_CPU": "true",
            }
        command = [sys.executable, "-c", script, str(folder), str(rank), str(batch)]
        processes.append(subprocess.Popen(command, env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-3000:]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_ranks_hold_the_same_head_and_equal_one_process(tmp_path: Path) -> None:
    run(tmp_path, ranks=2, batch=8, port=free_port())
    run(tmp_path, ranks=1, batch=16, port=0)
    first, second = (load_file(tmp_path / f"rank{rank}-8.safetensors") for rank in range(2))
    alone = load_file(tmp_path / "rank0-16.safetensors")
    assert first.keys() == second.keys() == alone.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
        torch.testing.assert_close(value, alone[name], atol=2e-4, rtol=2e-3, msg=name)


BATCHES = """
import sys
from copy import deepcopy
import torch
from gradate.models.head import PairHead
from gradate.objectives.build import build_objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.matryoshka import at_widths
from gradate.scale import LabelScale
from tests.tiny import set_dropout, tiny_encoder

rank = int(sys.argv[2])
original = tiny_encoder(normalize=False)  # before there are processes: then only the first of them would write it
set_dropout(original, 0.0)
torch.distributed.init_process_group("gloo")
scale = LabelScale.from_values([0, 1, 2, 3])
columns = [["a b", "c", "d e f", "g", "h i j", "k l", "m"], ["b", "c d", "d", "g h i", "j", "l", "m n"],
           ["x", "y z", "w", "v u", "t", "s r", "q"], ["o", "p", "q r", "s t u", "v", "w x", "y"]]
grades = torch.tensor([0.0, 1, 2, 3, 3, 0, 3], dtype=torch.float64)
mine = slice(0, 4) if rank == 0 else slice(4, 7)  # ranks with different numbers of rows
pearson, middle = ObjectiveConfig(name="pearson"), ObjectiveConfig(name="mid-info-nce", temperature=0.1)
smooth = ObjectiveConfig(k=2.0, x0=0.25)
configs = [pearson, middle, *(ObjectiveConfig(name=n) for n in ("rank-kl", "pro", "cosent", "angle", "info-nce")),
           ObjectiveConfig(name="info-nce", positives=2), ObjectiveConfig(name="info-nce", candidates="own"),
           ObjectiveConfig(name="sum", parts=(pearson, smooth, middle))]
one_width = ("mid-info-nce", "sum")
cases = [*((config, []) for config in configs), *((config, [8]) for config in configs if config.name not in one_width)]
for config, widths in cases:
    width = 2 if config.reads_grades else 4
    found = []
    for share, mini in ((slice(None), None), (mine, None), (mine, 3)):
        torch.manual_seed(0)
        encoder = deepcopy(original)
        objective = build_objective(config, encoder, PairHead(32), scale).double()
        loss = objective if mini is None else CachedObjective(objective, mini)
        loss = at_widths(encoder, loss, widths) if widths else loss
        batch = [encoder.preprocess(column[share]) for column in columns[:width]]
        if share == slice(None):  # the whole batch in one process: nothing to gather
            saved, torch.distributed.is_initialized = torch.distributed.is_initialized, lambda: False
        value = loss(batch, grades[share] if config.reads_grades else None)
        value.backward()
        gradients = {n: p.grad.clone() for n, p in objective.named_parameters() if p.grad is not None}
        if share == slice(None):
            torch.distributed.is_initialized = saved
        else:
            for gradient in gradients.values():
                torch.distributed.all_reduce(gradient)
                gradient /= 2
        found.append((value.detach(), gradients))
    for value, gradients in found[1:]:
        torch.testing.assert_close(value, found[0][0], msg=f"{config.title}: value")
        assert gradients.keys() == found[0][1].keys()
        for name, gradient in found[0][1].items():
            torch.testing.assert_close(gradients[name], gradient, atol=1e-10, rtol=1e-7, msg=f"{config.title}: {name}")
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


def test_losses_over_a_batch_see_that_of_all_processes(tmp_path: Path) -> None:
    run(tmp_path, ranks=2, batch=0, port=free_port(), script=BATCHES)
