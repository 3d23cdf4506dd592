"""Lower bounds for unequal links or groups, by the bytes that must cross each unit's links.

``bound`` lets one child stand for all children of its level. Here every unit of every level is a
part of its own, with the links by which its devices can leave it, each at its own speed; groups are
lists of devices with any number of members in any unit. This module uses two of the counts in
``bound``: one part alone, for any goal, and all parts of a level together, for an all-reduce.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from grammar import Goal
from hierarchies import Devices, Domain, Hierarchy, System
from hierarchies.fabric import Cast
from hierarchies.links import Floats, Numbers, Wiring

Counts = Floats


def buffers_across(goal: Goal, p: Counts, k: Counts | int, rooted: Counts) -> tuple[Counts, Counts]:
    """Buffers that must leave and enter a part that holds p of the k members of each group.

    A part with 3 of 8 members of an all-gather sends 3/8 and receives 5/8. ``rooted`` is 1 for a
    group whose root is in the part, else 0.
    """
    cut = (p > 0) & (p < k)
    match goal:
        case Goal.ALL_REDUCE:
            out, into = np.ones_like(p), np.ones_like(p)
        case Goal.ALL_GATHER:
            out, into = p / k, (k - p) / k
        case Goal.REDUCE_SCATTER:
            out, into = (k - p) / k, p / k
        case Goal.BROADCAST:
            out, into = rooted, 1 - rooted
        case Goal.REDUCE:
            out, into = 1 - rooted, rooted
        case Goal.ALL_TO_ALL:
            out = into = p * (k - p) / k
    return out * cut, into * cut


def torus_orders(system: System, roles: Cast) -> Iterator[tuple[System, Cast]]:
    """Yields the machine with the dimensions of its torus in every order, the given order first.

    A torus has no outer dimension but a hierarchy does, and its parts are rows of children. In
    another order these rows are slabs across another dimension, so bounds of all orders hold.
    """
    tori = [level for level, link in enumerate(system.links) if link.domain is Domain.TORUS]
    first, last = (tori[0], tori[-1] + 1) if tori else (0, 0)
    # Other levels in between, shared links and faults tie a dimension to its place, and so do ports
    # outside the torus that some neighbours share: the chips of a host.
    fixed = tori != [*range(first, last)] or any(link.through for link in system.links)
    hosts = any(
        1 < system.block(outer) < system.hierarchy.devices_in_child(outer) for outer in range(first)
    )
    if fixed or hosts or system.faults:
        tori, last = [], first
    for order in permutations(tori):
        place = [*range(first), *order, *range(last, len(system.links))]
        hierarchy = Hierarchy(tuple(system.hierarchy.levels[i] for i in place))
        links = tuple(
            replace(system.links[i], ports=hierarchy.devices_in_child(level))
            if i in tori
            else system.links[i]
            for level, i in enumerate(place)
        )
        turned = replace(system, hierarchy=hierarchy, links=links)
        yield turned, tuple(roles[i] for i in place)


def is_crossed(system: System, level: int) -> bool:
    """Whether any message crosses a level's links: those of the level itself or of outer levels."""
    cardinalities = system.hierarchy.cardinalities
    return cardinalities[level] > 1 or any(
        cardinalities[outer] > 1 and level in system.through(outer) for outer in range(level)
    )


def cut_seconds(wiring: Wiring, groups: Sequence[Devices], goal: Goal) -> tuple[float, ...]:
    """Returns, for each level, a lower bound in seconds per byte of buffer on every member.

    ``groups`` are the members of each group, the root first; every device present is in one group.
    Levels whose links are not ports count at their described speed, even where some are slower.
    """
    member = np.concatenate(groups)
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    sizes = np.array([[len(group)] for group in groups])
    roots = np.array([group[0] for group in groups])
    bounds = []
    for level in range(len(wiring.system.links)):
        if not is_crossed(wiring.system, level):
            bounds.append(0.0)
            continue
        inside = wiring.system.hierarchy.devices_in_child(level)
        units, unit = np.unique(member // inside, return_inverse=True)
        p = np.zeros((len(groups), len(units)))
        np.add.at(p, (owner, unit), 1.0)
        rooted = (roots[:, None] // inside == units).astype(np.float64)
        room = _leaving_rate(wiring, level, member, unit)
        crossing = buffers_across(goal, p, sizes, rooted)
        alone = max(float((buffers.sum(axis=0) / room).max()) for buffers in crossing)
        bounds.append(
            max(alone, _buffers_together(wiring.system, level, p, goal) / float(room.sum()))
        )
    return tuple(bounds)


def _buffers_together(system: System, level: int, p: Counts, goal: Goal) -> float:
    """Buffers that leave all parts together, summed over all groups; 0 except for an all-reduce.

    A group in M parts sends 2 (M - 1), or M where a switch between them reduces.
    """
    touched = (p > 0).sum(axis=1)
    spread = touched[touched > 1]
    if goal is not Goal.ALL_REDUCE:
        return 0.0
    if any(link.reduces for link in system.links[: level + 1]):
        return float(spread.sum())
    return float((2 * (spread - 1)).sum())


def _leaving_rate(wiring: Wiring, level: int, devices: Numbers, unit: Numbers) -> Floats:
    """Bytes a second that can leave each unit by the links that its devices can reach.

    ``devices[i]`` is in unit ``unit[i]``, counted from 0.
    """
    system = wiring.system
    total = np.zeros(1 + int(unit.max()))
    for outer in range(level + 1):
        counted = any(outer < inner <= level for inner in system.through(outer))
        if is_crossed(system, outer) and not counted:
            total += _own_leaving_rate(wiring, outer, devices, unit, level)
    return total


def _own_leaving_rate(
    wiring: Wiring, outer: int, devices: Numbers, unit: Numbers, level: int
) -> Floats:
    """Bytes a second that can leave each unit by one level's links.

    A missing port still counts, because its bytes take a detour over other ports. The unit's own
    ports are already counted, so a missing port counts for at most the rate of the ports outside.
    """
    system, units = wiring.system, 1 + int(unit.max())
    link = system.links[outer]
    if link.domain is Domain.SWITCH:
        pairs = np.unique(unit * wiring.links + wiring.ports(outer, devices))
        owner, port = np.divmod(pairs, wiring.links)
        room = wiring.bandwidths[port]
        for i in np.flatnonzero(np.isin(port, list(wiring.detours))).tolist():
            own_ports = set(port[owner == owner[i]].tolist())
            others = [o for o, _ in wiring.detours[int(port[i])] if o not in own_ports]
            room[i] = min(float(room[i]), float(wiring.bandwidths[others].sum()))
        return np.bincount(owner, room, units).astype(np.float64)
    children = system.hierarchy.cardinalities[outer]
    links = {
        Domain.RING: min(2, children - 1),
        Domain.TORUS: min(2, children - 1) * system.hierarchy.devices_in_child(level),
        Domain.MESH: children - 1,
        Domain.BUS: 1,
    }[link.domain]
    return np.full(units, links * link.bandwidth_bytes_per_second)
