"""What no schedule can beat: a lower bound on the seconds of a request, by counting cuts.

A *part* is some of the devices, a node for instance; what must cross its border is counted in
buffers of the request. There are two ways to count, for groups of k members, all at work at once.

One part, in which a group has p members, must send out and take in so many buffers:

* all-reduce: 1 and 1; all-gather: p/k and (k - p)/k; reduce-scatter: the other way round;
* broadcast: 1 out of the part that has the root, 1 into each other; reduce: the other way round;
* all-to-all: p (k - p)/k both ways, as each of its members sends each other one k-th.

That holds whatever the network does: it is what must cross links, added up or not, copied or not.
The parts tried are one child of every level and, where children stand in a ring, torus or mesh, a
row of several.

Several parts together, those of one parent or all, where a group has members in M of them: if they
share links (a port of several devices, a bus), the sum of what leaves them is divided by what all
these links can carry. From all parts that is M - 1 buffers of a group, M for an all-reduce, and for
an all-to-all what the parts send.

An all-reduce needs 2 (M - 1) where nothing on the way between parts reduces: M - 1 must come
together and M - 1 go back out. With switches that reduce the same holds if each of them is taken
into one of the parts that it joins: links from switches to other parts then count as well.
(Switches that reduce copy, too, but what enters a part is what its own devices get.)

Nor is anything done before one message has come through. For one group of all devices on a tree
with alike parts the bound is what flows reach (for an all-gather ForestColl's optimum, arXiv
2402.06787), but for an all-reduce whose outer switches reduce: there it was up to a sixth below.
Of a calibrated system the bound takes what is faster of description and measurement.
It also counts links that lead away from all members of a group, as if nothing had to come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod

import numpy as np
import numpy.typing as npt

from grammar import Goal
from hierarchies import Devices, Domain, Reduction, System
from hierarchies.fabric import (
    Cast,
    Role,
    busy_blocks,
    cast,
    children_of,
    groups_of_children,
    groups_within,
    members,
)
from hierarchies.links import Wiring
from synth.collectives.protocols import protocols
from synth.price.cuts import Counts, crossed, cut_seconds, needs


@dataclass(frozen=True)
class Bound:
    """A lower bound and the level whose links impose it.

    The level is ``latency`` where the bound is one message, and "" where there is nothing to do.
    """

    seconds: float
    level: str


def bound(
    system: System, reduction: Reduction, payload_bytes: float, goal: Goal = Goal.ALL_REDUCE
) -> Bound:
    """The least time in which a goal can be reached on every group of a reduction.

    ``payload_bytes`` is the largest buffer of a device, as ``Goal`` says. Where links are slower or
    missing, it is the larger of the healthy system's bound and what ``cuts`` counts. Raises
    InputError for a system that lacks devices.
    """
    roles = cast(reduction, tuple(range(len(reduction.tree.digits))), ())
    return bound_among(system, roles, payload_bytes, goal)


def bound_among(system: System, roles: Cast, payload_bytes: float, goal: Goal) -> Bound:
    """The same for groups given by the roles of each level's children, of which some may be idle.

    Idle devices pass nothing on, but for those of a ring or torus, and what only they can reach
    does not count: three GPUs that have two NICs leave their node by two.
    """
    system = _at_best(system.check_even())
    asked = _Asked(system, roles, goal)
    best = _one_message(asked)
    for level, name in enumerate(system.hierarchy.names):
        cuts = (*_parts_alone(asked, level), *_parts_together(asked, level))
        seconds = payload_bytes * max(cuts, default=0.0)
        if seconds > best.seconds:
            best = Bound(seconds, name)
    if system.faults:
        groups = groups_of_children(tuple(chain(*asked.roles)))
        best = max(best, bound_of_groups(system, list(groups), payload_bytes, goal), key=_seconds)
    return best


def bound_of_groups(
    system: System, groups: Sequence[Devices], payload_bytes: float, goal: Goal
) -> Bound:
    """The same for explicit groups of all devices that are there, each link as fast as it is.

    For machines with missing devices or slower links. ``groups`` are arrays of device ids, each
    group's root first; they may have unequally many members in units.
    """
    seconds = cut_seconds(Wiring(_at_best(system)), groups, goal)
    level = max(range(len(seconds)), key=lambda level: seconds[level])
    best = Bound(seconds[level] * payload_bytes, system.hierarchy.names[level])
    for outermost in range(len(seconds)):
        inside = system.hierarchy.devices_in_child(outermost)
        if any(len(np.unique(group // inside)) > 1 for group in groups):
            return max(best, _one_message_across(system, outermost), key=_seconds)
    return Bound(0.0, "")


def _seconds(one: Bound) -> float:
    return one.seconds


def _at_best(system: System) -> System:
    """The machine as it is at its best, by its description or as measured, whichever is faster.

    A bound must not be above what was measured, and a description may be wrong; but that rows were
    slower says of a runtime what it reached, and not of a link what it can carry.
    """
    measured = system.calibration
    if measured is None:
        return system
    quickest = {
        name: min(
            level.hop_seconds
            for fit in measured.fits
            if fit.protocol == name
            for level in fit.levels
        )
        for name in measured.protocols
    }
    links = []
    for link, share in zip(system.links, measured.generosity, strict=True):
        known = {protocol.value: protocol.latency_seconds(link) for protocol in protocols([link])}
        best = {n: min(known[n] or 0.0, quickest.get(n, known[n] or 0.0)) for n in known}
        links.append(
            replace(
                link,
                bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * share,
                latency_seconds=best["simple"],
                ll_latency_seconds=best.get("ll"),
                ll128_latency_seconds=best.get("ll128"),
            )
        )
    return replace(system, links=tuple(links), calibration=None)


@dataclass(frozen=True)
class _Asked:
    """A goal and its groups, by how many children of each level hold members of one."""

    system: System
    roles: Cast
    goal: Goal

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(members(slots) for slots in self.roles)

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
            return children_of(slots)
        return children_of(tuple(slot for slot in slots if slot.role is not Role.IDLE))

    def units(self, levels: int) -> int:
        """How many children the outermost so many levels have in all."""
        return prod(self.children(level) for level in range(levels))

    def ports(self, level: int) -> int:
        """How many ports of one child its busy devices reach."""
        inside = self.system.hierarchy.devices_in_child(level)
        each = max(1, self.system.links[level].ports // inside)
        return each * busy_blocks(self.roles[level + 1 :], self.system.block(level))


def _one_message(asked: _Asked) -> Bound:
    """The least seconds of one message, which members that are apart at some level must wait for.

    The message crosses the links of the outermost level they span, or those of a level outside.
    """
    spanned = [level for level, m in enumerate(asked.counts) if m > 1]
    return _one_message_across(asked.system, spanned[0]) if spanned else Bound(0.0, "")


def _one_message_across(system: System, outermost: int) -> Bound:
    """The least seconds of one message between members in different children of this level."""
    cardinalities = system.hierarchy.cardinalities
    links = [system.links[level] for level in range(outermost + 1) if cardinalities[level] > 1]
    latencies = [p.seconds(link) for link in links for p in protocols([link])]
    return Bound(min(latencies), "latency")


# One part alone.


def _parts_alone(asked: _Asked, level: int) -> Iterator[float]:
    """Seconds, for one byte of buffer, that a part takes for itself, and with its siblings.

    The parents of a level are of two kinds for rooted goals: one holds roots, the others none.
    """
    system = asked.system
    if not crossed(system, level):
        return
    children = groups_of_children(asked.roles[level])
    size, here = asked.children(level), asked.within(level)
    alike = groups_within(asked.roles[level + 1 :])
    parents = (True, False) if asked.outside(level) > 1 else (True,)
    for arc in (1, *_arcs(asked, level)):
        held, roots = _held(children, size, arc), _held(children[:, :1], size, arc)
        for parent in parents:
            for each in needs(asked.goal, here * held, asked.k, roots * parent):
                asked_of = alike * each.sum(axis=0)
                yield float(asked_of.max()) / _leaving(asked, level, arc)
                if size % arc == 0:
                    yield float(asked_of[::arc].sum()) / _siblings_leaving(asked, level, arc)


def _held(children: npt.NDArray[np.int64], size: int, arc: int) -> Counts:
    """How many of each group's children are in each row of ``arc`` neighbours, (groups, rows)."""
    there = np.zeros((len(children), size + 1))
    np.add.at(there, (np.arange(len(children))[:, None], children + 1), 1.0)
    before = np.cumsum(there, axis=1)
    return np.asarray(before[:, arc:] - before[:, : size + 1 - arc])


def _arcs(asked: _Asked, level: int) -> Iterator[int]:
    """How many neighbouring children make a part, where more than one is worth a try."""
    children = asked.children(level)
    if asked.system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH):
        half = children // 2
        yield from (arc for arc in range(2, half + 1) if arc == half or children % arc == 0)


def _leaving(asked: _Asked, level: int, arc: int) -> float:
    """Bytes a second that can leave a row of ``arc`` children, over all links they can reach."""
    devices = arc * asked.system.hierarchy.devices_in_child(level)
    return _own(asked, level, arc) + _outwards(asked, level, devices, aligned=arc == 1)


def _siblings_leaving(asked: _Asked, level: int, arc: int) -> float:
    """Bytes a second that can leave all rows of ``arc`` children of one parent together."""
    devices = asked.children(level) * asked.system.hierarchy.devices_in_child(level)
    return _side_by_side(asked, level, arc) + _outwards(asked, level, devices, aligned=True)


def _outwards(asked: _Asked, level: int, devices: int, *, aligned: bool) -> float:
    """Bytes a second over outer levels' links that neighbouring devices can reach."""
    system, total = asked.system, 0.0
    for outer in _beyond(system, level):
        link, block = system.links[outer], system.block(outer)
        whole = system.hierarchy.devices_in_child(outer)
        if link.domain is Domain.SWITCH:
            reached = busy_blocks(asked.roles[outer + 1 :], block)
            blocks = min(reached, -(-devices // block) + (not aligned))
            total += blocks * system.port_bytes_per_second(outer)
        elif link.domain is Domain.TORUS:
            total += _own(asked, outer, 1) * devices / whole
        else:
            total += _own(asked, outer, 1)
    return total


def _own(asked: _Asked, level: int, arc: int) -> float:
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


def _beyond(system: System, level: int) -> Iterator[int]:
    """The outer levels whose links a message may leave a part by.

    Those that are reached through inner links of the same part add nothing, nor do those that
    nothing crosses.
    """
    for outer in range(level):
        counted = any(outer < inner <= level for inner in system.through(outer))
        if crossed(system, outer) and not counted:
            yield outer


# All parts together.


def _parts_together(asked: _Asked, level: int) -> Iterator[float]:
    """Seconds, for one byte of buffer, that all parts of a kind take: alike and side by side."""
    system = asked.system
    if not crossed(system, level):
        return
    children, replicas = asked.children(level), groups_within(asked.roles)
    for arc in (1, *(arc for arc in _arcs(asked, level) if children % arc == 0)):
        held = asked.within(level) * _held(groups_of_children(asked.roles[level]), children, arc)
        p = held[:, ::arc]
        touched = asked.outside(level) * float((p > 0).sum(axis=1).mean())
        room = _all_leaving(asked, level, arc)
        if asked.goal.apart:
            sent = asked.outside(level) * float((p * (asked.k - p)).sum(axis=1).mean())
            yield replicas * sent / asked.k / room
        elif asked.goal.rounds == 1:
            yield replicas * (touched - 1) / room
        elif touched > 1:
            yield replicas * 2 * (touched - 1) / _with_switches(asked, level, arc)
            yield replicas * touched / room


def _all_leaving(asked: _Asked, level: int, arc: int) -> float:
    """Bytes a second that can leave all rows of ``arc`` children together."""
    total = asked.units(level) * _side_by_side(asked, level, arc)
    for outer in _beyond(asked.system, level):
        total += asked.units(outer) * _side_by_side(asked, outer, 1)
    return total


def _side_by_side(asked: _Asked, level: int, arc: int) -> float:
    """Bytes a second out of all rows of one domain: a bus is one for them all."""
    rows = asked.children(level) // arc
    together = 1 if asked.system.links[level].domain is Domain.BUS else rows
    return together * _own(asked, level, arc)


def _with_switches(asked: _Asked, level: int, arc: int) -> float:
    """Bytes a second that can leave all parts, switches that reduce belonging to parts.

    A switch that reduces is in the same part as one child of those it joins: links to and from
    all others leave a part. Without such switches it is what leaves the parts anyway.
    """
    system = asked.system
    reducing = [j for j in range(level + 1) if crossed(system, j) and system.links[j].reduces]
    if not reducing:
        return _all_leaving(asked, level, arc)
    total = 0.0
    for j in range(level + 1):
        if crossed(system, j):
            domains, children = asked.units(j), asked.units(j + 1)
            own = domains * _side_by_side(asked, j, arc if j == level else 1)
            both = 2 * (children - domains * (j == level)) / children if j in reducing else 1
            total += both * own
    return total
