"""Identical parts of a machine: the group members they hold, and the rate at which bytes leave.

A part is one child of a level, a row of neighbouring children in a ring, torus or mesh, or such a
row under every parent at once (a slab). ``bound`` counts the bytes that must cross its border; this
module counts the bytes a second that can.
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
    """A goal on groups, given by how many children of each level hold members of one group."""

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
        """Members of a group in a child of a level that holds any."""
        return prod(self.counts[level + 1 :])

    def outside(self, level: int) -> int:
        """The number of parents of a level in which a group has members."""
        return prod(self.counts[:level])

    def children(self, level: int) -> int:
        """The children of one parent that count; in a ring or torus idle children forward too."""
        slots = self.roles[level]
        if self.system.links[level].domain in (Domain.RING, Domain.TORUS):
            return count_children(slots)
        return count_children(tuple(slot for slot in slots if slot.role is not Role.IDLE))

    def units(self, levels: int) -> int:
        """The total number of children of the outermost ``levels`` levels."""
        return prod(self.children(level) for level in range(levels))

    def ports(self, level: int) -> int:
        """The number of ports of one child that its busy devices reach."""
        ports = self.system.ports_of_block(level)
        return ports * count_busy_blocks(self.roles[level + 1 :], self.system.block(level))


def count_held_in_rows(children: npt.NDArray[np.int64], size: int, arc: int) -> Counts:
    """Counts each group's children in each row of ``arc`` neighbours; shape (groups, rows)."""
    holding = np.zeros((len(children), size + 1))
    np.add.at(holding, (np.arange(len(children))[:, None], children + 1), 1.0)
    before = np.cumsum(holding, axis=1)
    return np.asarray(before[:, arc:] - before[:, : size + 1 - arc])


def arcs(grouped: GroupedGoal, level: int) -> Iterator[int]:
    """Yields the sizes above 1 of rows of neighbouring children that are worth trying as parts."""
    children = grouped.children(level)
    if grouped.system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH):
        half = children // 2
        yield from (arc for arc in range(2, half + 1) if arc == half or children % arc == 0)


def leaving_rate(grouped: GroupedGoal, level: int, arc: int, corner: bool) -> Counts:
    """Bytes a second that can leave each row of ``arc`` children, over all links they can reach.

    A row at the end of a line lacks one of its two links. ``corner``: the rows are those of the
    first parent, which is at the end of every outer line.
    """
    devices = arc * grouped.system.hierarchy.devices_in_child(level)
    ends = np.full(grouped.children(level) + 1 - arc, _own_leaving_rate(grouped, level, arc))
    if not grouped.system.links[level].wraps and len(ends) > 1:
        ends[[0, -1]] = _rate_at_end(grouped, level)
    return ends + _outward_rate(grouped, level, devices, aligned=arc == 1, corner=corner)


def _rate_at_end(grouped: GroupedGoal, level: int) -> float:
    """Bytes a second over the links of a row at the end of a line."""
    children = grouped.children(level)
    return _own_leaving_rate(grouped, level, 1) / max(1, min(2, children - 1))


def siblings_leaving_rate(grouped: GroupedGoal, level: int, arc: int, corner: bool) -> float:
    """Bytes a second that can leave all rows of ``arc`` children of one parent together."""
    devices = grouped.children(level) * grouped.system.hierarchy.devices_in_child(level)
    out = _outward_rate(grouped, level, devices, aligned=True, corner=corner)
    return _rate_of_rows(grouped, level, arc) + out


def _outward_rate(
    grouped: GroupedGoal, level: int, devices: int, *, aligned: bool, corner: bool
) -> float:
    """Bytes a second over outer levels' links that neighbouring devices can reach."""
    system, total = grouped.system, 0.0
    for outer in _outer_levels_crossed(system, level):
        link, block = system.links[outer], system.block(outer)
        whole = system.hierarchy.devices_in_child(outer)
        if link.domain is Domain.SWITCH:
            reached = count_busy_blocks(grouped.roles[outer + 1 :], block)
            # Neighbours that begin inside a block may reach a part of one more block.
            blocks = min(reached, -(-devices // block) + (not aligned))
            total += blocks * system.port_bytes_per_second(outer)
            continue
        own = (
            _rate_at_end(grouped, outer)
            if corner and not link.wraps
            else _own_leaving_rate(grouped, outer, 1)
        )
        total += own * devices / whole if link.domain is Domain.TORUS else own
    return total


def _own_leaving_rate(grouped: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second over the links of a level that leave ``arc`` neighbouring children."""
    children, link = grouped.children(level), grouped.system.links[level]
    match link.domain:
        case Domain.SWITCH:
            links = grouped.ports(level) * arc
        case Domain.RING:
            links = min(2, children - 1)
        case Domain.TORUS:
            links = min(2, children - 1) * grouped.system.hierarchy.devices_in_child(level)
        case Domain.MESH:
            links = arc * (children - arc)
        case Domain.BUS:
            links = 1
    return links * link.bandwidth_bytes_per_second


def _outer_levels_crossed(system: System, level: int) -> Iterator[int]:
    """Yields the outer levels by whose links a message may leave a part.

    Skips levels whose links are reached through inner links of the same part, which are already
    counted, and levels that nothing crosses.
    """
    for outer in range(level):
        counted = any(outer < inner <= level for inner in system.through(outer))
        if is_crossed(system, outer) and not counted:
            yield outer


def total_leaving_rate(grouped: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave all rows of ``arc`` children together."""
    total = grouped.units(level) * _rate_of_rows(grouped, level, arc)
    for outer in _outer_levels_crossed(grouped.system, level):
        total += grouped.units(outer) * _rate_of_rows(grouped, outer, 1)
    return total


def _rate_of_rows(grouped: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second out of all rows of one domain; rows share a single bus."""
    rows, link = grouped.children(level) // arc, grouped.system.links[level]
    if not link.wraps:
        return 2 * (rows - 1) * _rate_at_end(grouped, level)
    together = 1 if link.domain is Domain.BUS else rows
    return together * _own_leaving_rate(grouped, level, arc)


def rate_with_switches(grouped: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave all parts when each reducing switch belongs to a part.

    A reducing switch is in the same part as one child of those it joins: links to and from all
    others leave a part. Without such switches this equals ``total_leaving_rate``.
    """
    system = grouped.system
    reducing = [j for j in range(level + 1) if is_crossed(system, j) and system.links[j].reduces]
    if not reducing:
        return total_leaving_rate(grouped, level, arc)
    total = 0.0
    for j in range(level + 1):
        if is_crossed(system, j):
            domains, children = grouped.units(j), grouped.units(j + 1)
            own = domains * _rate_of_rows(grouped, j, arc if j == level else 1)
            ways = 2 * (children - domains * (j == level)) / children if j in reducing else 1
            total += ways * own
    return total


def slab_leaving_rate(grouped: GroupedGoal, level: int, arc: int) -> float:
    """Bytes a second that can leave a row of ``arc`` children under every parent at once."""
    return grouped.units(level) * _own_leaving_rate(grouped, level, arc) + _rate_between_slabs(
        grouped, level
    )


def total_slab_leaving_rate(grouped: GroupedGoal, level: int) -> float:
    """Bytes a second that can leave all slabs of one child together."""
    return grouped.units(level) * _rate_of_rows(grouped, level, 1) + _rate_between_slabs(
        grouped, level
    )


def _rate_between_slabs(grouped: GroupedGoal, level: int) -> float:
    """Bytes a second that outer links carry from slab to slab.

    Links of an outer torus join the same places under two parents, so they stay inside a slab.
    """
    return sum(
        grouped.units(outer) * _rate_of_rows(grouped, outer, 1)
        for outer in _outer_levels_crossed(grouped.system, level)
        if grouped.system.links[outer].domain is not Domain.TORUS
    )
