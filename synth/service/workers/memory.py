"""Limits a process's memory: its data segment, which Linux counts when it is mapped."""

from __future__ import annotations

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
MOST_KEPT_BYTES = 2**29
"""A process that holds so much more than a fresh one between two pieces is replaced."""


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
