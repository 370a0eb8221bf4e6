"""Threads that compute whole blocks of pairs, one block each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

import torch
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers(Protocol):
    """Applies a function to every item; the results come in the order of the items."""

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> Iterable[Result]:
        """Results, one per item."""


@contextmanager
def block_workers(*, one: bool = False) -> Iterator[Workers]:
    """As many workers as torch has threads, each computing on one thread; torch's setting returns on leaving.

    Threads inside a product wait for each other at its end, thousands of times over small blocks, and on a busy
    machine that costs more than they save: up to a hundredfold. A worker waits for nobody before its block is done.
    What is summed in the order of the blocks also has the same last bits for any number of threads.

    Args:
        one: Work in the caller's thread alone, where there is little to do.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            if one or before == 1:
                yield map
            else:
                with ThreadPoolExecutor(before) as pool:
                    yield pool.map
    finally:
        torch.set_num_threads(before)
