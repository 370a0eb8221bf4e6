"""The batch of all processes, for losses whose value depends on the batch as a whole."""

from __future__ import annotations

import torch
import torch.distributed as dist
from sentence_transformers.util import all_gather_with_grad
from torch import Tensor


def is_distributed() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gathered(column: Tensor) -> Tensor:
    """Rows of all processes, in the order of their ranks; gradients flow back to the process a row came from.

    Every process then has the loss of the global batch, and from the mean of the processes' gradients, which is what
    distributed training takes, follows the gradient of that loss: each row's share comes back once from every process.
    Processes may have different numbers of rows.

    Args:
        column: This process's rows, (b, …).
    """
    if not is_distributed():
        return column
    counts = [torch.zeros(1, dtype=torch.int64, device=column.device) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([len(column)], device=column.device))
    sizes = [int(count) for count in counts]
    missing = max(sizes) - len(column)
    filled = torch.cat([column, column.new_zeros(missing, *column.shape[1:])]) if missing else column
    parts = torch.split(all_gather_with_grad(filled.contiguous()), max(sizes))
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
