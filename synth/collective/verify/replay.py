"""Executes schedules and programs on numpy arrays: a judge that knows no rules.

``replay`` runs a schedule on flat payloads of any length. ``multiplicities`` runs an unverified
program and counts how often each contribution was added to each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from grammar import Collective, Goal, Program, instructions
from grammar.tensors.sharding import ReductionKind
from hierarchies import Devices, Reduction, Tree
from synth.collective.semantics.schedule import (
    Exchange,
    Phase,
    Schedule,
    Transpose,
    pad_length,
    slice_ends,
)

Array = npt.NDArray[Any]
_REDUCERS = {
    ReductionKind.SUM: np.add,
    ReductionKind.MAX: np.maximum,
    ReductionKind.MIN: np.minimum,
}


class Buffers(dict[int, Array]):
    """The contents of each device; ``op`` is the reduction operation."""

    def __init__(self, held: Mapping[int, Array], op: ReductionKind) -> None:
        super().__init__(held)
        self.op = op


@dataclass(frozen=True)
class Failure:
    """Why an execution differs from the plain result: the phase (None: the end) and the reason."""

    phase: int | None
    reason: str


_SUM = "the plain sum"
_PLAIN = {
    Goal.ALL_REDUCE: _SUM,
    Goal.REDUCE_SCATTER: _SUM,
    Goal.REDUCE: _SUM,
    Goal.ALL_GATHER: "what all hold, one after the other",
    Goal.BROADCAST: "what the first member holds",
    Goal.ALL_TO_ALL: "what all have for it, one after the other",
}


def replay(
    schedule: Schedule, payloads: Array, before: Callable[[Phase], None] = lambda phase: None
) -> Array | Failure:
    """Runs a schedule on each device's initial buffer; returns each device's result.

    Shapes are (devices, elements). Payloads of any length are padded with zeros to the schedule's
    pieces and segments, and cut again. Where the goal is in pieces a payload is k pieces, one for
    each of k members, and the last pieces may be shorter; results have whole pieces, the shorter
    pieces padded with zeros. An all-gather starts with a piece, a reduce-scatter ends with one. A
    broadcast reads only the buffers of first members; after a reduce all others hold zeros.
    ``before`` is called with each phase before it runs, and may raise to stop.
    """
    goal, count = schedule.goal, schedule.segments
    given_pieces, result_pieces = _count_pieces(schedule)
    pieces = _split_into_pieces(payloads, given_pieces)
    devices, _, length = pieces.shape
    finer = pad_length(length, count if goal.in_pieces else schedule.pieces * count)
    whole = np.pad(pieces, ((0, 0), (0, 0), (0, finer - length)))
    parts = whole.reshape(devices, given_pieces, count, -1)
    segments = []
    for index in range(count):
        segment = parts[:, :, index].reshape(devices, -1)
        outcome = _replay_segment(schedule, segment, result_pieces * finer // count, before)
        if isinstance(outcome, Failure):
            return outcome
        segments.append(outcome.reshape(devices, result_pieces, -1))
    return np.concatenate(segments, axis=2)[:, :, :length].reshape(devices, -1)


def _count_pieces(schedule: Schedule) -> tuple[int, int]:
    """The numbers of pieces, each with an owner, in the buffers at the start and at the end."""
    start = schedule.pieces if schedule.goal in (Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL) else 1
    result = schedule.pieces if schedule.goal in (Goal.ALL_GATHER, Goal.ALL_TO_ALL) else 1
    return start, result


def _split_into_pieces(payloads: Array, pieces: int) -> Array:
    """Shape (devices, pieces, elements of a piece); zeros pad the last pieces to equal length."""
    devices, length = payloads.shape
    extra = pad_length(length, pieces) - length
    return np.pad(payloads, ((0, 0), (0, extra))).reshape(devices, pieces, -1)


def replay_stripes(
    stripes: Sequence[Schedule],
    payloads: Array,
    before: Callable[[Phase], None] = lambda phase: None,
) -> Array | Failure:
    """Runs each schedule on its slice of the payloads, the slices one after the other.

    Where the goal is in pieces, as an all-gather's is, a slice covers part of every piece: with two
    stripes of equal shares the first gathers the first half of each member's piece. Slices are in
    the ratio of the schedules' payloads. A Failure's phase is that of the stripe that failed.
    """
    if len(stripes) == 1:
        return replay(stripes[0], payloads, before)
    given_pieces, result_pieces = _count_pieces(stripes[0])
    pieces = _split_into_pieces(payloads, given_pieces)
    devices = len(payloads)
    cuts = slice_ends([stripe.payload_bytes for stripe in stripes], pieces.shape[2])
    slices = []
    for stripe, part in zip(stripes, np.split(pieces, cuts[:-1], axis=2), strict=True):
        outcome = replay(stripe, part.reshape(devices, -1), before)
        if isinstance(outcome, Failure):
            return outcome
        slices.append(outcome.reshape(devices, result_pieces, -1))
    return np.concatenate(slices, axis=2).reshape(devices, -1)


def _replay_segment(
    schedule: Schedule, payloads: Array, length: int, before: Callable[[Phase], None]
) -> Array | Failure:
    """The devices' results, ``length`` elements each."""
    devices = list(range(len(payloads)))
    firsts = schedule.reduction.grid()[:, 0].tolist()
    starting = firsts if schedule.goal is Goal.BROADCAST else devices
    ending = firsts if schedule.goal is Goal.REDUCE else devices
    buffers = Buffers({device: payloads[device].copy() for device in starting}, schedule.op)
    for number, phase in enumerate(schedule.phases):
        before(phase)
        try:
            match phase:
                case Exchange():
                    _run_exchange(phase, buffers, payloads.shape[1] // schedule.pieces)
                case Transpose():
                    _transpose(phase, buffers)
                case _:
                    assert_never(phase)
        except (ValueError, KeyError) as error:
            return Failure(number, f"{type(error).__name__}: {error}")
    if any(device not in buffers or len(buffers[device]) != length for device in ending):
        share = "one piece" if schedule.goal is Goal.REDUCE_SCATTER else "the whole payload"
        who = "the first member of every group" if ending is firsts else "every device"
        return Failure(None, f"not {who} ends with {share}")
    result = np.zeros((len(payloads), length), dtype=payloads.dtype)
    for device in ending:
        result[device] = buffers[device]
    return result


def _run_exchange(phase: Exchange, buffers: Buffers, length: int) -> None:
    """Runs one collective in every group; ``length`` is that of one of the schedule's pieces."""
    if phase.pieces is None:
        for group in phase.listed:
            _exchange(phase.collective, group, buffers)
        return
    nothing = next(iter(buffers.values()))[:0]
    for group, own in zip(phase.listed, phase.pieces, strict=True):
        for device in group:
            buffers.setdefault(device, nothing)
        _exchange_pieces(phase.collective, group, buffers, [list(places) for places in own], length)


def _exchange_pieces(
    collective: Collective, group: list[int], buffers: Buffers, own: list[list[int]], length: int
) -> None:
    """Runs one collective in one group; ``own`` lists each member's pieces, possibly none."""
    match collective:
        case Collective.REDUCE_SCATTER:
            whole = _reduce_group(group, buffers).reshape(-1, length)
            kept = [whole[places].reshape(-1) for places in own]
            buffers.update(dict(zip(group, kept, strict=True)))
        case Collective.ALL_GATHER:
            brought = np.concatenate([buffers[device] for device in group]).reshape(-1, length)
            ordered = brought[np.argsort(np.concatenate(own))].reshape(-1)
            buffers.update({device: ordered.copy() for device in group})
        case _:
            _exchange(collective, group, buffers)


def _exchange(collective: Collective, group: list[int], buffers: Buffers) -> None:
    match collective:
        case Collective.ALL_REDUCE:
            total = _reduce_group(group, buffers)
            buffers.update({device: total.copy() for device in group})
        case Collective.REDUCE_SCATTER:
            shares = _reduce_group(group, buffers).reshape(len(group), -1)
            buffers.update(dict(zip(group, shares, strict=True)))
        case Collective.ALL_GATHER:
            whole = np.stack([buffers[device] for device in group]).reshape(-1)
            buffers.update({device: whole.copy() for device in group})
        case Collective.REDUCE:
            total = _reduce_group(group, buffers)
            for device in group:
                del buffers[device]
            buffers[group[0]] = total
        case Collective.BROADCAST:
            buffers.update({device: buffers[group[0]].copy() for device in group})
        case Collective.ALL_TO_ALL:
            sent = np.stack([buffers[device].reshape(len(group), -1) for device in group])
            for number, device in enumerate(group):
                buffers[device] = sent[:, number].reshape(-1)
        case _:
            assert_never(collective)


def _reduce_group(group: list[int], buffers: Buffers) -> Array:
    return _combine(np.stack([buffers[device] for device in group]), buffers.op)


def _combine(stacked: Array, op: ReductionKind) -> Array:
    """The sum, maximum or minimum of rows."""
    total: Array = _REDUCERS[op].reduce(stacked, axis=0, dtype=stacked.dtype)
    return total


def _transpose(phase: Transpose, buffers: Buffers) -> None:
    axes = (*phase.axes, len(phase.shape))
    for device in phase.devices.tolist():
        view = buffers[device].reshape(*phase.shape, -1)
        buffers[device] = view.transpose(axes).reshape(-1)


def plain_sum(
    reduction: Reduction, payloads: Array, op: ReductionKind = ReductionKind.SUM
) -> Array:
    """The result that every schedule must give: the sum (maximum, minimum) over each reduction
    group, on all its members.
    """
    result = np.empty_like(payloads)
    for group in reduction.grid():
        result[group] = _combine(payloads[group], op)
    return result


def plain_result(
    reduction: Reduction, payloads: Array, goal: Goal, op: ReductionKind = ReductionKind.SUM
) -> Array:
    """The result that every schedule for a goal must give, in the shape that ``replay`` returns."""
    members = reduction.tree.devices
    grid = reduction.grid()
    match goal:
        case Goal.ALL_REDUCE:
            return plain_sum(reduction, payloads, op)
        case Goal.REDUCE:
            result = np.zeros_like(payloads)
            result[grid[:, 0]] = plain_sum(reduction, payloads, op)[grid[:, 0]]
            return result
        case Goal.BROADCAST:
            return _fill_rows(grid, [payloads[group[[0] * members]] for group in grid])
        case Goal.ALL_GATHER:
            return _fill_rows(
                grid, [payloads[[group] * members].reshape(members, -1) for group in grid]
            )
        case Goal.REDUCE_SCATTER:
            pieces = _split_into_pieces(payloads, members)
            return _fill_rows(grid, [_combine(pieces[group], op) for group in grid])
        case Goal.ALL_TO_ALL:
            pieces = _split_into_pieces(payloads, members)
            swapped = (pieces[group].swapaxes(0, 1) for group in grid)
            return _fill_rows(grid, [blocks.reshape(members, -1) for blocks in swapped])
        case _:
            assert_never(goal)


def _fill_rows(grid: Devices, groups: list[Array]) -> Array:
    """The rows of each group's members at the places of their devices."""
    result = np.empty((grid.size, groups[0].shape[1]), dtype=groups[0].dtype)
    for members, rows in zip(grid, groups, strict=True):
        result[members] = rows
    return result


def compare(schedule: Schedule, elements: int) -> Failure | None:
    """Runs a schedule on distinct whole numbers and compares the result with numpy's.

    None means that every element a device must end with equals the plain result. ``elements`` is
    the length of the whole payload.
    """
    return compare_stripes([schedule], elements)


def compare_stripes(stripes: Sequence[Schedule], elements: int) -> Failure | None:
    """Runs ``compare`` on schedules that each have a slice of the payload."""
    first = stripes[0]
    gathers = first.goal is Goal.ALL_GATHER
    length = pad_length(elements, first.pieces) // first.pieces if gathers else elements
    payloads = _payloads(first.devices, length)
    result = replay_stripes(stripes, payloads)
    if isinstance(result, Failure):
        return result
    wrong = np.argwhere(result != plain_result(first.reduction, payloads, first.goal, first.op))
    if len(wrong):
        device, element = wrong[0].tolist()
        plain = _PLAIN[first.goal]
        return Failure(None, f"device {device}, element {element} differs from {plain}")
    return None


def _payloads(devices: int, elements: int) -> Array:
    """Pseudo-random numbers, so that wrong sums do not agree by chance."""
    number = np.arange(1, devices * elements + 1, dtype=np.uint64)
    # Fibonacci hashing: 2^64 divided by the golden ratio. The shift leaves 40 bits, so that sums
    # over millions of devices fit int64.
    mixed = (number * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)
    return mixed.astype(np.int64).reshape(devices, elements)


def multiplicities(program: Program, tree: Tree, goal: Goal = Goal.ALL_REDUCE) -> Array | Failure:
    """How often device d's value of chunk c contains contributor q: shape (k, k, k).

    Runs any program for the goal that names levels of the tree, sound or not, for one group of k
    devices; ``expected_multiplicities`` gives a correct program's counts. Failure if a step adds
    arrays of unequal chunks or gathers a chunk twice, which no runtime could execute. Raises
    InputError for bad names and for collectives that are not the goal's.
    """
    k = tree.devices
    counts = _initial_counts(k, goal)
    digits = np.array(list(np.ndindex(*tree.sizes)), dtype=np.int64).reshape(k, -1)
    for number, step in enumerate(instructions(program, tree, goal)):
        free, zero = list(step.groups.free), list(step.groups.zero)
        fixed = [digit for digit in range(len(tree.digits)) if digit not in free]
        playing = ~digits[:, zero].any(axis=1)
        for key in sorted({tuple(row) for row in digits[playing][:, fixed].tolist()}):
            same = (digits[:, fixed] == np.array(key, dtype=np.int64)).all(axis=1)
            members = np.flatnonzero(playing & same)
            reason = _count_contributions(step.collective, members, counts, digits[:, free])
            if reason:
                return Failure(number, reason)
    return counts


def _initial_counts(k: int, goal: Goal) -> Array:
    counts = np.zeros((k, k, k), dtype=np.int64)
    indices = np.arange(k)
    match goal:
        case Goal.ALL_REDUCE | Goal.REDUCE_SCATTER | Goal.REDUCE | Goal.ALL_TO_ALL:
            counts[indices, :, indices] = 1
        case Goal.ALL_GATHER:
            counts[indices, indices, :] = 1
        case Goal.BROADCAST:
            counts[0] = 1
        case _:
            assert_never(goal)
    return counts


def expected_multiplicities(counts: Array, goal: Goal) -> Array:
    """The ``multiplicities`` of a correct program; unchanged where they do not matter."""
    k = len(counts)
    match goal:
        case Goal.ALL_REDUCE | Goal.ALL_GATHER | Goal.BROADCAST:
            return np.ones_like(counts)
        case Goal.REDUCE_SCATTER | Goal.ALL_TO_ALL:
            own = np.eye(k, dtype=counts.dtype)
            return np.repeat(own[:, :, None], k, axis=2)
        case Goal.REDUCE:
            return np.concatenate([np.ones_like(counts[:1]), counts[1:]])
        case _:
            assert_never(goal)


def _count_contributions(collective: Collective, members: Array, counts: Array, own: Array) -> str:
    """Runs one collective in one group; returns the reason why it is impossible, or ""."""
    held = counts[members]
    rows = np.asarray(held.any(axis=2))
    total = held.sum(axis=0)
    apart = (Collective.ALL_GATHER, Collective.BROADCAST)
    if collective not in apart and (rows != rows[0]).any():
        return "members hold different chunks"
    if collective is Collective.ALL_GATHER and (rows.sum(axis=0) > 1).any():
        return "two members hold one chunk"
    match collective:
        case Collective.ALL_REDUCE | Collective.ALL_GATHER:
            counts[members] = total
        case Collective.REDUCE:
            counts[members] = 0
            counts[members[0]] = total
        case Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
            own_chunks = (own[members][:, None, :] == own[None, :, :]).all(axis=2)
            counts[members] = np.where(own_chunks[:, :, None], total[None], 0)
        case Collective.BROADCAST:
            counts[members] = held[0]
        case _:
            assert_never(collective)
    return ""
