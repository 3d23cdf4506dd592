"""Limits a process's memory: its data segment, which Linux counts when it is mapped.

And gives back what it had for something large.
"""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
MOST_KEPT_BYTES = 2**29
"""A process that holds so much more than a fresh one between two pieces is replaced."""
_LARGE_BYTES = 2**20
_M_MMAP_THRESHOLD = -3
"""The number of mallopt's option in glibc's malloc.h."""


def data_bytes() -> int:
    """The private memory this process has mapped; 0 where there is no /proc."""
    if not _STATUS.exists():
        return 0
    lines = _STATUS.read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(status["VmData"].split()[0]) * 1024


def limit_data(memory_bytes: int | None) -> None:
    """Let this process map at most so much more than it has mapped now; None: no limit of ours.

    RLIMIT_DATA, not RLIMIT_AS, which also counts libraries and what allocators merely reserve.
    Beyond the limit Python and numpy raise MemoryError, and z3 says that it is out of memory.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard if memory_bytes is None else data_bytes() + memory_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def give_back_large_blocks() -> None:
    """Have every large block mapped by itself from now on, so that freeing it gives it back.

    By default glibc raises the size from which on it does so to that of the largest block that was
    freed, up to 32 MiB: then the bodies of requests lie in heaps, between what is kept. Where
    there is no mallopt, as in musl, there is no such habit either.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
