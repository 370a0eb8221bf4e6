"""The allocator: memory that a pass frees stays with the process for the next pass, and goes when there is none."""

from __future__ import annotations

import ctypes
import functools
import os

KEPT = 1 << 30
"""Free bytes at the end of a heap that stay with the process; what is beyond goes back to the system."""
ONE_MAP = 32 << 20
"""Bytes from which on one tensor is a mapping of its own, given back when it is freed; the most that glibc allows."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's numbers for what can be set, from malloc.h."""


@functools.cache
def keep_freed_memory() -> bool:
    """Make glibc keep up to `KEPT` bytes that were freed, once and for the whole process.

    glibc gives freed memory back to the system, which has to fill every page of it with zeros before the next pass can
    use it: thousands of page faults for each batch of a small encoder. Who has set these limits by the environment is
    left alone, as is a process without glibc.

    Returns:
        Whether it does now.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    libc = _glibc()
    return libc is not None and bool(libc.mallopt(_TRIM_THRESHOLD, KEPT) and libc.mallopt(_MMAP_THRESHOLD, ONE_MAP))


def give_back_freed_memory() -> None:
    """Give the system what was freed, once no pass follows; nothing where there is no glibc.

    Freed memory below a block that is still in use stays with the process otherwise, so that one that trains a stage
    after another would hold as much as the largest of them needed.
    """
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - present in glibc alone
    except (OSError, AttributeError, TypeError):
        return None
    return libc
