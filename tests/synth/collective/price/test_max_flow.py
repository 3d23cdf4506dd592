"""Bounds on machines that lack links or devices, against maximum flows on the machine's graph.

The graph knows no levels and no parts: what networkx finds is the least over all of its cuts. A
bound that counts some of these cuts cannot be above it, whatever is slower or missing.

A cut counts once what goes to several, as switches can hand it on. A bus or a port that several
devices share cannot: there bounds count each copy, rightly, and flows are no judge of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Goal
from hierarchies import (
    Axis,
    Domain,
    Fault,
    InputError,
    Reduction,
    System,
    load,
    parse_fault,
    placements,
)
from hierarchies.graphs import graph_of
from hierarchies.graphs.flow import flow_rates
from strategies import faulty, smart_systems
from synth.collective.price.bound import bound, bound_of_groups

NEARLY = 1 + 1e-6


def without_latency(system: System) -> System:
    free = {"latency_seconds": 0.0, "ll_latency_seconds": None, "ll128_latency_seconds": None}
    return replace(system, links=tuple(replace(link, **free) for link in system.links))


def whole(system: System) -> Reduction:
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    return Reduction(placement, ("data",))


@st.composite
def lacking(draw: st.DrawFn) -> System:
    """A machine without one or two of its devices, and with at least two left.

    On no ring or torus: what those lack their messages pass by, so that the graph, which has no way
    there, is stricter.
    """
    system = draw(smart_systems(10, kinds=[Domain.SWITCH, Domain.MESH, Domain.BUS]))
    gone = draw(st.sets(st.integers(0, system.devices - 1), min_size=1, max_size=2))
    assume(len(gone) <= system.devices - 2)
    try:
        return replace(
            system, faults=tuple(Fault(system.hierarchy.digits(device)) for device in sorted(gone))
        )
    except InputError:
        assume(False)
        raise


def copies_nothing(system: System) -> bool:
    """Whether no device shares a medium or port with another, but behind a switch."""
    own = (
        link.domain is not Domain.BUS and _alone(system, level)
        for level, link in enumerate(system.links)
    )
    return all(own)


def _alone(system: System, level: int) -> bool:
    if system.links[level].through:
        return system.links[level].domain is not Domain.TORUS
    circle = system.links[level].domain in (Domain.RING, Domain.MESH)
    inside = system.hierarchy.devices_in_child(level)
    return inside == 1 if circle else system.block(level) == 1


def check(system: System, seconds: dict[Goal, float]) -> None:
    """``seconds`` are the bounds for one byte on every device that is there."""
    rates = flow_rates(graph_of(system))
    gather, across = rates.all_gather_bytes_per_second, rates.broadcast_bytes_per_second
    for goal in (Goal.ALL_GATHER, Goal.REDUCE_SCATTER):
        assert seconds[goal] * gather <= NEARLY
    for goal in (Goal.BROADCAST, Goal.REDUCE):
        assert seconds[goal] * across <= NEARLY
    # A reduce-scatter and an all-gather reach twice their own time, so no bound is above that.
    assert seconds[Goal.ALL_REDUCE] * gather <= 2 * NEARLY


GOALS = tuple(goal for goal in Goal if goal is not Goal.ALL_TO_ALL)


@given(faulty(10))
@examples(12, 200)
def test_slower_links_and_dead_ports(system: System) -> None:
    assume(system.devices > 1 and copies_nothing(system))
    system = without_latency(system)
    check(system, {goal: bound(system, whole(system), 1.0, goal).seconds for goal in GOALS})


@given(lacking())
@examples(10, 100)
def test_missing_devices(system: System) -> None:
    system = without_latency(system)
    assume(copies_nothing(system))
    left = np.array([d for d in range(system.devices) if d not in system.missing])
    check(system, {goal: bound_of_groups(system, [left], 1.0, goal).seconds for goal in GOALS})


@pytest.mark.parametrize(
    ("name", "slow"),
    [
        ("dgx-h100:2", {}),
        ("dgx-h100:2", {"node1/nic3": 0.5}),
        ("dgx-h100:2", {"node1/nic3": 0.0}),
        ("dgx-h100:2", {"node1": 0.25}),
        ("dgx-h100:2", {"node0/gpu5": 0.5}),
        ("mi300x:2", {"node0": 0.5}),
        ("l40s-pcie:2", {"node0/socket1": 0.5}),
    ],
)
def test_the_bound_of_an_all_gather_on_a_known_machine_is_what_flows_reach(
    name: str, slow: dict[str, float]
) -> None:
    system = load(name)
    system = without_latency(
        system.with_faults([parse_fault(unit, system.hierarchy, s) for unit, s in slow.items()])
    )
    rate = flow_rates(graph_of(system)).all_gather_bytes_per_second
    least = bound(system, whole(system), 1.0, Goal.ALL_GATHER).seconds
    assert least * rate == pytest.approx(1.0, rel=1e-6)
