"""Prices and bounds where links are slower or missing: laws, and searches against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Goal, parse
from hierarchies import (
    Axis,
    Hierarchy,
    Reduction,
    System,
    load,
    parse_fault,
    placements,
)
from hierarchies.fabric import roles_of
from hierarchies.links import Floats, Network, Wiring
from strategies import all_valid, faulty, reductions, spelled
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.algorithms.link_loads import Loads, sum_by_link
from synth.collective.algorithms.slowest_links import SlowestLinks, loads_per_level
from synth.collective.price.bound import bound
from synth.collective.price.flows import simulate
from synth.collective.price.segments import price_ticks
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.answers import choose_segments, price_phases
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language
from synth.collective.semantics.schedule import GroupList
from synth.collective.verify.rehearsal import derive_valid

SIZE = 2**24


@st.composite
def cases(draw: st.DrawFn) -> tuple[System, Reduction, str]:
    system = draw(faulty())
    reduction = draw(reductions(system.hierarchy))
    digits = len(reduction.tree.digits)
    assume(0 < digits <= 3)
    steps = draw(st.sampled_from(all_valid(digits, Language(3, across=True))))
    return system, reduction, str(spelled(steps, reduction.tree))


def price(system: System, reduction: Reduction, text: str) -> float:
    derivation = derive_valid(parse(text), reduction.tree)
    return total_seconds(price_phases(Simulator(system, Choice.ANY), derivation, reduction, SIZE))


@given(cases())
@examples(15, 100)
def test_a_slower_machine_is_never_faster_and_never_below_its_bound(
    case: tuple[System, Reduction, str],
) -> None:
    system, reduction, text = case
    healthy, now = price(system.healthy, reduction, text), price(system, reduction, text)
    assert now >= healthy
    slower = replace(system, faults=tuple(replace(f, share=f.share * 0.8) for f in system.faults))
    assert price(slower, reduction, text) >= now * (1 - 1e-9)
    least = bound(system, reduction, SIZE)
    assert least.seconds >= bound(system.healthy, reduction, SIZE).seconds
    assert least.seconds <= now * (1 + 1e-9)


@given(cases())
@examples(10, 60)
def test_one_step_takes_no_longer_link_by_link(case: tuple[System, Reduction, str]) -> None:
    """The simulator's busiest links are an upper bound for every flow of a step alone."""
    system, reduction, _ = case
    derivation = derive_valid(spelled(all_valid(len(reduction.tree.digits))[0], reduction.tree),
                         reduction.tree)  # fmt: skip
    assume(len(derivation.instructions) == 1)
    schedule = lower(derivation, reduction, SIZE * reduction.tree.devices)
    prices = tuple(
        price_phases(Simulator(system, Choice.ANY), derivation, reduction, schedule.padded_bytes)
    )
    flowed = simulate(schedule, prices, Network.of(system))
    assert flowed.seconds <= total_seconds(prices) * (1 + 1e-9)


def slow(system: System, *names: str, share: float = 0.5) -> System:
    return system.with_faults([parse_fault(name, system.hierarchy, share) for name in names])


@pytest.mark.parametrize("axes", [{"data": 8}, {"data": 4, "model": 2}])
@pytest.mark.parametrize("what", ["node1", "node1/gpu2", "node0/nic3"])
def test_the_search_is_exact_as_brute_force_says(axes: dict[str, int], what: str) -> None:
    system = slow(load("dgx-h100:2"), what)
    sized = {"data": axes["data"] * 2, **{k: v for k, v in axes.items() if k != "data"}}
    request = Request(
        tuple(Axis(name, size) for name, size in sized.items()),
        ("data",),
        SIZE,
        3,
        Language(3),
        Choice.ANY,
        segments=(1, 4),
        stripes=False,
        exact=True,
    )
    report = answers(system, request)
    found = []
    simulator = Simulator(system, Choice.ANY)
    for placement in placements(system.hierarchy, request.axes):
        reduction = Reduction(placement, ("data",))
        for steps in all_valid(len(reduction.tree.digits), Language(3)):
            derivation = derive_valid(spelled(steps, reduction.tree), reduction.tree)
            count, prices, _ = choose_segments(simulator, derivation, reduction, SIZE, (1, 4))
            found.append(price_ticks([price.work for price in prices], count))
    assert [a.candidate.ticks for a in report.answers] == sorted(found)[:3]


def test_all_links_at_half_speed_take_twice_the_time() -> None:
    system = load("p2-a100:4")
    half = slow(system, "node0", "node1", "node2", "node3")
    tree = whole(half)
    roles = roles_of(tree, (0, 1), ())
    for line, other in zip(
        Simulator(system, Choice.RING).lines(Collective.ALL_REDUCE, roles),
        Simulator(half, Choice.RING).lines(Collective.ALL_REDUCE, roles),
        strict=True,
    ):
        assert dict(other.loads)["node"] == pytest.approx(2 * dict(line.loads)["node"])


def whole(system: System) -> Reduction:
    """One group of all devices."""
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    return Reduction(placement, ("data",))


def test_a_dead_nic_leaves_its_load_to_the_others_of_its_node() -> None:
    system = load("dgx-h100:4")
    dead = system.with_faults([parse_fault("node3/nic2", system.hierarchy)])
    wiring = Wiring(dead)
    out = int(wiring.ports(0, np.array([26]))[0])
    assert wiring.name(out) == "node3/port2 out"
    others = dict(wiring.detours[out])
    assert {wiring.name(link) for link in others} == {
        f"node3/port{port} out" for port in range(8) if port != 2
    }
    assert sum(others.values()) == pytest.approx(1)
    reduction = whole(dead)
    healthy, now = bound(system, reduction, SIZE), bound(dead, reduction, SIZE)
    # All nodes together send 2 x 3 buffers by 31 rails instead of 32.
    assert now.seconds == pytest.approx(healthy.seconds * 32 / 31)


def test_bounds_of_other_goals_follow_too() -> None:
    system = slow(load("dgx-h100:4"), "node3", share=0.1)
    reduction = whole(system)
    for goal in Goal:
        assert bound(system, reduction, SIZE, goal).seconds > 2 * (
            bound(system.healthy, reduction, SIZE, goal).seconds
        )


def nics_of(loads: Loads) -> Floats:
    """The bytes on the NICs of four nodes of dgx-h100, out and in; shape (4, 8, 2)."""
    carried = sum_by_link(list(loads.entries()), loads.wiring)
    return carried[: loads.wiring.firsts[1]].reshape(4, 8, 2)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize(
    ("missing", "channels"),
    [
        (["node0/nic3"], 7),
        (["node1/nic0"], 7),
        (["node0/nic3", "node2/nic5"], 7),
        (["node0/nic3", "node2/nic5", "node2/nic7"], 6),
    ],
)
def test_all_nodes_have_the_channels_of_the_poorest(
    algorithm: Algorithm, missing: list[str], channels: int
) -> None:
    """A leaf of a tree has ports to spare, but its channels are those of all nodes."""
    system = load("dgx-h100:4")
    lacking = system.with_faults([parse_fault(name, system.hierarchy) for name in missing])
    roles = roles_of(whole(system), (0, 1), ())
    [healthy, now] = [
        SlowestLinks(each).loads(Collective.ALL_REDUCE, algorithm, roles)
        for each in (system, lacking)
    ]
    nics, before = nics_of(now), nics_of(healthy)
    assert ((nics > 0).sum(axis=1) == channels).all()
    assert nics.sum(axis=1) == pytest.approx(before.sum(axis=1))
    assert loads_per_level(now)[1][0] == pytest.approx(
        8 / channels * loads_per_level(healthy)[1][0]
    )


def test_members_that_send_by_their_own_ports_take_a_detour_as_before() -> None:
    """An all-to-all has no channels that are laid over the ports of all nodes."""
    system = load("dgx-h100:4")
    lacking = system.with_faults([parse_fault("node0/nic3", system.hierarchy)])
    roles = roles_of(whole(system), (0, 1), ())
    [healthy, now] = [
        nics_of(SlowestLinks(each).loads(Collective.ALL_TO_ALL, Algorithm.DIRECT, roles))
        for each in (system, lacking)
    ]
    assert now[1:] == pytest.approx(healthy[1:])
    others = [port for port in range(8) if port != 3]
    assert now[0, others] == pytest.approx(8 / 7 * healthy[0, others])


def test_groups_whose_only_port_is_missing_take_a_detour() -> None:
    """One rank a node behind a dead NIC: the other NICs of that node carry its bytes."""
    system = load("dgx-h100:4")
    lacking = system.with_faults([parse_fault("node0/nic3", system.hierarchy)])
    groups = GroupList(((3, 11, 19, 27),), (1.0,))
    loads = SlowestLinks(lacking).loads(Collective.ALL_REDUCE, Algorithm.RING, groups)
    nics = nics_of(loads)
    assert (nics[1:] > 0).sum() == 2 * 3
    assert nics[0, 0] == pytest.approx(nics[1, 3] / 7)


def test_blocks_with_several_ports_lose_them_one_by_one() -> None:
    system = replace(load("dgx-h100:2"), hierarchy=Hierarchy.of(node=2, gpu=4))
    lacking = system.with_faults([parse_fault("node0/nic3", system.hierarchy)])
    wiring = Wiring(lacking)
    left = wiring.ports_left(0)
    assert left is not None
    assert left.tolist() == [2, 1, 2, 2, 2, 2, 2, 2]
    assert Wiring(system).ports_left(0) is None
    roles = roles_of(whole(lacking), (0, 1), ())
    healthy, now = (
        loads_per_level(SlowestLinks(each).loads(Collective.ALL_REDUCE, Algorithm.RING, roles))
        for each in (system, lacking)
    )
    assert now[1][0] == pytest.approx(8 / 7 * healthy[1][0])
