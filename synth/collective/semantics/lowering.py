"""Lowers steps on the synthesis tree to a schedule for the real devices of every replica."""

from __future__ import annotations

from math import prod

import numpy as np

from grammar import Goal, Groups
from hierarchies import Devices, InputError, Reduction, Tree
from synth.collective.semantics.layout import Bookkeeper, Move, Shuffle, kinds
from synth.collective.semantics.rules import Derivation, State
from synth.collective.semantics.schedule import Exchange, Phase, Schedule, Transpose, pad_length
from synth.collective.semantics.truth_tables import TruthTables, truth_tables


def moves(derivation: Derivation) -> tuple[Move, ...]:
    """The steps of a derived program with the buffers they move and the shuffles they need."""
    return _moves(derivation)[0]


def _moves(derivation: Derivation) -> tuple[tuple[Move, ...], tuple[int, ...]]:
    """The moves, and every digit along which the payload is cut at some step."""
    bookkeeper = Bookkeeper(truth_tables(len(derivation.tree.digits)), derivation.goal)
    layout = bookkeeper.start
    listed = []
    scattered = set(layout.first)
    states = derivation.states
    for i, step in enumerate(derivation.instructions):
        move, layout = bookkeeper.advance(layout, step, states[i], states[i + 1])
        scattered.update(layout.first)
        listed.append(move)
    return tuple(listed), tuple(sorted(scattered))


def lower(
    derivation: Derivation, reduction: Reduction, payload_bytes: int, segments: int = 1
) -> Schedule:
    """Lowers a derived program to the devices of a reduction, every replica included.

    Raises InputError if the program was derived on another tree than the reduction's, or for a
    payload below one byte.
    """
    if derivation.tree != reduction.tree:
        raise InputError(
            f"the program was derived on the tree {derivation.tree}",
            hint=f"the reduction's tree is {reduction.tree}",
        )
    check_payload(payload_bytes)
    steps, scattered = _moves(derivation)
    pieces = prod(reduction.tree.sizes[digit] for digit in scattered)
    segment_bytes = pad_length(payload_bytes, pieces * segments) // segments
    builder = _PhaseBuilder(reduction, segment_bytes, derivation.goal)
    phases: list[Phase] = []
    for i, move in enumerate(steps):
        before, after = derivation.states[i], derivation.states[i + 1]
        phases += [builder.transpose(shuffle, before) for shuffle in move.before]
        phases.append(builder.exchange(move))
        phases += [builder.transpose(shuffle, after) for shuffle in move.after]
    program, goal = derivation.program, derivation.goal
    return Schedule(program, reduction, payload_bytes, pieces, tuple(phases), segments, goal)


def check_payload(payload_bytes: int) -> None:
    """Raises InputError for a payload below one byte."""
    if payload_bytes < 1:
        raise InputError(f"the payload is {payload_bytes} bytes", hint="at least 1 is needed")


def buffer_fraction(scattered: tuple[int, ...], tree: Tree) -> int:
    """The number of equal parts of a payload that is scattered over these digits.

    On a tree of 4 nodes of 8, scattered over both digits: 32.
    """
    return prod(tree.sizes[digit] for digit in scattered)


class _PhaseBuilder:
    """Builds phases of real devices from the grid of replicas and tree digits."""

    def __init__(self, reduction: Reduction, payload_bytes: int, goal: Goal) -> None:
        self._tree = reduction.tree
        self._space: TruthTables = truth_tables(len(self._tree.digits))
        self._grid = reduction.grid().reshape(-1, *self._tree.sizes)
        self._payload_bytes = payload_bytes
        self._goal = goal

    def exchange(self, move: Move) -> Exchange:
        groups = move.instruction.groups
        largest = max(self._size(kind) for kind in move.buffers)
        return Exchange(move.instruction.collective, self._groups(groups), largest)

    def transpose(self, shuffle: Shuffle, state: State) -> Transpose:
        return Transpose(
            self._holders(shuffle, state),
            tuple(self._tree.sizes[digit] for digit in shuffle.before),
            tuple(shuffle.before.index(digit) for digit in shuffle.after),
            self._size(shuffle.scattered),
        )

    def _size(self, scattered: tuple[int, ...]) -> int:
        return self._payload_bytes // buffer_fraction(scattered, self._tree)

    def _groups(self, groups: Groups) -> Devices:
        """Groups by replica, then by the fixed digits; members by their free digits."""
        index = [slice(None)] * self._grid.ndim
        for digit in groups.zero:
            index[1 + digit] = slice(0, 1)
        part = self._grid[tuple(index)]
        fixed = [axis for axis in range(part.ndim) if axis - 1 not in groups.free]
        members = prod(self._tree.sizes[digit] for digit in groups.free)
        order = fixed + [1 + digit for digit in groups.free]
        return np.ascontiguousarray(part.transpose(order).reshape(-1, members))

    def _holders(self, shuffle: Shuffle, state: State) -> Devices:
        """The participating devices whose buffer is scattered over exactly these digits."""
        held = kinds(self._space, state, self._goal)
        low = sum(1 << digit for digit in shuffle.zero)
        chosen = np.array(
            [kind == shuffle.scattered and not d & low for d, kind in enumerate(held)], dtype=bool
        )
        skeleton = np.zeros(self._tree.sizes, dtype=np.int64)
        for digit, size in enumerate(self._tree.sizes):
            shape = [1] * len(self._tree.sizes)
            shape[digit] = size
            skeleton = skeleton + ((np.arange(size) > 0).astype(np.int64) << digit).reshape(shape)
        return self._grid[:, chosen[skeleton]].reshape(-1)
