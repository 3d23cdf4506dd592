"""Executes on numpy arrays what others only reason about: a judge that knows no rules.

``replay`` runs a schedule on flat payloads of any length. ``multiplicities`` runs a program that
nobody has verified and counts how often each contribution was added to each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from grammar import Collective, Program, instructions
from hierarchies import Reduction, Tree
from synth.schedule import Exchange, Phase, Schedule, Transpose, ends, padded

Array = npt.NDArray[Any]
Buffers = dict[int, Array]


@dataclass(frozen=True)
class Failure:
    """Why an execution is not the plain sum: the phase (None: the final values) and the reason."""

    phase: int | None
    reason: str


def replay(
    schedule: Schedule, payloads: Array, before: Callable[[Phase], None] = lambda phase: None
) -> Array | Failure:
    """Run a schedule; the result has the shape of ``payloads``, (devices, elements).

    Payloads of any length are padded with zeros to the schedule's pieces and segments, and cut
    again. ``before`` is told each phase before it is run, and may raise to stop.
    """
    length = payloads.shape[1]
    extra = padded(length, schedule.pieces * schedule.segments) - length
    whole = np.pad(payloads, ((0, 0), (0, extra)))
    found = []
    for segment in np.split(whole, schedule.segments, axis=1):
        done = _replay_segment(schedule, segment, before)
        if isinstance(done, Failure):
            return done
        found.append(done)
    return np.concatenate(found, axis=1)[:, :length]


def replay_stripes(
    stripes: Sequence[Schedule],
    payloads: Array,
    before: Callable[[Phase], None] = lambda phase: None,
) -> Array | Failure:
    """Run schedules each on its slice of the payloads, the slices one after the other.

    Slices are as large by their share as the schedules' payloads. A Failure's phase is that of
    the stripe that failed.
    """
    cuts = ends([stripe.payload_bytes for stripe in stripes], payloads.shape[1])
    found = []
    for stripe, part in zip(stripes, np.split(payloads, cuts[:-1], axis=1), strict=True):
        done = replay(stripe, part, before)
        if isinstance(done, Failure):
            return done
        found.append(done)
    return np.concatenate(found, axis=1)


def _replay_segment(
    schedule: Schedule, payloads: Array, before: Callable[[Phase], None]
) -> Array | Failure:
    buffers: Buffers = {device: row.copy() for device, row in enumerate(payloads)}
    for number, phase in enumerate(schedule.phases):
        before(phase)
        try:
            match phase:
                case Exchange():
                    for group in phase.groups:
                        _exchange(phase.collective, [int(d) for d in group], buffers)
                case Transpose():
                    _transpose(phase, buffers)
                case _:
                    assert_never(phase)
        except (ValueError, KeyError) as error:
            return Failure(number, f"{type(error).__name__}: {error}")
    sizes = {len(buffer) for buffer in buffers.values()}
    if len(buffers) != len(payloads) or sizes != {payloads.shape[1]}:
        return Failure(None, "not every device ends with the whole payload")
    return np.stack([buffers[device] for device in range(len(payloads))])


def _exchange(collective: Collective, group: list[int], buffers: Buffers) -> None:
    match collective:
        case Collective.ALL_REDUCE:
            total = _sum(group, buffers)
            buffers.update({device: total.copy() for device in group})
        case Collective.REDUCE_SCATTER:
            shares = _sum(group, buffers).reshape(len(group), -1)
            buffers.update(dict(zip(group, shares, strict=True)))
        case Collective.ALL_GATHER:
            whole = np.stack([buffers[device] for device in group]).reshape(-1)
            buffers.update({device: whole.copy() for device in group})
        case Collective.REDUCE:
            total = _sum(group, buffers)
            for device in group:
                del buffers[device]
            buffers[group[0]] = total
        case Collective.BROADCAST:
            buffers.update({device: buffers[group[0]].copy() for device in group})
        case _:
            assert_never(collective)


def _sum(group: list[int], buffers: Buffers) -> Array:
    stacked = np.stack([buffers[device] for device in group])
    total: Array = stacked.sum(axis=0, dtype=stacked.dtype)
    return total


def _transpose(phase: Transpose, buffers: Buffers) -> None:
    axes = (*phase.axes, len(phase.shape))
    for device in phase.devices.tolist():
        view = buffers[device].reshape(*phase.shape, -1)
        buffers[device] = view.transpose(axes).reshape(-1)


def plain_sum(reduction: Reduction, payloads: Array) -> Array:
    """What every schedule must give: the sum over each reduction group, on all its members."""
    result = np.empty_like(payloads)
    for group in reduction.grid():
        result[group] = payloads[group].sum(axis=0, dtype=payloads.dtype)
    return result


def compare(schedule: Schedule, elements: int) -> Failure | None:
    """Run a schedule on whole numbers all different from each other, and compare with the sum.

    None means that every element on every device is equal to the plain sum.
    """
    return compare_stripes([schedule], elements)


def compare_stripes(stripes: Sequence[Schedule], elements: int) -> Failure | None:
    """The same for schedules that each have a slice of the payload."""
    payloads = _payloads(stripes[0].devices, elements)
    result = replay_stripes(stripes, payloads)
    if isinstance(result, Failure):
        return result
    wrong = np.argwhere(result != plain_sum(stripes[0].reduction, payloads))
    if len(wrong):
        device, element = wrong[0].tolist()
        return Failure(None, f"device {device}, element {element} differs from the plain sum")
    return None


def _payloads(devices: int, elements: int) -> Array:
    """Numbers that look random, so that no two wrong sums agree by chance."""
    number = np.arange(1, devices * elements + 1, dtype=np.uint64)
    mixed = (number * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)
    return mixed.astype(np.int64).reshape(devices, elements)


def multiplicities(program: Program, tree: Tree) -> Array | Failure:
    """How often device d's value of chunk c contains contributor q: shape (k, k, k).

    Runs any program that names levels of the tree, sound or not, for one group of k devices; a
    correct all-reduce ends with 1 everywhere. Failure if a step adds arrays of unequal chunks or
    gathers a chunk twice, which no runtime could carry out. Raises InputError for bad names.
    """
    k = tree.devices
    counts = np.zeros((k, k, k), dtype=np.int64)
    counts[np.arange(k), :, np.arange(k)] = 1
    digits = np.array(list(np.ndindex(*tree.sizes)), dtype=np.int64).reshape(k, -1)
    for number, step in enumerate(instructions(program, tree)):
        free, zero = list(step.groups.free), list(step.groups.zero)
        fixed = [digit for digit in range(len(tree.digits)) if digit not in free]
        playing = ~digits[:, zero].any(axis=1)
        for key in sorted({tuple(row) for row in digits[playing][:, fixed].tolist()}):
            same = (digits[:, fixed] == np.array(key, dtype=np.int64)).all(axis=1)
            members = np.flatnonzero(playing & same)
            reason = _count(step.collective, members, counts, digits[:, free])
            if reason:
                return Failure(number, reason)
    return counts


def _count(collective: Collective, members: Array, counts: Array, own: Array) -> str:
    """Carry out one collective in one group; the reason why it cannot be, or nothing."""
    held = counts[members]
    rows = np.asarray(held.any(axis=2))
    total = held.sum(axis=0)
    adds = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
    if collective in adds and (rows != rows[0]).any():
        return "members hold different chunks"
    if collective is Collective.ALL_GATHER and (rows.sum(axis=0) > 1).any():
        return "two members hold one chunk"
    match collective:
        case Collective.ALL_REDUCE | Collective.ALL_GATHER:
            counts[members] = total
        case Collective.REDUCE:
            counts[members] = 0
            counts[members[0]] = total
        case Collective.REDUCE_SCATTER:
            mine = (own[members][:, None, :] == own[None, :, :]).all(axis=2)
            counts[members] = np.where(mine[:, :, None], total[None], 0)
        case Collective.BROADCAST:
            counts[members] = held[0]
        case _:
            assert_never(collective)
    return ""
