"""Limits a process's data segment, which Linux counts when mapped; returns large free blocks."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
MOST_KEPT_BYTES = 2**29
"""A process that holds this much more between two pieces than when it started is replaced."""
_LARGE_BYTES = 2**20
_M_MMAP_THRESHOLD = -3
"""The option's number in glibc's malloc.h."""


def data_bytes() -> int:
    """Return the private bytes that this process has mapped; 0 without /proc."""
    if not _STATUS.exists():
        return 0
    lines = _STATUS.read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(status["VmData"].split()[0]) * 1024


def limit_data(memory_bytes: int | None) -> None:
    """Let this process map at most ``memory_bytes`` more than now; None removes the limit.

    Uses RLIMIT_DATA, as RLIMIT_AS also counts libraries and what allocators merely reserve. Beyond
    the limit Python and numpy raise MemoryError, and z3 reports that it is out of memory.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard if memory_bytes is None else data_bytes() + memory_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def give_back_large_blocks() -> None:
    """Make malloc map every large block separately, so that freeing returns it to the system.

    By default glibc raises the threshold for such mappings to the largest block freed so far, up to
    32 MiB, and then bodies of requests fragment the heap. musl has no mallopt and does not need it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
