"""What no schedule can beat: a lower bound on the seconds of a request, by counting cuts.

A *part* is some of the devices, a node for instance; what must cross its border is counted in
buffers of the request. There are two ways to count, for groups of k members, all at work at once.

One part, in which a group has p members, must send out and take in so many buffers:

* all-reduce: 1 and 1; all-gather: p/k and (k - p)/k; reduce-scatter: the other way round;
* broadcast: 1 out of the part that has the root, 1 into each other; reduce: the other way round;
* all-to-all: p (k - p)/k both ways, as each of its members sends each other one k-th.

That holds whatever the network does: it is what must cross links, added up or not, copied or not.
The parts tried are one child of every level and, where children stand in a ring, torus or mesh, a
row of several; and of a torus slabs, the same row under every parent at once: a pod of 4 by 16 is
cut in halves along its 16, too, where 8 links lead across; along its 4 it is 32.

Several parts together, those of one parent or all, where a group has members in M of them: if they
share links (a port of several devices, a bus), the sum of what leaves them is divided by what all
these links can carry. From all parts that is M - 1 buffers of a group, M for an all-reduce, and for
an all-to-all what the parts send.

An all-reduce needs 2 (M - 1) where nothing on the way between parts reduces: M - 1 must come
together and M - 1 go back out. With switches that reduce the same holds if each of them is taken
into one of the parts that it joins: links from switches to other parts then count as well.
(Switches that reduce copy, too, but what enters a part is what its own devices get.)

Nor is anything done before one message has come through; launches, which are the library's and not
the machine's, are not counted, so that the bound holds however few calls there are. For one group
of all devices on a tree with alike parts the bound is what flows reach (for an all-gather
ForestColl's optimum, arXiv 2402.06787), but for an all-reduce whose outer switches reduce: there it
was up to a sixth below.
Of a calibrated system the bound takes what is faster of description and measurement; what such
links reach on other machines is no measurement of this one.
It also counts links that lead away from all members of a group, as if nothing had to come back.
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
"""By what the same cut may differ where its terms are summed in another order."""


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
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    return bound_of_roles(system, roles, payload_bytes, goal)


def bound_by_calls(
    system: System, reduction: Reduction, payload_bytes: float, goal: Goal = Goal.ALL_REDUCE
) -> Bound:
    """The least time where switches that reduce are used as they are offered: by two calls.

    One pulls the sum of a piece from all members, the one who asks among them; the other writes a
    copy to all, the writer among them (NVLink SHARP's multimem.ld_reduce and multimem.st). So an
    all-reduce of m moves (m + 1)/m buffers each way where ``bound`` counts 1: it knows of no reason
    why a switch should not add up and send back at once, but none does.
    """
    physical = bound(system, reduction, payload_bytes, goal)
    if goal.rounds == 1:
        return physical
    roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
    asked = GroupedGoal(_best_case_system(system.check_even()), roles, goal)
    each = [
        Bound(payload_bytes * _seconds_of_calls(asked, level), name)
        for level, name in enumerate(system.hierarchy.names)
    ]
    return max(physical, *each, key=_seconds)


def bound_of_roles(system: System, roles: Cast, payload_bytes: float, goal: Goal) -> Bound:
    """The same for groups given by the roles of each level's children, of which some may be idle.

    Idle devices pass nothing on, but for those of a ring or torus, and what only they can reach
    does not count: three GPUs that have two NICs leave their node by two.
    """
    system = _best_case_system(system.check_even())
    asked = GroupedGoal(system, roles, goal)
    best = _one_message(asked)
    for turned in (GroupedGoal(*each, goal) for each in torus_orders(system, roles)):
        for level, name in enumerate(turned.system.hierarchy.names):
            cuts = (
                *_seconds_of_part(turned, level),
                *_slabs(turned, level),
                *_seconds_of_parts(turned, level),
            )
            seconds = payload_bytes * max(cuts, default=0.0)
            if seconds > best.seconds * (1 + _ROUNDED):
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
    seconds = cut_seconds(Wiring(_best_case_system(system)), groups, goal)
    level = max(range(len(seconds)), key=lambda level: seconds[level])
    best = Bound(seconds[level] * payload_bytes, system.hierarchy.names[level])
    for outermost in range(len(seconds)):
        inside = system.hierarchy.devices_in_child(outermost)
        if any(len(np.unique(group // inside)) > 1 for group in groups):
            return max(best, _one_message_across(system, outermost), key=_seconds)
    return Bound(0.0, "")


def _seconds(one: Bound) -> float:
    return one.seconds


def _best_case_system(system: System) -> System:
    """The machine as it is at its best, by its description or as measured, whichever is faster.

    A bound must not be above what was measured, and a description may be wrong; but that rows were
    slower says of a runtime what it reached, and not of a link what it can carry.
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


def _one_message(asked: GroupedGoal) -> Bound:
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


def _seconds_of_part(asked: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds, for one byte of buffer, that a part takes for itself, and with its siblings.

    The parents of a level are of two kinds for rooted goals: one holds roots, the others none.
    """
    system = asked.system
    if not is_crossed(system, level):
        return
    children = groups_of_children(asked.roles[level])
    size, here = asked.children(level), asked.within(level)
    alike = count_groups_within(asked.roles[level + 1 :])
    parents = (True, False) if asked.outside(level) > 1 else (True,)
    for arc in (1, *arcs(asked, level)):
        held, roots = (
            count_held_in_rows(children, size, arc),
            count_held_in_rows(children[:, :1], size, arc),
        )
        for parent in parents:
            for each in buffers_across(asked.goal, here * held, asked.k, roots * parent):
                asked_of = alike * each.sum(axis=0)
                yield float((asked_of / leaving_rate(asked, level, arc, parent)).max())
                if size % arc == 0:
                    room = siblings_leaving_rate(asked, level, arc, parent)
                    yield float(asked_of[::arc].sum()) / room


def _slabs(asked: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds, for one byte of buffer, that a row of children under every parent at once takes;
    and all such rows together, those of one child each.
    """
    linked = asked.system.links[level].domain in (Domain.RING, Domain.TORUS, Domain.MESH)
    if not linked or asked.units(level) == 1 or not is_crossed(asked.system, level):
        return
    children, size = groups_of_children(asked.roles[level]), asked.children(level)
    many = count_groups_within((*asked.roles[:level], *asked.roles[level + 1 :]))
    inside = asked.outside(level) * asked.within(level)
    for arc in (1, *arcs(asked, level)):
        held, roots = (
            count_held_in_rows(children, size, arc),
            count_held_in_rows(children[:, :1], size, arc),
        )
        for each in buffers_across(asked.goal, inside * held, asked.k, roots):
            yield many * float(each.sum(axis=0).max()) / slab_leaving_rate(asked, level, arc)
    if not asked.goal.apart and not any(link.reduces for link in asked.system.links):
        turns = asked.goal.rounds * (asked.counts[level] - 1)
        yield many * len(children) * turns / total_slab_leaving_rate(asked, level)


# All parts together.


def _seconds_of_parts(asked: GroupedGoal, level: int) -> Iterator[float]:
    """Seconds, for one byte of buffer, that all parts of a kind take: alike and side by side."""
    system = asked.system
    if not is_crossed(system, level):
        return
    children, replicas = asked.children(level), count_groups_within(asked.roles)
    for arc in (1, *(arc for arc in arcs(asked, level) if children % arc == 0)):
        held = asked.within(level) * count_held_in_rows(
            groups_of_children(asked.roles[level]), children, arc
        )
        p = held[:, ::arc]
        parts = asked.outside(level) * (p > 0).sum(axis=1)  # that each group touches
        touched = float(parts.mean())
        room = total_leaving_rate(asked, level, arc)
        if asked.goal.apart:
            sent = asked.outside(level) * float((p * (asked.k - p)).sum(axis=1).mean())
            yield replicas * sent / asked.k / room
        elif asked.goal.rounds == 1:
            yield replicas * (touched - 1) / room
        elif touched > 1:
            yield replicas * 2 * (touched - 1) / rate_with_switches(asked, level, arc)
            yield replicas * float((parts * (parts > 1)).mean()) / room


def _seconds_of_calls(asked: GroupedGoal, level: int) -> float:
    """Seconds, for one byte of buffer, of an all-reduce in which all children are parts.

    What leaves parts and what enters them counts together, over both ways of all links. M parts of
    a group are joined to one sum and get it back, each in M - 1 turns: a message is 2 for one turn,
    a call through a switch that joins s of them s + 1 for s - 1 turns.
    """
    system = asked.system
    reducing = [j for j in range(level + 1) if is_crossed(system, j) and system.links[j].reduces]
    if not reducing or not is_crossed(system, level):
        return 0.0
    most = max(prod(asked.counts[j : level + 1]) for j in reducing)
    turn = min(2.0, (most + 1) / (most - 1) if most > 1 else inf)
    touched = asked.outside(level) * asked.counts[level]
    return (
        count_groups_within(asked.roles)
        * (touched - 1)
        * turn
        / total_leaving_rate(asked, level, 1)
    )
