"""The order of a payload's pieces in memory, and the local shuffles that restore it.

A reduce-scatter needs its members' pieces one after the other, and an all-gather produces them in
that order. Where the next step, or the caller, expects another order, every device that holds the
buffer transposes it in place. Orders are tuples of tree digits, slowest first; digits that were
never scattered vary fastest and are not named. If the caller has the payload in pieces, the pieces
are in the order of the members at the start and at the end.

An all-to-all needs the blocks for its members in sequence, and replaces them by the blocks received
from these members. Before the all-to-all over a digit, that digit of an order numbers the
destinations of blocks; afterwards, their sources. Buffers stay whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar import Goal, Groups, Instruction
from synth.collective.semantics.rules import AIMS, State
from synth.collective.semantics.truth_tables import TruthTables

Digits = tuple[int, ...]
Buffers = tuple[Digits, ...]
"""The kinds of buffers that some devices hold, each as the sorted digits it is scattered over."""


@dataclass(frozen=True)
class Layout:
    """Orders of tree digits in the payload, slowest first: the caller's, and the current one."""

    first: Digits = ()
    now: Digits = ()


@dataclass(frozen=True)
class Shuffle:
    """A local transpose of the buffers scattered over ``scattered``: one order into another.

    Both orders name the same digits; only devices whose ``zero`` digits are all 0 take part.
    """

    scattered: Digits
    before: Digits
    after: Digits
    zero: Digits = ()


@dataclass(frozen=True)
class Move:
    """A step with everything its price depends on, so that equal moves cost the same anywhere.

    ``buffers`` are the largest buffers of the participants, before or after the step.
    """

    instruction: Instruction
    buffers: Buffers
    before: tuple[Shuffle, ...] = ()
    after: tuple[Shuffle, ...] = ()


def kinds(
    space: TruthTables, state: State, goal: Goal = Goal.ALL_REDUCE
) -> tuple[Digits | None, ...]:
    """For every skeleton device, the digits its buffer is scattered over; None without a buffer.

    Bit i of a skeleton device's number says whether its digit i is not 0. In programs for an
    all-to-all every buffer stays whole: fewer chunks have more contributors each.
    """
    depth = space.depth
    if goal.apart:
        return ((),) * (1 << depth)
    rows = space.drop(state, 2 * depth)
    holders = space.drop(rows, depth)
    free = [space.drop(rows & space.flip(rows, depth + digit), depth) for digit in range(depth)]
    return tuple(
        tuple(digit for digit in range(depth) if not free[digit] >> device & 1)
        if holders >> device & 1
        else None
        for device in range(1 << depth)
    )


class Bookkeeper:
    """Tracks buffers and layout through the steps of a program for a goal."""

    def __init__(self, space: TruthTables, goal: Goal = Goal.ALL_REDUCE) -> None:
        canonical = tuple(space.devices) if goal.in_pieces else ()
        self.start = Layout(canonical, canonical)
        self._space = space
        self._goal = goal
        self._end = AIMS[goal].end(space)
        self._watched = AIMS[goal].watched(space)
        self._kinds: dict[State, tuple[Digits | None, ...]] = {}

    def advance(
        self, layout: Layout, instruction: Instruction, before: State, after: State
    ) -> tuple[Move, Layout]:
        """Advances by one step: returns its move with the shuffles, and the layout afterwards."""
        groups = instruction.groups
        held, bystanders = self._held_kinds(before, groups.zero)
        produced, _ = self._held_kinds(after, groups.zero)
        shuffles: tuple[Shuffle, ...] = ()
        repairs: tuple[Shuffle, ...] = ()
        if instruction.collective.scatters:
            layout = _append_digits(layout, groups.free)
            front = _move_to_front(layout.now, groups.free)
            shuffles = _shuffles(held, layout.now, front, groups.zero)
        if instruction.collective.apart:
            layout = Layout(layout.first, _move_to_front(layout.now, groups.free))
        if instruction.collective.gathers:
            layout, repairs = _gather_layout(layout, groups, produced, bystanders)
        reached = after & self._watched == self._end
        if reached:
            repairs += self._restore_order(layout, after)
        # Back to the start layout, so that equal states meet in one vertex of the search graph.
        if reached or self._is_initial_order(layout, after):
            layout = self.start
        return Move(instruction, _largest(held + produced), shuffles, repairs), layout

    def _restore_order(self, layout: Layout, state: State) -> tuple[Shuffle, ...]:
        """The shuffles that return the buffers of interest to the caller's order at the end."""
        zero = tuple(self._space.devices) if self._goal.to_first else ()
        return _shuffles(self._held_kinds(state, zero)[0], layout.now, layout.first, zero)

    def _is_initial_order(self, layout: Layout, state: State) -> bool:
        """Whether every holder of data holds the whole payload in order, with all chunks alike.

        The payload may then be cut along different digits, as if it had never been cut.
        """
        chunks = self._space.rows(self._space.devices)
        return layout.now == layout.first and self._space.same(state, chunks)

    def _held_kinds(self, state: State, zero: Digits) -> tuple[Buffers, Buffers]:
        """The kinds of buffers of participants, and of bystanders."""
        if state not in self._kinds:
            self._kinds[state] = kinds(self._space, state, self._goal)
        low = sum(1 << digit for digit in zero)
        sides: tuple[set[Digits], set[Digits]] = (set(), set())
        for device, kind in enumerate(self._kinds[state]):
            if kind is not None:
                sides[bool(device & low)].add(kind)
        return tuple(sorted(sides[False])), tuple(sorted(sides[True]))


def _append_digits(layout: Layout, digits: Digits) -> Layout:
    """The layout after digits are scattered for the first time: they follow all earlier digits."""
    fresh = tuple(digit for digit in digits if digit not in layout.first)
    return Layout(layout.first + fresh, layout.now + fresh)


def _gather_layout(
    layout: Layout, groups: Groups, produced: Buffers, bystanders: Buffers
) -> tuple[Layout, tuple[Shuffle, ...]]:
    """The layout after an all-gather, which puts its digits in front, and the shuffles it needs.

    All devices then use the new order. But if devices that took no part hold data which the two
    orders arrange differently, the old order stays, and the participants transpose back at once.
    """
    new = _move_to_front(layout.now, groups.free)
    if _shuffles(bystanders, layout.now, new, ()):
        return layout, _shuffles(produced, new, layout.now, groups.zero)
    return Layout(layout.first, new), ()


def _shuffles(held: Buffers, before: Digits, after: Digits, zero: Digits) -> tuple[Shuffle, ...]:
    """The shuffles that bring buffers from one order of the payload's digits into another.

    A buffer needs none if it is scattered over all digits in which the two orders differ.
    """
    orders = ((kind, _order(before, kind), _order(after, kind)) for kind in held)
    return tuple(
        Shuffle(kind, source, target, zero) for kind, source, target in orders if source != target
    )


def _order(digits: Digits, scattered: Digits) -> Digits:
    """The order of digits inside a buffer that is scattered over some of them."""
    return tuple(digit for digit in digits if digit not in scattered)


def _move_to_front(order: Digits, digits: Digits) -> Digits:
    """The order with some digits moved to the front."""
    return digits + _order(order, digits)


def _largest(kinds: Buffers) -> Buffers:
    """The kinds that no other kind exceeds at every size."""
    sets = {frozenset(kind): kind for kind in kinds}
    return tuple(
        sorted(kind for digits, kind in sets.items() if not any(other < digits for other in sets))
    )
