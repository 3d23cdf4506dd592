"""Memory on the clock: from when until when buffers live, and the largest moment.

A buffer lives from the begin of the task that makes it until the last that reads it has ended;
inputs and results for the whole step. So the order decides what a step needs, and the largest
moment is told by what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synth.step.simulation.device import DeviceTasks
from synth.step.simulation.kinds import BufferKind

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BufferLifetimes:
    """When buffers are in memory, arrays of one length: from, until, and their bytes."""

    begins: Floats
    ends: Floats
    sizes: Numbers

    def largest(self) -> tuple[float, int]:
        """When they are most bytes at once, first, and how many; 0.0 and 0 of none.

        What ends at a moment makes room for what begins there; what lives no time takes none.
        """
        lives = self.ends > self.begins
        moments = np.concatenate([self.ends[lives], self.begins[lives]])
        changes = np.concatenate([-self.sizes[lives], self.sizes[lives]])
        if not len(moments):
            return 0.0, 0
        order = np.argsort(moments, kind="stable")
        held = np.cumsum(changes[order])
        most = int(held.argmax())
        return float(moments[order[most]]), int(held[most])

    def at(self, moment: float) -> Numbers:
        """The places of those that live at a moment, which counts to what begins then."""
        return np.flatnonzero((self.begins <= moment) & (moment < self.ends))


@dataclass(frozen=True)
class MemorySnapshot:
    """What is in memory at a moment: bytes in all, by kind, and the largest by their names."""

    seconds: float
    size_bytes: int
    by_kind: tuple[tuple[BufferKind, int], ...]
    largest: tuple[tuple[str, int], ...]


def lifetimes_of(
    device: DeviceTasks, begins: Sequence[float], ends: Sequence[float]
) -> BufferLifetimes:
    """The lives of a device's buffers, whose tasks begin and end so."""
    last = max(ends, default=0.0)
    until = [last if one.kept else 0.0 for one in device.buffers]
    for task, end in zip(device.tasks, ends, strict=True):
        for number in task.reads:
            until[number] = max(until[number], end)
    made = [begins[one.maker] if one.maker >= 0 else 0.0 for one in device.buffers]
    for number, one in enumerate(device.buffers):
        if one.maker >= 0:
            until[number] = max(until[number], ends[one.maker])
    sizes = np.array([one.size_bytes for one in device.buffers], np.int64)
    return BufferLifetimes(np.array(made), np.array(until), sizes)


def snapshot_memory(
    device: DeviceTasks, lives: BufferLifetimes, seconds: float, most: int = 10
) -> MemorySnapshot:
    """What is in memory at a moment of a device's step."""
    kinds: dict[BufferKind, int] = {}
    names: dict[str, int] = {}
    for number in lives.at(seconds).tolist():
        one = device.buffers[number]
        kinds[one.kind] = kinds.get(one.kind, 0) + one.size_bytes
        names[one.name] = names.get(one.name, 0) + one.size_bytes
    largest = sorted(names.items(), key=lambda one: -one[1])[:most]
    return MemorySnapshot(seconds, sum(kinds.values()), tuple(kinds.items()), tuple(largest))
