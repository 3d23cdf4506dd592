"""Parts of a machine that are all alike: what of a group is in them, and what can leave them.

A part is one child of a level, a row of neighbouring children where these stand in a ring, torus or
mesh, or such a row under every parent at once (a slab). ``bound`` says what must cross its border;
here is how many bytes a second can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from grammar import Goal
from hierarchies import Domain, System
from hierarchies.fabric import (
    Cast,
    Role,
    count_busy_blocks,
    count_children,
    count_members,
)
from synth.collective.price.cuts import Counts, is_crossed


@dataclass(frozen=True)
class GroupedGoal:
    """A goal and its groups, by how many children of each level hold members of one."""

    system: System
    roles: Cast
    goal: Goal

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(count_members(slots) for slots in self.roles)

    @property
    def k(self) -> int:
        return prod(self.counts)

    def within(self, level: int) -> int:
        """Members of a group in one child of a level, if it has any there."""
        return prod(self.counts[level + 1 :])

    def outside(self, level: int) -> int:
        """In how many parents of a level a group has members."""
        return prod(self.counts[:level])

    def children(self, level: int) -> int:
        """How many children of one parent there are: in a circle those that pass on, too."""
        slots = self.roles[level]
        if self.system.links[level].domain in (Domain.RING, Domain.TORUS):
            return count_children(slots)
        return count_children(tuple(slot for slot in slots if slot.role is not Role.IDLE))

    def units(self, levels: int) -> int:
        """How many children the outermost so many levels have in all."""
        return prod(self.children(level) for level in range(levels))

    def ports(self, level: int) -> int:
        """How many ports of one child its busy devices reach."""
        each = self.system.ports_of_block(level)
        return each * count_busy_blocks(self.roles[level + 1 :], self.system.block(level))


def count_held_in_rows(children: npt.NDArray[np.int64], size: int, arc: int) -> Counts:
    """How many of each group's children are in each row of ``arc`` neighbours, (groups, rows)."""
    there = np.zeros((len(children), size + 1))
    np.add.at(there, (np.arange(len(children))[:, None], children + 1), 1.0)
    before = np.cumsum(there, axis=1)
    return np.asarray(before[:, arc:] - before[:, : size + 1 - arc])


def arcs(asked: GroupedGoal, level: int) -> Iterator[int]:
    """How many neighbouring children make a part, where more than one is worth a try."""
    children = asked.children(level)
    if asked.system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH):
        half = children // 2
        yield from (arc for arc in range(2, half + 1) if arc == half or children % arc == 0)


def leaving_rate(asked: GroupedGoal, level: int, arc: int, corner: bool) -> Counts:
    """Bytes a second that can leave each row of ``arc`` children, over all links they can reach.

    At the ends of a line one of a row's two links is missing. ``corner``: of the first parent,
    which is at the end of every outer line.
    """
    devices = arc * asked.system.hierarchy.devices_in_child(level)
    ends = np.full(asked.children(level) + 1 - arc, _own_leaving_rate(asked, level, arc))
    if not asked.system.links[level].wraps and len(ends) > 1:
        ends[[0, -1]] = _rate_at_end(asked, level)
    return ends + _outward_rate(asked, level, devices, aligned=arc == 1, corner=corner)


def _rate_at_end(asked: GroupedGoal, level: int) -> float:
    """Bytes a second over the links that a row at the end of a line has."""
    children = asked.children(level)
    return _own_leaving_rate(asked, level, 1) / max(1, min(2, children - 1))


def siblings_leaving_rate(asked: GroupedGoal, level: int, arc: int, corner: bool) -> float:
    """Bytes a second that can leave all rows of ``arc`` children of one parent together."""
    devices = asked.children(level) * asked.system.hierarchy.devices_in_child(level)
    out = _outward_rate(asked, level, devices, aligned=True, corner=corner)
    return _rate_of_rows(asked, level, arc) + out


def _outward_rate(
    asked: GroupedGoal, level: int, devices: int, *, aligned: bool, corner: bool
) -> float:
    """Bytes a second over outer levels' links that neighbouring devices can reach."""
    system, total = asked.system, 0.0
    for outer in _outer_levels_crossed(system, level):
        link, block = system.links[outer], system.block(outer)
        whole = system.hierarchy.devices_in_child(outer)
        if link.domain is Domain.SWITCH:
            reached = count_busy_blocks(asked.roles[outer + 1 :], block)
            blocks = min(reached, -(-devices // block) + (not aligned))
            total += blocks * system.port_bytes_per_second(outer)
            continue
        own = (
            _rate_at_end(asked, outer)
            if corner and not link.wraps
            else _own_leaving_rate(asked, outer, 1)
        )
        total += own * devices / whole if link.domain is Domain.TORUS else own
    return total


def _own_leaving_rate(asked: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second over the links of a level that leave ``arc`` neighbouring children."""
    children, link = asked.children(level), asked.system.links[level]
    match link.domain:
        case Domain.SWITCH:
            links = asked.ports(level) * arc
        case Domain.RING:
            links = min(2, children - 1)
        case Domain.TORUS:
            links = min(2, children - 1) * asked.system.hierarchy.devices_in_child(level)
        case Domain.MESH:
            links = arc * (children - arc)
        case Domain.BUS:
            links = 1
    return links * link.bandwidth_bytes_per_second


def _outer_levels_crossed(system: System, level: int) -> Iterator[int]:
    """The outer levels whose links a message may leave a part by.

    Those that are reached through inner links of the same part add nothing, nor do those that
    nothing crosses.
    """
    for outer in range(level):
        counted = any(outer < inner <= level for inner in system.through(outer))
        if is_crossed(system, outer) and not counted:
            yield outer


def total_leaving_rate(asked: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave all rows of ``arc`` children together."""
    total = asked.units(level) * _rate_of_rows(asked, level, arc)
    for outer in _outer_levels_crossed(asked.system, level):
        total += asked.units(outer) * _rate_of_rows(asked, outer, 1)
    return total


def _rate_of_rows(asked: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second out of all rows of one domain: a bus is one for them all."""
    rows, link = asked.children(level) // arc, asked.system.links[level]
    if not link.wraps:
        return 2 * (rows - 1) * _rate_at_end(asked, level)
    together = 1 if link.domain is Domain.BUS else rows
    return together * _own_leaving_rate(asked, level, arc)


def rate_with_switches(asked: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave all parts, switches that reduce belonging to parts.

    A switch that reduces is in the same part as one child of those it joins: links to and from
    all others leave a part. Without such switches it is what leaves the parts anyway.
    """
    system = asked.system
    reducing = [j for j in range(level + 1) if is_crossed(system, j) and system.links[j].reduces]
    if not reducing:
        return total_leaving_rate(asked, level, arc)
    total = 0.0
    for j in range(level + 1):
        if is_crossed(system, j):
            domains, children = asked.units(j), asked.units(j + 1)
            own = domains * _rate_of_rows(asked, j, arc if j == level else 1)
            both = 2 * (children - domains * (j == level)) / children if j in reducing else 1
            total += both * own
    return total


def slab_leaving_rate(asked: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave a row of ``arc`` children under every parent at once."""
    return asked.units(level) * _own_leaving_rate(asked, level, arc) + _rate_between_slabs(
        asked, level
    )


def total_slab_leaving_rate(asked: GroupedGoal, level: int) -> float:
    """Bytes a second that can leave all such rows together, of one child each."""
    return asked.units(level) * _rate_of_rows(asked, level, 1) + _rate_between_slabs(asked, level)


def _rate_between_slabs(asked: GroupedGoal, level: int) -> float:
    """Bytes a second that outer links carry from slab to slab.

    Those of an outer torus join the same places under two parents: they stay in a slab.
    """
    return sum(
        asked.units(outer) * _rate_of_rows(asked, outer, 1)
        for outer in _outer_levels_crossed(asked.system, level)
        if asked.system.links[outer].domain is not Domain.TORUS
    )
