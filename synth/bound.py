"""What no schedule can beat: a lower bound on the seconds of a reduction, by counting cuts.

Cut all devices into equal parts, P of them, such that a reduction group has members in M. However
it is done, where nothing in the network reduces or multicasts, 2 (M - 1) payloads of that group
leave parts in an all-reduce: M - 1 must come together and M - 1 go back out. So the time is at
least their sum over all groups, divided by what can leave all parts together. The parts tried are
the children of every level, and where those stand in a ring, torus or mesh also the aligned arcs of
several of them. Nor is anything done before one message has come through.

On a tree with alike parts this is twice ForestColl's exact optimum for an all-gather (arXiv
2402.06787), and the bound for an all-gather or reduce-scatter is its half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from hierarchies import Domain, Reduction, System
from hierarchies.fabric import Cast, cast, groups_of_children, members


@dataclass(frozen=True)
class Bound:
    """A lower bound and the level whose links impose it.

    The level is ``latency`` where the bound is one message, and "" where there is nothing to do.
    """

    seconds: float
    level: str


def all_reduce_bound(system: System, reduction: Reduction, payload_bytes: float) -> Bound:
    """The least time in which every group of a reduction can be reduced on all its members."""
    return _bound(system, reduction, 2 * payload_bytes)


def all_gather_bound(system: System, reduction: Reduction, payload_bytes: float) -> Bound:
    """The least time of an all-gather, or a reduce-scatter, of a payload cut among the members."""
    return _bound(system, reduction, payload_bytes)


def _bound(system: System, reduction: Reduction, moved_bytes: float) -> Bound:
    tree = reduction.tree
    roles = cast(reduction, tuple(range(len(tree.digits))), ())
    best = _one_message(system, roles)
    for level, name in enumerate(system.hierarchy.names):
        for arc in _arcs(system, level):
            parts = _touched_parts(roles, level, arc)
            leaving = reduction.replicas * (parts - 1) * moved_bytes
            seconds = leaving / _capacity(system, level, arc)
            if seconds > best.seconds:
                best = Bound(seconds, name)
    return best


def _one_message(system: System, roles: Cast) -> Bound:
    """Members in different children of the outermost level they span must hear of each other.

    The message crosses that level's links, or those of a level outside of it.
    """
    spanned = [level for level, slots in enumerate(roles) if members(slots) > 1]
    if not spanned:
        return Bound(0.0, "")
    cardinalities = system.hierarchy.cardinalities
    crossed = [level for level in range(spanned[0] + 1) if cardinalities[level] > 1]
    return Bound(min(system.links[level].latency_seconds for level in crossed), "latency")


def _arcs(system: System, level: int) -> Iterator[int]:
    """How many neighbouring children make a part."""
    children = system.hierarchy.cardinalities[level]
    if _crossed(system, level):
        yield 1
    if system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH):
        yield from (arc for arc in range(2, children // 2 + 1) if children % arc == 0)


def _touched_parts(roles: Cast, level: int, arc: int) -> float:
    """In how many parts a group has members, on average over the groups."""
    outside = prod(members(slots) for slots in roles[:level])
    if arc == 1:
        return float(outside * members(roles[level]))
    touched = [len(set(group.tolist())) for group in groups_of_children(roles[level]) // arc]
    return float(outside * np.mean(touched))


def _capacity(system: System, level: int, arc: int) -> float:
    """Bytes a second that can leave all parts together.

    A message leaves by a link of the level itself or of an outer one; outer links that are
    reached through inner ones among these add nothing, nor do those that nothing crosses.
    """
    total = _own(system, level, arc)
    for outer in range(level):
        counted = any(outer < inner <= level for inner in system.through(outer))
        if _crossed(system, outer) and not counted:
            total += _own(system, outer, 1)
    return total


def _crossed(system: System, level: int) -> bool:
    """Whether there are messages that cross a level's links: its own, or those of outer levels."""
    cardinalities = system.hierarchy.cardinalities
    return cardinalities[level] > 1 or any(
        cardinalities[outer] > 1 and level in system.through(outer) for outer in range(level)
    )


def _own(system: System, level: int, arc: int) -> float:
    """Bytes a second over all links of a level that leave a part of ``arc`` children."""
    cardinalities = system.hierarchy.cardinalities
    children, domains = cardinalities[level], prod(cardinalities[:level])
    link = system.links[level]
    parts = children // arc
    neighbours = min(2, children - 1)
    match link.domain:
        case Domain.SWITCH:
            per_part = link.ports * arc
        case Domain.RING:
            per_part = neighbours
        case Domain.TORUS:
            per_part = neighbours * system.hierarchy.devices_in_child(level)
        case Domain.MESH:
            per_part = arc * (children - arc)
        case Domain.BUS:
            return domains * link.bandwidth_bytes_per_second
    return domains * parts * per_part * link.bandwidth_bytes_per_second
