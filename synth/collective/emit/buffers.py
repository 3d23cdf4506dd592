"""Sizes and liveness of every device's buffer before and after each phase of a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hierarchies import Devices
from synth.collective.semantics.schedule import Phase, Schedule, Transpose


@dataclass(frozen=True, eq=False)
class BufferHistory:
    """Rows are moments (before the first phase, and after each), columns are devices.

    ``parts[moment, device]``: the device's buffer is the payload divided by this number; 0 if
    empty. ``needed[moment, device]``: a later phase reads the buffer, or it is the result.
    """

    parts: Devices
    needed: npt.NDArray[np.bool_]


def follow_buffers(schedule: Schedule) -> BufferHistory:
    """Computes all buffer sizes forwards through a schedule, and their liveness backwards."""
    parts = [_initial_sizes(schedule)]
    for phase in schedule.phases:
        parts.append(_sizes_after(phase, parts[-1]))
    needed = [_result_devices(schedule)]
    for phase, held in zip(reversed(schedule.phases), reversed(parts[:-1]), strict=True):
        needed.append(_needed_before(phase, needed[-1]) & (held > 0))
    return BufferHistory(np.stack(parts), np.stack(needed[::-1]))


def _initial_sizes(schedule: Schedule) -> Devices:
    """Returns the initial parts: a piece for an all-gather; for a broadcast only the root's."""
    goal = schedule.goal
    parts = np.full(schedule.devices, schedule.pieces if goal.gathers else 1, dtype=np.int64)
    if goal.from_first:
        parts[schedule.reduction.grid()[:, 1:]] = 0
    return parts


def _result_devices(schedule: Schedule) -> npt.NDArray[np.bool_]:
    """Returns which devices' buffers are the result."""
    needed = np.ones(schedule.devices, dtype=bool)
    if schedule.goal.to_first:
        needed[schedule.reduction.grid()[:, 1:]] = False
    return needed


def _sizes_after(phase: Phase, parts: Devices) -> Devices:
    if isinstance(phase, Transpose):
        return parts
    groups, members = phase.groups, phase.groups.shape[1]
    now = parts.copy()
    if phase.collective.from_first:
        now[groups] = parts[groups[:, :1]]
    if phase.collective.to_first:
        now[groups[:, 1:]] = 0
    if phase.collective.gathers:
        now[groups] //= members
    if phase.collective.scatters and not phase.collective.apart:
        now[groups] *= members
    return now


def _needed_before(phase: Phase, needed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Returns which buffers are needed before a phase, given those needed after it."""
    if isinstance(phase, Transpose):
        return needed
    groups = phase.groups
    now = needed.copy()
    if phase.collective.from_first:
        now[groups] = False
        now[groups[:, 0]] = needed[groups].any(axis=1)
    elif phase.collective.to_first:
        now[groups] = needed[groups[:, :1]]
    else:
        now[groups] = needed[groups].any(axis=1, keepdims=True)
    return now
