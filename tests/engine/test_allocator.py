"""The allocator: freed memory stays with the process until a stage ends, unless its user has said otherwise."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PASSES = """
import resource, torch
from gradate.engine.allocator import keep_freed_memory
torch.set_num_threads(1)
print(keep_freed_memory())
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        parts = [torch.ones(1 << 18) for _ in range(40)]
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


PINNED = """
import os, torch
from gradate.engine.allocator import give_back_freed_memory, keep_freed_memory
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
keep_freed_memory()
before = resident()
blocks = [torch.ones(1 << 16) for _ in range(800)]
blocks = blocks[::100]
held = resident()
give_back_freed_memory()
print(held - before, resident() - before)
"""


def passes(**environment: str) -> tuple[str, int]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PASSES], env=kept | environment, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.split()
    return first, int(second)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the process has no glibc")
def test_a_pass_uses_the_memory_of_the_pass_before() -> None:
    answer, faults = passes()
    assert answer == "True"
    assert faults < 1000, "20 passes over 40 MB touch 10,000 pages each when they come from the system"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the process has no glibc")
def test_freed_memory_below_what_is_still_in_use_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PINNED], capture_output=True, text=True, check=True)
    held, left = map(int, done.stdout.split())
    assert held > 150, "200 MiB were freed, but for a block in a hundred"
    assert left < 50


def test_what_the_environment_says_stands() -> None:
    assert passes(MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
