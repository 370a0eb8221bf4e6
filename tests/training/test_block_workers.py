"""Threads over blocks: results in order, and the caller's thread setting back in place."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from gradate.training.block_workers import block_workers


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("one", [False, True])
def test_results_come_in_order_and_each_worker_has_one_thread(three_threads: None, one: bool) -> None:
    names = set()

    def work(item: int) -> tuple[int, int]:
        names.add(threading.current_thread().name)
        time.sleep(0.002 * (item % 3))
        return item, torch.get_num_threads()

    with block_workers(one=one) as workers:
        results = list(workers(work, range(12)))
    assert results == [(item, 1) for item in range(12)]
    assert (len(names) == 1) is one
    assert torch.get_num_threads() == 3


def test_an_error_of_a_worker_is_the_caller_s(three_threads: None) -> None:
    with pytest.raises(ZeroDivisionError), block_workers() as workers:
        list(workers(lambda item: 1 / item, [1, 0, 2]))
    assert torch.get_num_threads() == 3
