"""A lower bound on the seconds of a request, which no schedule can beat: counting cuts.

A *part* is a subset of the devices, such as a node. The data that must cross its border is counted
in buffers of the request, for groups of k members that all work at once. There are two ways to
count.

One part that holds p members of a group must send and receive this many buffers:

* all-reduce: 1 and 1; all-gather: p/k and (k - p)/k; reduce-scatter: the other way round;
* broadcast: 1 out of the part that has the root, 1 into each other; reduce: the other way round;
* all-to-all: p (k - p)/k both ways, as each of its members sends one k-th to each other member.

This holds for any network, because the bytes must cross the links whether they are reduced or
copied on the way. The parts tried are one child of every level; rows of several children where they
form a ring, torus or mesh; and slabs of a torus, the same row under every parent at once. A pod of
4 by 16 is cut in halves along its 16, where 8 links lead across, and along its 4, where 32 do.

Several parts are also counted together: all parts of one parent, or all parts of the machine. If
they share links (a port of several devices, a bus), the bytes that leave all of them are divided by
the combined rate of these links. A group with members in M parts sends M - 1 buffers out of them, M
for an all-reduce; for an all-to-all, the sum of what each part sends.

An all-reduce needs 2 (M - 1) where nothing between the parts reduces: M - 1 buffers must come
together and M - 1 go back out. With switches that reduce, the same holds if each switch is counted
as part of one of the parts it joins: links from switches to other parts then count as well. (Such
switches also copy, but only the data for its own devices enters a part.)

Nothing completes before one message has arrived. Launches belong to the library rather than the
machine and are not counted, so the bound holds for any number of calls. For one group of all
devices on a tree of identical parts, the bound equals the optimum of flows (for an all-gather that
of ForestColl, arXiv 2402.06787), except for an all-reduce whose outer switches reduce: there it was
up to a sixth below. On a calibrated system the bound takes the faster of description and
measurement; a calibration from other machines does not count as a measurement of this one. The
bound also counts links that lead away from all members of a group, as if nothing had to return.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, prod

import numpy as np

from grammar import Goal
from hierarchies import Devices, Domain, Reduction, System
from hierarchies.fabric import Cast, count_groups_within, groups_of_children, roles_of
from hierarchies.links import Wiring
from synth.collective.algorithms.protocols import protocols
from synth.collective.price.cuts import buffers_across, cut_seconds, is_crossed, torus_orders
from synth.collective.price.parts import (
    GroupedGoal,
    arcs,
    count_held_in_rows,
    leaving_rate,
    rate_with_switches,
    siblings_leaving_rate,
    slab_leaving_rate,
    total_leaving_rate,
    total_slab_leaving_rate,
)

_ROUNDED = 1e-12
"""The relative rounding difference between sums of the same cut, added in different orders."""


@dataclass(frozen=True)
class Bound:
    """A lower bound in seconds and the level whose links impose it.

    ``level`` is ``latency`` where the bound is one message, and "" where there is nothing to do.
    """

    seconds: float
    level: str


def bound(
    system: System, reduction: Reduction, payload_bytes: float, goal: Goal = Goal.ALL_REDUCE
) -> Bound:
    """Returns the least time in which a goal can be reached on every group of a reduction.

    ``payload_bytes`` is the largest buffer of a device, as in ``Goal``. Where links are slower or
    missing, the bound is the larger of the healthy system's and that of ``cut_seconds``. Raises
    InputError for a system that lacks devices.
    """
    return cuts_of(system, reduction, goal).bound(payload_bytes)


def cuts_of(system: System, reduction: Reduction, goal: Goal) -> Cuts:
    """Returns the cuts of a reduction's groups. Raises InputError as ``bound`` does."""
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    return find_cuts(system, roles, goal)


def bound_by_calls(
    physical: Bound, system: System, reduction: Reduction, payload_bytes: float, goal: Goal
) -> Bound:
    """Returns the least time where reducing switches are used through their two existing calls.

    One call pulls the sum of a piece from all members, including the caller; the other writes a
    copy to all, including the writer (NVLink SHARP's multimem.ld_reduce and multimem.st). So an
    all-reduce of m moves (m + 1)/m buffers each way where ``bound`` counts 1: a switch could reduce
    and send back in one operation, but no existing switch does. ``physical`` is the result of
    ``bound``.
    """
    if goal.rounds == 1:
        return physical
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    grouped = GroupedGoal(_best_case_system(system.check_even()), roles, goal)
    bounds = [
        Bound(payload_bytes * _seconds_of_calls(grouped, level), name)
        for level, name in enumerate(system.hierarchy.names)
    ]
    return max(physical, *bounds, key=_seconds)


def bound_of_roles(system: System, roles: Cast, payload_bytes: float, goal: Goal) -> Bound:
    """Bounds groups given by the roles of each level's children, some of which may be idle.

    Idle devices forward nothing, except in a ring or torus, and links that only they reach do not
    count: three GPUs that have two NICs leave their node by two.
    """
    return find_cuts(system, roles, goal).bound(payload_bytes)


@dataclass(frozen=True)
class Cuts:
    """What bounds a goal on the groups of some roles, for payloads of any size.

    ``message``: the bound of one message; ``levels``: for every order of a torus and every level,
    the most seconds per byte of buffer among its cuts, and its name.
    """

    system: System
    roles: Cast
    goal: Goal
    message: Bound
    levels: tuple[tuple[float, str], ...]

    def bound(self, payload_bytes: float) -> Bound:
        """See ``bound``."""
        best = self.message
        for seconds_per_byte, name in self.levels:
            seconds = payload_bytes * seconds_per_byte
            # Several orders of a torus repeat a cut: without the margin rounding would choose the
            # level.
            if seconds > best.seconds * (1 + _ROUNDED):
                best = Bound(seconds, name)
        if self.system.faults:
            groups = groups_of_children(tuple(chain(*self.roles)))
            faulty = bound_of_groups(self.system, list(groups), payload_bytes, self.goal)
            best = max(best, faulty, key=_seconds)
        return best


def find_cuts(system: System, roles: Cast, goal: Goal) -> Cuts:
    """Returns the cuts of groups given by roles. Raises InputError as ``bound`` does."""
    system = _best_case_system(system.check_even())
    levels = []
    for turned in (GroupedGoal(*order, goal) for order in torus_orders(system, roles)):
        for level, name in enumerate(turned.system.hierarchy.names):
            cuts = (
                *_seconds_of_part(turned, level),
                *_slabs(turned, level),
                *_seconds_of_parts(turned, level),
            )
            levels.append((max(cuts, default=0.0), name))
    message = _one_message(GroupedGoal(system, roles, goal))
    return Cuts(system, roles, goal, message, tuple(levels))


def bound_of_groups(
    system: System, groups: Sequence[Devices], payload_bytes: float, goal: Goal
) -> Bound:
    """Bounds explicit groups that cover all devices present, with each link at its own speed.

    For machines with missing devices or slower links. ``groups`` are arrays of device ids, each
    group's root first; groups may have different numbers of members in different units.
    """
    seconds = cut_seconds(Wiring(_best_case_system(system)), groups, goal)
    level = max(range(len(seconds)), key=lambda level: seconds[level])
    best = Bound(seconds[level] * payload_bytes, system.hierarchy.names[level])
    for outermost in range(len(seconds)):
        inside = system.hierarchy.devices_in_child(outermost)
        if any(len(np.unique(group // inside)) > 1 for group in groups):
            return max(best, _one_message_across(system, outermost), key=_seconds)
    return Bound(0.0, "")


def _seconds(bound: Bound) -> float:
    return bound.seconds


def _best_case_system(system: System) -> System:
    """Returns the machine with the faster of description and measurement for every link.

    A bound must not exceed a measurement, and a description may be wrong. Slower measurements are
    ignored: they show the rate that a runtime reached, not the rate of a link.
    """
    measured = system.calibration
    if measured is None or measured.families:
        return system
    quickest = {
        name: min(
            level.hop_seconds
            for fit in measured.fits
            if fit.protocol == name
            for level in fit.levels
        )
        * min(
            (
                factor
                for curve in measured.curves
                if curve.protocol == name
                for factor in curve.factors
            ),
            default=1.0,
        )
        for name in measured.protocols
    }
    links = []
    for link, share in zip(system.links, measured.generosity, strict=True):
        described = {
            protocol.value: protocol.latency_seconds(link) for protocol in protocols([link])
        }
        fastest = {
            n: min(described[n] or 0.0, quickest.get(n, described[n] or 0.0)) for n in described
        }
        links.append(
            replace(
                link,
                bandwidth_bytes_per_second=link.bandwidth_bytes_per_second * share,
                latency_seconds=fastest["simple"],
                ll_latency_seconds=fastest.get("ll"),
                ll128_latency_seconds=fastest.get("ll128"),
            )
        )
    return replace(system, links=tuple(links), calibration=None)


def _one_message(grouped: GroupedGoal) -> Bound:
    """The least seconds of one message between members of a group.

    The message crosses the links of the outermost level they span, or those of a level outside.
    """
    spanned = [level for level, m in enumerate(grouped.counts) if m > 1]
    return _one_message_across(grouped.system, spanned[0]) if spanned else Bound(0.0, "")


def _one_message_across(system: System, outermost: int) -> Bound:
    """The least seconds of one message between members in different children of ``outermost``."""
    cardinalities = system.hierarchy.cardinalities
    links = [system.links[level] for level in range(outermost + 1) if cardinalities[level] > 1]
    latencies = [p.seconds(link) for link in links for p in protocols([link])]
    return Bound(min(latencies), "latency")


# One part alone.


def _seconds_of_part(grouped: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds per byte of buffer for a part by itself, and for the part together with its siblings.

    For rooted goals the parents of a level are of two kinds: one holds roots, the others none.
    """
    system = grouped.system
    if not is_crossed(system, level):
        return
    children = groups_of_children(grouped.roles[level])
    size, inside = grouped.children(level), grouped.within(level)
    alike = count_groups_within(grouped.roles[level + 1 :])
    parents = (True, False) if grouped.outside(level) > 1 else (True,)
    for arc in (1, *arcs(grouped, level)):
        held, roots = (
            count_held_in_rows(children, size, arc),
            count_held_in_rows(children[:, :1], size, arc),
        )
        for parent in parents:
            for crossing in buffers_across(grouped.goal, inside * held, grouped.k, roots * parent):
                buffers = alike * crossing.sum(axis=0)
                yield float((buffers / leaving_rate(grouped, level, arc, parent)).max())
                if size % arc == 0:
                    room = siblings_leaving_rate(grouped, level, arc, parent)
                    yield float(buffers[::arc].sum()) / room


def _slabs(grouped: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds per byte of buffer for a slab (a row of children under every parent at once), and for
    all slabs of one child each together.
    """
    linked = grouped.system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH)
    if not linked or grouped.units(level) == 1 or not is_crossed(grouped.system, level):
        return
    children, size = groups_of_children(grouped.roles[level]), grouped.children(level)
    slabs = count_groups_within((*grouped.roles[:level], *grouped.roles[level + 1 :]))
    inside = grouped.outside(level) * grouped.within(level)
    for arc in (1, *arcs(grouped, level)):
        held, roots = (
            count_held_in_rows(children, size, arc),
            count_held_in_rows(children[:, :1], size, arc),
        )
        for crossing in buffers_across(grouped.goal, inside * held, grouped.k, roots):
            yield slabs * float(crossing.sum(axis=0).max()) / slab_leaving_rate(grouped, level, arc)
    if not grouped.goal.apart and not any(link.reduces for link in grouped.system.links):
        merges = grouped.goal.rounds * (grouped.counts[level] - 1)
        yield slabs * len(children) * merges / total_slab_leaving_rate(grouped, level)


# All parts together.


def _seconds_of_parts(grouped: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds per byte of buffer that all parts of one kind take together."""
    system = grouped.system
    if not is_crossed(system, level):
        return
    children, replicas = grouped.children(level), count_groups_within(grouped.roles)
    for arc in (1, *(arc for arc in arcs(grouped, level) if children % arc == 0)):
        held = grouped.within(level) * count_held_in_rows(
            groups_of_children(grouped.roles[level]), children, arc
        )
        p = held[:, ::arc]
        parts = grouped.outside(level) * (p > 0).sum(axis=1)  # that each group touches
        touched = float(parts.mean())
        room = total_leaving_rate(grouped, level, arc)
        if grouped.goal.apart:
            sent = grouped.outside(level) * float((p * (grouped.k - p)).sum(axis=1).mean())
            yield replicas * sent / grouped.k / room
        elif grouped.goal.rounds == 1:
            yield replicas * (touched - 1) / room
        elif touched > 1:
            yield replicas * 2 * (touched - 1) / rate_with_switches(grouped, level, arc)
            yield replicas * float((parts * (parts > 1)).mean()) / room


def _seconds_of_calls(grouped: GroupedGoal, level: int) -> float:
    """Seconds per byte of buffer of an all-reduce in which every child is a part.

    Counts the data that leaves and enters all parts together, over both directions of all links.
    The M parts of a group are reduced to one sum and get it back, each in M - 1 merges. A message
    moves 2 buffers for one merge; a call through a switch that joins s parts moves s + 1 for s - 1
    merges.
    """
    system = grouped.system
    reducing = [j for j in range(level + 1) if is_crossed(system, j) and system.links[j].reduces]
    if not reducing or not is_crossed(system, level):
        return 0.0
    joined = max(prod(grouped.counts[j : level + 1]) for j in reducing)
    merge = min(2.0, (joined + 1) / (joined - 1) if joined > 1 else inf)
    touched = grouped.outside(level) * grouped.counts[level]
    return (
        count_groups_within(grouped.roles)
        * (touched - 1)
        * merge
        / total_leaving_rate(grouped, level, 1)
    )
