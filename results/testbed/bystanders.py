"""How much of the processors other processes had while something was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_SECONDS = 0.01
_KERNEL = 2
"""The parent of all kernel threads; what those do for the network is part of it."""


@dataclass(frozen=True)
class Seen:
    """Seconds of processor so far: by process, of children that have ended, and taken from us."""

    moment: float
    used: dict[int, float]
    ended: dict[int, float]
    stolen: float


def look(own: Collection[int]) -> Seen:
    """What all processes but some have used so far."""
    used: dict[int, float] = {}
    ended: dict[int, float] = {}
    for name in os.listdir(_PROC):
        if name.isdigit() and int(name) not in own:
            found = _process(int(name))
            if found is not None:
                used[int(name)], ended[int(name)] = found
    return Seen(time.monotonic(), used, ended, _stolen())


def _process(pid: int) -> tuple[float, float] | None:
    """Seconds of a process's threads and of its ended children; nothing for the kernel's."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        if pid == _KERNEL or int(fields[1]) == _KERNEL:
            return None
        tasks = _PROC / str(pid) / "task"
        threads = [(tasks / name / "schedstat").read_text() for name in os.listdir(tasks)]
    except OSError:
        return None
    nanoseconds = sum(int(text.split()[0]) for text in threads)
    return nanoseconds * 1e-9, (int(fields[13]) + int(fields[14])) * _TICK_SECONDS


def _stolen() -> float:
    """Seconds that the machine below had our processors for others."""
    fields = (_PROC / "stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * _TICK_SECONDS


def share(before: Seen, after: Seen, processors: int) -> float:
    """The part of all processors that others had between two looks, beyond the clock's grain.

    A process that has begun counts as a whole; one that has ended counts with its parent, in
    ticks, so that a tick may be nothing.
    """
    others = after.stolen - before.stolen
    for pid, seconds in after.used.items():
        others += seconds - before.used.get(pid, 0.0)
        if pid in before.ended:
            others += after.ended[pid] - before.ended[pid]
    return max(0.0, others - _TICK_SECONDS) / (processors * (after.moment - before.moment))
