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


def run(folder: Path, ranks: int, batch: int, port: int) -> None:
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
        command = [sys.executable, "-c", SCRIPT, str(folder), str(rank), str(batch)]
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
