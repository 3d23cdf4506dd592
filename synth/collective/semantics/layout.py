"""In which order the pieces of a payload lie in memory, and the local shuffles that restore it.

A reduce-scatter wants its members' pieces one after the other, and an all-gather leaves them so.
Whenever that is not the order the next step, or the caller, expects, the buffer is transposed in
place by every device that holds it. Orders are tuples of tree digits, slowest first; digits that
were never scattered vary fastest and are not named. Where the caller has the payload in pieces,
they lie in the order of the members at first and in the end.

An all-to-all wants the blocks for its members one after the other, and leaves in their place the
blocks that came from them. Before the all-to-all over a digit, that digit of an order numbers the
devices that blocks are for; afterwards, the devices they came from. Buffers stay whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammar import Goal, Groups, Instruction
from synth.collective.semantics.rules import AIMS, State
from synth.collective.semantics.truth_tables import TruthTables

Digits = tuple[int, ...]
Buffers = tuple[Digits, ...]
"""The kinds of buffers some devices hold, each by the sorted digits it is scattered over."""


@dataclass(frozen=True)
class Layout:
    """Orders of tree digits in the payload, slowest first: the caller's, and the one it has now."""

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
    """A step with all that its price depends on, so that equal moves cost the same anywhere.

    ``buffers`` are the largest buffers of those who take part, before or after the step.
    """

    instruction: Instruction
    buffers: Buffers
    before: tuple[Shuffle, ...] = ()
    after: tuple[Shuffle, ...] = ()


def kinds(
    space: TruthTables, state: State, goal: Goal = Goal.ALL_REDUCE
) -> tuple[Digits | None, ...]:
    """For every skeleton device the digits its buffer is scattered over; None if it has none.

    Bit i of a skeleton device's number says whether its digit i is not 0. On the way to an
    all-to-all all buffers stay whole: with fewer chunks come more contributors to each.
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
    """Follows buffers and layout through the steps of a program for a goal."""

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
        """One step from a state to the next: what it moves and shuffles, and the layout then."""
        groups = instruction.groups
        held, bystanders = self._held(before, groups.zero)
        got, _ = self._held(after, groups.zero)
        shuffles: tuple[Shuffle, ...] = ()
        repairs: tuple[Shuffle, ...] = ()
        if instruction.collective.scatters:
            layout = _append_digits(layout, groups.free)
            front = _move_to_front(layout.now, groups.free)
            shuffles = _shuffles(held, layout.now, front, groups.zero)
        if instruction.collective.apart:
            layout = Layout(layout.first, _move_to_front(layout.now, groups.free))
        if instruction.collective.gathers:
            layout, repairs = _gather_layout(layout, groups, got, bystanders)
        reached = after & self._watched == self._end
        if reached:
            repairs += self._restored(layout, after)
        if reached or self._as_at_first(layout, after):
            layout = self.start
        return Move(instruction, _largest(held + got), shuffles, repairs), layout

    def _restored(self, layout: Layout, state: State) -> tuple[Shuffle, ...]:
        """At the end the buffers that are looked at return to the order the caller expects."""
        zero = tuple(self._space.devices) if self._goal.to_first else ()
        return _shuffles(self._held(state, zero)[0], layout.now, layout.first, zero)

    def _as_at_first(self, layout: Layout, state: State) -> bool:
        """Whether all who hold anything hold the whole payload in order, every chunk of it alike.

        It may then be cut along other digits than before, as if it had never been cut.
        """
        chunks = self._space.rows(self._space.devices)
        return layout.now == layout.first and self._space.same(state, chunks)

    def _held(self, state: State, zero: Digits) -> tuple[Buffers, Buffers]:
        """The kinds of buffers of those who take part, and of the bystanders."""
        if state not in self._kinds:
            self._kinds[state] = kinds(self._space, state, self._goal)
        low = sum(1 << digit for digit in zero)
        sides: tuple[set[Digits], set[Digits]] = (set(), set())
        for device, kind in enumerate(self._kinds[state]):
            if kind is not None:
                sides[bool(device & low)].add(kind)
        return tuple(sorted(sides[False])), tuple(sorted(sides[True]))


def _append_digits(layout: Layout, digits: Digits) -> Layout:
    """The layout once digits are scattered for the first time: behind all scattered before."""
    fresh = tuple(digit for digit in digits if digit not in layout.first)
    return Layout(layout.first + fresh, layout.now + fresh)


def _gather_layout(
    layout: Layout, groups: Groups, got: Buffers, bystanders: Buffers
) -> tuple[Layout, tuple[Shuffle, ...]]:
    """The layout after an all-gather, which puts its digits in front, and shuffles to mend it.

    All devices then use the new order. But if devices that took no part hold data which the two
    orders arrange differently, the old one stays, and those that took part transpose back at once.
    """
    new = _move_to_front(layout.now, groups.free)
    if _shuffles(bystanders, layout.now, new, ()):
        return layout, _shuffles(got, new, layout.now, groups.zero)
    return Layout(layout.first, new), ()


def _shuffles(held: Buffers, before: Digits, after: Digits, zero: Digits) -> tuple[Shuffle, ...]:
    """What brings buffers from one order of the payload's digits into another.

    A buffer needs none if it is scattered over all digits in which the two orders differ.
    """
    orders = ((kind, _order(before, kind), _order(after, kind)) for kind in held)
    return tuple(Shuffle(kind, now, then, zero) for kind, now, then in orders if now != then)


def _order(digits: Digits, scattered: Digits) -> Digits:
    """The order in which digits lie in a buffer that is scattered over some of them."""
    return tuple(digit for digit in digits if digit not in scattered)


def _move_to_front(order: Digits, digits: Digits) -> Digits:
    """The order once some digits are brought, or have come, to the front."""
    return digits + _order(order, digits)


def _largest(kinds: Buffers) -> Buffers:
    """Only the kinds that no other kind exceeds at every size."""
    sets = {frozenset(kind): kind for kind in kinds}
    return tuple(sorted(k for s, k in sets.items() if not any(other < s for other in sets)))
