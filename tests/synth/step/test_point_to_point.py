"""Prices of permutes and of what stages send: laws, and a shortest route link by link."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hierarchies import Axis, Domain, Hierarchy, Link, Placement, System, load
from machines import calibrated
from strategies import switches, systems
from synth.collective.semantics.point_to_point import PointToPoint, TransferKind, stage_transfer
from synth.step.point_to_point import price_transfer


def permute(system: System, senders: list[int], size_bytes: int = 2**20) -> PointToPoint:
    """Any permutation of a machine's devices."""
    hierarchy = system.hierarchy
    placement = Placement(hierarchy, (Axis("all", hierarchy.devices),), (hierarchy.cardinalities,))
    return PointToPoint(TransferKind.PERMUTE, placement, np.array(senders), size_bytes)


@st.composite
def permuted(draw: st.DrawFn) -> tuple[System, list[int]]:
    system = draw(systems())
    assume(not system.missing)
    return system, draw(st.permutations(range(system.devices)))


@settings(max_examples=40)
@given(permuted(), st.integers(1, 2**30))
def test_more_bytes_take_longer_and_faster_links_do_not(
    given: tuple[System, list[int]], size: int
) -> None:
    system, senders = given
    one = price_transfer(permute(system, senders, size), system)
    assert one.seconds <= price_transfer(permute(system, senders, 2 * size), system).seconds
    first, *rest = system.links
    quick = replace(first, bandwidth_bytes_per_second=2 * first.bandwidth_bytes_per_second)
    faster = replace(system, links=(quick, *rest))
    assert price_transfer(permute(faster, senders, size), faster).seconds <= one.seconds


@settings(max_examples=40)
@given(permuted())
def test_never_below_one_buffer_over_the_slowest_link_on_its_way(
    given: tuple[System, list[int]],
) -> None:
    system, senders = given
    found = price_transfer(permute(system, senders), system)
    crossed = [
        level
        for level in range(len(system.links))
        for device, sender in enumerate(senders)
        if system.hierarchy.digits(device)[: level + 1]
        != system.hierarchy.digits(sender)[: level + 1]
        and system.hierarchy.digits(device)[:level] == system.hierarchy.digits(sender)[:level]
    ]
    for level in crossed:
        ports = system.ports_of_block(level)
        bandwidth = system.links[level].bandwidth_bytes_per_second * ports
        halves = 2 if system.links[level].domain in (Domain.RING, Domain.TORUS) else 1
        assert found.seconds >= 2**20 / bandwidth / halves
    assert (found.seconds == 0) == (senders == sorted(senders))


def test_devices_behind_one_nic_share_it() -> None:
    """Both GPUs of a node send their megabyte to the other node: over one port, twice as long."""
    inside = Link(Domain.SWITCH, 1e11, 1e-6)
    hierarchy = Hierarchy.of(node=2, gpu=2)
    for ports, seconds in ((1, 2e-3), (2, 1e-3)):
        across = Link(Domain.SWITCH, 1e9, 1e-5, ports)
        system = System("two", "", hierarchy, (across, inside), 1e12, launches=False)
        found = price_transfer(permute(system, [2, 3, 0, 1], 10**6), system)
        assert found.busiest == "node"
        assert found.seconds == pytest.approx(seconds + 1e-5)


@pytest.mark.parametrize("wraps", [True, False])
def test_in_a_torus_messages_take_a_shortest_route(wraps: bool) -> None:
    """Loads and hops as those of networkx's grid; no pair stands opposite, so routes are one."""
    hierarchy, link = Hierarchy.of(y=3, x=5), Link(Domain.TORUS, 1e9, 1e-6, wraps=wraps)
    links = (replace(link, ports=5), link)
    system = System("torus", "", hierarchy, links, 1e15, launches=False)
    senders = np.random.default_rng(1).permutation(15).tolist()
    grid = nx.grid_2d_graph(3, 5, periodic=wraps)
    loads: Counter[tuple[object, object]] = Counter()
    hops = []
    for device, sender in enumerate(senders):
        if device == sender:
            continue
        (y, x), to = divmod(sender, 5), divmod(device, 5)
        turn = (to[0], x)
        way = [*nx.shortest_path(grid, (y, x), turn), *nx.shortest_path(grid, turn, to)[1:]]
        loads.update(pairwise(way))
        hops.append(len(way) - 1)
        assert len(way) - 1 == nx.shortest_path_length(grid, (y, x), to)
    found = price_transfer(permute(system, senders, 10**6), system)
    assert found.latency_seconds == pytest.approx(max(hops) * 1e-6)
    assert found.seconds - found.latency_seconds == pytest.approx(max(loads.values()) * 1e-3)


def test_a_stage_sends_to_its_neighbour_over_the_network() -> None:
    system = load("dgx-h100:2")
    axes = (Axis("pipe", 2), Axis("data", 8))
    placement = Placement(system.hierarchy, axes, ((2, 1), (1, 8)))
    found = price_transfer(stage_transfer(placement, "pipe", 0, 1, 2**26), system)
    assert found.what == "send-receive"
    assert found.busiest == "node"
    inside = Placement(system.hierarchy, axes[::-1], ((2, 4), (1, 2)))
    near = price_transfer(stage_transfer(inside, "pipe", 0, 1, 2**26), system)
    assert near.busiest == "gpu"
    assert near.seconds < found.seconds


def test_a_calibrated_machine_is_priced_by_what_was_measured() -> None:
    known = calibrated(2, 4)
    described = replace(known, calibration=None)
    senders = [*range(4, 8), *range(4)]
    assert (
        price_transfer(permute(known, senders), known).seconds
        > price_transfer(permute(described, senders), described).seconds
    )


def test_nothing_to_send_costs_nothing() -> None:
    system = switches(Hierarchy.of(node=2, gpu=2))
    assert price_transfer(permute(system, [0, 1, 2, 3]), system).seconds == 0.0
