"""What each host is to do, phase by phase: a schedule by devices instead of by groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grammar import Collective
from synth.collective.semantics.schedule import Exchange, Phase, Schedule, Transpose

ITEM_BYTES = 4


@dataclass(frozen=True)
class Part:
    """A host's part in one collective: who takes part, in order, and which of them it is.

    ``elements`` is the length of the larger of its buffers before and after.
    """

    collective: Collective
    members: tuple[int, ...]
    rank: int
    elements: int

    @property
    def before(self) -> int:
        """The member before this one in a circle."""
        return self.members[self.rank - 1]

    @property
    def after(self) -> int:
        """The member after this one in a circle."""
        return self.members[(self.rank + 1) % len(self.members)]


@dataclass(frozen=True)
class Turn:
    """A host's own buffer transposed: seen as ``shape`` and one more, its dimensions reordered."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]


Order = Part | Turn
Orders = tuple[tuple[Order, ...], ...]
"""For every host what it does, in order."""


def orders(schedule: Schedule) -> Orders:
    """What every host does of a schedule in one segment."""
    assert schedule.segments == 1
    return by_host(schedule.phases, schedule.devices)


def by_host(phases: Sequence[Phase], hosts: int) -> Orders:
    """What every host does of some phases, in their order.

    Raises ValueError for buffers that are no whole number of elements.
    """
    found: list[list[Order]] = [[] for _ in range(hosts)]
    for phase in phases:
        match phase:
            case Exchange():
                if phase.size_bytes % ITEM_BYTES:
                    raise ValueError(f"{phase.size_bytes} bytes are no elements of {ITEM_BYTES}")
                for group in phase.groups.tolist():
                    for rank, device in enumerate(group):
                        elements = phase.size_bytes // ITEM_BYTES
                        found[device].append(Part(phase.collective, tuple(group), rank, elements))
            case Transpose():
                for device in phase.devices.tolist():
                    found[device].append(Turn(phase.shape, phase.axes))
    return tuple(tuple(each) for each in found)


def sends(order: Order) -> Iterable[int]:
    """To whom a host sends in an order."""
    if isinstance(order, Turn):
        return ()
    last = len(order.members) - 1
    match order.collective:
        case Collective.REDUCE:
            return () if order.rank == 0 else (order.before,)
        case Collective.BROADCAST:
            return () if order.rank == last else (order.after,)
        case _:
            return (order.after,)


def meetings(programs: Iterable[Orders]) -> frozenset[tuple[int, int]]:
    """Every (sender, receiver) that programs need."""
    return frozenset(
        (device, target)
        for program in programs
        for device, mine in enumerate(program)
        for order in mine
        for target in sends(order)
    )
