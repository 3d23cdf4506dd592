"""Contention for links: devices that share a port, and routes inside one domain.

Eight GPUs of a node with four NICs share each NIC in pairs, so messages of both GPUs of a pair take
twice the time. All devices of a hierarchy are alike, so one child, or one domain, represents all:
the cost of these functions grows with the number of children of one level, not with the number of
devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np
import numpy.typing as npt

from hierarchies.errors import InputError
from hierarchies.reduction import DigitPart, Reduction
from hierarchies.system import Domain, System

Weights = npt.NDArray[np.float64]


class Role(Enum):
    """The role of a part of a level's digit in an instruction.

    FREE: it varies inside a group. ZERO: it must be 0 for a device to take part. FIXED: it
    distinguishes groups. IDLE is not part of the digit: it counts idle children, which come after
    all others. (3 free, 1 idle) means four children, three of which are busy.
    """

    FREE = "free"
    ZERO = "zero"
    FIXED = "fixed"
    IDLE = "idle"


@dataclass(frozen=True)
class Slot:
    """A part of a level's digit with its role; adjacent parts of the same role are merged."""

    size: int
    role: Role


Cast = tuple[tuple[Slot, ...], ...]
"""The slots of each level: levels outermost first, slots slowest first."""


def roles_of(reduction: Reduction, free: tuple[int, ...], zero: tuple[int, ...]) -> Cast:
    """Return the roles of each level's parts, given the free and zero digits of an instruction."""

    def role(digit: int | None) -> Role:
        if digit in free:
            return Role.FREE
        return Role.ZERO if digit in zero else Role.FIXED

    levels = []
    for parts in reduction.parts:
        slots: list[Slot] = []
        for part in parts:
            size, part_role = part.size, role(part.digit)
            if slots and slots[-1].role is part_role:
                size *= slots.pop().size
            slots.append(Slot(size, part_role))
        levels.append(tuple(slots))
    return tuple(levels)


def price_class(system: System, reduction: Reduction) -> tuple[tuple[DigitPart, ...], ...]:
    """Return a reduction's key for prices: with equal keys, every program has equal prices.

    Under a crossbar only the number of a group's children matters, not their positions. With data=2
    and model=4 in a node of eight GPUs, each with its own NIC, a sum over data costs the same
    independent of the axis that varies faster. The order of a level's parts matters if two GPUs
    share a NIC, in a ring, and if some links are slower than others.
    """
    ordered = _ordered_levels(system)
    return tuple(
        parts if level in ordered else tuple(sorted(_merge_by_digit(parts), key=_place))
        for level, parts in enumerate(reduction.parts)
    )


def _ordered_levels(system: System) -> set[int]:
    """Return the levels at which the order of the children affects prices."""
    if system.faults:
        return set(range(len(system.links)))
    ordered = {i for i, link in enumerate(system.links) if link.domain is not Domain.SWITCH}
    cardinalities = system.hierarchy.cardinalities
    for outer in range(len(system.links)):
        block = system.block(outer)
        for level in reversed(range(outer + 1, len(system.links))):
            if block % cardinalities[level]:
                ordered |= {level} if block > 1 else set()
                break
            block //= cardinalities[level]
    return ordered


def _merge_by_digit(parts: tuple[DigitPart, ...]) -> list[DigitPart]:
    sizes: dict[int | None, int] = {}
    for part in parts:
        sizes[part.digit] = sizes.get(part.digit, 1) * part.size
    return [DigitPart(size, digit) for digit, size in sizes.items()]


def _place(part: DigitPart) -> int:
    return -1 if part.digit is None else part.digit


def count_children(slots: tuple[Slot, ...]) -> int:
    """Return the number of children of one parent at this level, including idle ones."""
    idle = sum(slot.size for slot in slots if slot.role is Role.IDLE)
    return idle + prod(slot.size for slot in slots if slot.role is not Role.IDLE)


def count_groups_within(levels: Cast) -> int:
    """Return the number of groups with members in one child, whose inner levels are ``levels``."""
    return prod(slot.size for slots in levels for slot in slots if slot.role is Role.FIXED)


def count_members(slots: tuple[Slot, ...]) -> int:
    """Return the number of children of one parent at this level that hold members of one group."""
    count = 1
    for slot in slots:
        count *= slot.size if slot.role is Role.FREE else 1
    return count


def participation(slots: tuple[Slot, ...]) -> npt.NDArray[np.bool_]:
    """Return which children of one parent take part: booleans, shape (children,)."""
    table, idle = np.ones(1, dtype=np.bool_), 0
    for slot in slots:
        if slot.role is Role.IDLE:
            idle += slot.size
        else:
            alive = np.ones(slot.size, dtype=np.bool_)
            if slot.role is Role.ZERO:
                alive[1:] = False
            table = (table[:, None] & alive[None, :]).reshape(-1)
    return np.pad(table, (0, idle))


def busiest_block(levels: Cast, block: int) -> int:
    """Return the most participants in any aligned block of ``block`` neighbouring devices.

    Such a block shares one port of a child. ``levels`` are the levels inside the child, outermost
    first. ``System`` guarantees that a block consists of whole children of one of them; the last
    block may be smaller.
    """
    count = 1
    for slots in reversed(levels):
        alive = participation(slots)
        if block % len(alive) == 0:
            count *= int(alive.sum())
            block //= len(alive)
        else:
            return count * int(_cut(alive, block).sum(axis=1).max())
    return count


def busiest_port(levels: Cast, block: int) -> float:
    """Return the same where each group's bytes are spread evenly over the ports that it reaches.

    A library lays rings and trees over ports, not over devices: three devices on two ports send
    half over each. ``levels`` are as in ``busiest_block``, and blocks those of the innermost.
    """
    slots = levels[-1]
    children = groups_of_children(slots)
    on_port = np.zeros((len(children), -(-count_children(slots) // block)))
    np.add.at(on_port, (np.arange(len(children))[:, None], children // block), 1.0)
    reached = on_port > 0
    share = children.shape[1] / reached.sum(axis=1, keepdims=True)
    return float((reached * share).sum(axis=0).max())


def _cut(alive: npt.NDArray[np.bool_], block: int) -> npt.NDArray[np.bool_]:
    """Return the rows of ``block`` neighbours; the last may be a part of one."""
    return np.pad(alive, (0, -len(alive) % block)).reshape(-1, block)


def count_busy_blocks(levels: Cast, block: int) -> int:
    """Return the number of aligned blocks of ``block`` neighbours in a child with a participant.

    ``levels`` are the levels inside the child, as in ``busiest_block``.
    """
    count = 1
    for slots in reversed(levels):
        alive = participation(slots)
        if block % len(alive) == 0:
            block //= len(alive)
        else:
            count *= int(_cut(alive, block).any(axis=1).sum())
            block = 1
    return count


@dataclass(frozen=True)
class Load:
    """The load that messages among children put on a domain.

    ``peak`` is the load of the busiest link, in units of the bytes that the busiest child sends;
    ``hops`` is the most links that a message crosses.
    """

    peak: float
    hops: int


MOST_LISTED = 2**24
MOST_CHILDREN = 1024
"""The limit for domains other than switches, whose messages are routed individually."""


def route_load(
    domain: Domain,
    slots: tuple[Slot, ...],
    demand: Callable[[int], Weights],
    wraps: bool = True,
) -> Load:
    """Route the messages of all groups of one domain; ``wraps`` as in ``Link``.

    ``demand(m)[i, j]`` has the bytes that the i-th of m member children of every group sends to the
    j-th, in units of the bytes that the busiest child sends. For all domains except switches.
    Raises InputError for more than ``MOST_CHILDREN`` children.
    """
    children = count_children(slots)
    if children > MOST_CHILDREN:
        raise InputError(
            f"a {domain.value} of {children} children",
            hint=f"at most {MOST_CHILDREN} can be priced",
        )
    sent = demand(count_members(slots))
    groups = groups_of_children(slots)
    match domain:
        case Domain.BUS:
            return Load(float(sent.sum()) * len(groups), 1)
        case Domain.MESH:
            return Load(float(sent.max()), 1)
        case _:
            return _load_circle(children, groups, sent, wraps)


def _load_circle(children: int, groups: npt.NDArray[np.int64], sent: Weights, wraps: bool) -> Load:
    """Return the load of a circle: messages take the shorter way, or half each way if equal.

    On a line there is only one way.
    """
    here, there = np.nonzero(sent)
    source, target = groups[:, here].ravel(), groups[:, there].ravel()
    weight = np.tile(sent[here, there], len(groups))
    ahead = (target - source) % children
    shorter = np.where(2 * ahead < children, 1.0, np.where(2 * ahead == children, 0.5, 0.0))
    forth = weight * (shorter if wraps else target > source)
    peak = max(
        _busiest_link_load(children, source, ahead, forth),
        _busiest_link_load(children, target, children - ahead, weight - forth),
    )
    # Between two children there is a single link, shared by both ways around.
    sharing = 2 if children == 2 and wraps else 1
    hops = np.minimum(ahead, children - ahead) if wraps else np.abs(target - source)
    return Load(sharing * peak, int(hops.max(initial=1)))


def _busiest_link_load(
    children: int, first: npt.NDArray[np.int64], length: npt.NDArray[np.int64], weight: Weights
) -> float:
    """Return the busiest link's load one way round; messages cross ``length`` links."""
    change = np.zeros(2 * children + 1)
    np.add.at(change, first, weight)
    np.add.at(change, first + length, -weight)
    once = np.cumsum(change[:-1])
    return float((once[:children] + once[children:]).max())


def groups_of_children(slots: tuple[Slot, ...]) -> npt.NDArray[np.int64]:
    """Return the children of each group of one parent, shape (groups, members).

    Raises InputError for more children than can be listed.
    """
    slots = tuple(slot for slot in slots if slot.role is not Role.IDLE)
    children = count_children(slots)
    if children > MOST_LISTED:
        raise InputError(f"{children} children of one unit", hint=f"at most {MOST_LISTED}")
    numbers = np.arange(children)
    grid = numbers.reshape([slot.size for slot in slots])
    for axis, slot in enumerate(slots):
        if slot.role is Role.ZERO:
            grid = grid.take([0], axis=axis)
    fixed = [axis for axis, slot in enumerate(slots) if slot.role is not Role.FREE]
    free = [axis for axis, slot in enumerate(slots) if slot.role is Role.FREE]
    return grid.transpose(fixed + free).reshape(-1, count_members(slots))
