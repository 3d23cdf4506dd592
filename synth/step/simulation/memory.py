"""Computes memory over time: the lifetimes of buffers, and the peak.

A buffer is live from the begin of the task that makes it until the end of the last task that reads
it. Inputs and results are live for the whole step. So the order of tasks determines how much memory
a step needs. The peak is broken down by kind of buffer.
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
    """The lifetimes of buffers: arrays of equal length of begins, ends, and bytes."""

    begins: Floats
    ends: Floats
    sizes: Numbers

    def largest(self) -> tuple[float, int]:
        """Returns the first moment of the peak, and its bytes; 0.0 and 0 without buffers.

        A buffer that ends at a moment is freed before buffers that begin there are allocated. A
        buffer with an empty lifetime takes no memory.
        """
        lives = self.ends > self.begins
        # Ends come first and the sort is stable, so memory is freed before it is allocated.
        moments = np.concatenate([self.ends[lives], self.begins[lives]])
        changes = np.concatenate([-self.sizes[lives], self.sizes[lives]])
        if not len(moments):
            return 0.0, 0
        order = np.argsort(moments, kind="stable")
        held = np.cumsum(changes[order])
        most = int(held.argmax())
        return float(moments[order[most]]), int(held[most])

    def at(self, moment: float) -> Numbers:
        """Returns the indices of the buffers that are live at a moment or begin at it."""
        return np.flatnonzero((self.begins <= moment) & (moment < self.ends))


@dataclass(frozen=True)
class MemorySnapshot:
    """Memory at a moment: total bytes, bytes by kind, and bytes of the largest values by name."""

    seconds: float
    size_bytes: int
    by_kind: tuple[tuple[BufferKind, int], ...]
    largest: tuple[tuple[str, int], ...]


def lifetimes_of(
    device: DeviceTasks, begins: Sequence[float], ends: Sequence[float]
) -> BufferLifetimes:
    """Returns the lifetimes of a device's buffers, from the begins and ends of its tasks."""
    last = max(ends, default=0.0)
    until = [last if buffer.kept else 0.0 for buffer in device.buffers]
    for task, end in zip(device.tasks, ends, strict=True):
        for number in task.reads:
            until[number] = max(until[number], end)
    made = [begins[buffer.maker] if buffer.maker >= 0 else 0.0 for buffer in device.buffers]
    for number, buffer in enumerate(device.buffers):
        if buffer.maker >= 0:
            until[number] = max(until[number], ends[buffer.maker])
    sizes = np.array([buffer.size_bytes for buffer in device.buffers], np.int64)
    return BufferLifetimes(np.array(made), np.array(until), sizes)


def snapshot_memory(
    buffers: Sequence[tuple[BufferKind, str, int]],
    lives: BufferLifetimes,
    seconds: float,
    most: int = 10,
) -> MemorySnapshot:
    """Returns a breakdown of memory at a moment, with the ``most`` largest names.

    ``buffers``: the kind, the name and the bytes of each buffer.
    """
    kinds: dict[BufferKind, int] = {}
    names: dict[str, int] = {}
    for number in lives.at(seconds).tolist():
        kind, name, size = buffers[number]
        kinds[kind] = kinds.get(kind, 0) + size
        names[name] = names.get(name, 0) + size
    largest = sorted(names.items(), key=lambda item: -item[1])[:most]
    return MemorySnapshot(seconds, sum(kinds.values()), tuple(kinds.items()), tuple(largest))
