"""What groups put on links: against every message put on every link, and against the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from explicit_steps import explicit
from grammar import Collective, Instruction, list_instructions
from hierarchies import Domain, Hierarchy, InputError, Reduction, System, load
from hierarchies.fabric import roles_of
from hierarchies.links import Network, Wiring
from link_names import spelled
from price_oracle import Group, Machine, groups_of
from strategies import reductions, smart_systems, switches, systems
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.link_loads import Footprint, Loads, footprint, merge_entries
from synth.collective.algorithms.traffic import GroupShape
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, price_of_line
from synth.collective.price.ways import MEMORY, PriceLine
from synth.collective.semantics.schedule import Exchange, Transpose

ROOTED = (Collective.REDUCE, Collective.BROADCAST)
SIZE = 2**20


@st.composite
def asked(
    draw: st.DrawFn, smart: bool = False
) -> tuple[System, Reduction, Instruction, tuple[PriceLine, ...]]:
    """A system, a reduction on it, an instruction, and all ways to carry it out."""
    system = draw((smart_systems if smart else systems)(12))
    reduction = draw(reductions(system.hierarchy))
    digits = len(reduction.tree.digits)
    assume(0 < digits <= 4)
    what = draw(st.sampled_from(list_instructions(digits, across=True)))
    what = replace(what, collective=draw(st.sampled_from(Collective)))
    roles = roles_of(reduction, what.groups.free, what.groups.zero)
    return system, reduction, what, Simulator(system).lines(what.collective, roles)


def print_of(
    system: System, what: Instruction, line: PriceLine, groups: list[Group]
) -> tuple[Footprint, Wiring]:
    wiring = Wiring(system)
    phase = Exchange(what.collective, np.array(groups), SIZE)
    return footprint(phase, price_of_line(what.collective.value, line, SIZE), wiring), wiring


def named(
    machine: Machine, line: PriceLine, what: Instruction, group: Group
) -> dict[str, Fraction]:
    """By the name of a link the shares of a buffer that cross it, message by message."""
    found = explicit(machine, line.algorithm, what.collective, group)
    return {spelled(machine, wire): load for wire, load in found.items()}


@given(asked())
@examples(12, 80)
def test_every_link_carries_what_the_messages_put_there(
    case: tuple[System, Reduction, Instruction, tuple[PriceLine, ...]],
) -> None:
    """Group by group and link by link, for all but switches that reduce.

    The two trees of a rooted collective may be any that share the load; the oracle has others.
    """
    system, reduction, what, lines = case
    machine, groups = Machine(system), groups_of(reduction, what.groups)
    assume(machine.turns(groups[0]) <= 200 and what.collective is not Collective.ALL_TO_ALL)
    assume(machine.alike(groups[0]))
    for line in lines:
        found, wiring = print_of(system, what, line, groups)
        for number, group in enumerate(groups):
            mine = found.group == number
            carried = {
                wiring.name(link): each / SIZE
                for link, each in zip(
                    found.link[mine].tolist(), found.carried_bytes[mine].tolist(), strict=True
                )
            }
            touched = [carried.pop(f"{path}/memory") for path in paths(system, group)]
            each = dict(line.loads)[MEMORY] * system.memory_bytes_per_second
            assert touched == pytest.approx([each] * len(group))
            exact = named(machine, line, what, group)
            expected = {name: float(load) for name, load in exact.items()}
            if line.algorithm is Algorithm.TREE and what.collective in ROOTED:
                assert sum(carried.values()) == pytest.approx(sum(expected.values()))
                assert max(carried.values()) == pytest.approx(max(expected.values()))
            else:
                assert carried == pytest.approx(expected), line


def paths(system: System, group: Group) -> Iterator[str]:
    names = system.hierarchy.names
    for device in group:
        digits = system.hierarchy.digits(device)
        yield "/".join(f"{name}{digit}" for name, digit in zip(names, digits, strict=True))


@given(asked(smart=True))
@examples(20, 150)
def test_no_link_carries_more_than_the_busiest_of_the_simulator(
    case: tuple[System, Reduction, Instruction, tuple[PriceLine, ...]],
) -> None:
    """And on each level one does carry that, but where the simulator says that it rounds up.

    That is on levels which outer traffic passes through: there the ends of chains and trees send
    or receive less than it takes everyone to.
    """
    system, reduction, what, lines = case
    groups = groups_of(reduction, what.groups)
    bandwidths = Network.of(system).bandwidths
    for line in lines:
        found, wiring = print_of(system, what, line, groups)
        busy = np.bincount(found.link, found.carried_bytes, wiring.links) / SIZE / bandwidths
        borders = [*wiring.firsts, wiring.links]
        for level, name in enumerate((*system.hierarchy.names, MEMORY)):
            most = float(busy[borders[level] : borders[level + 1]].max(initial=0.0))
            told = dict(line.loads).get(name, 0.0)
            assert most <= told * (1 + 1e-9)
            passed = any(level in system.through(outer) for outer in range(level))
            alike = line.algorithm in (Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.DIRECT)
            if not passed or (alike and what.collective not in ROOTED):
                assert most == pytest.approx(told, rel=1e-9)


@given(asked())
def test_the_groups_of_a_phase_are_alike_in_memory(
    case: tuple[System, Reduction, Instruction, tuple[PriceLine, ...]],
) -> None:
    system, reduction, what, lines = case
    groups = groups_of(reduction, what.groups)
    found, wiring = print_of(system, what, lines[0], groups)
    counts = np.bincount(found.group[found.link >= wiring.firsts[-1]])
    assert counts.tolist() == [len(group) for group in groups]


def test_a_transpose_reads_and_writes_every_buffer() -> None:
    system = load("dgx-h100:2")
    wiring = Wiring(system)
    phase = Transpose(np.array([3, 5]), (2, 2), (1, 0), 100)
    seconds = 200 / system.memory_bytes_per_second
    told = InstructionPrice("transpose", None, 100, seconds, 0.0, MEMORY, (), ((MEMORY, seconds),))
    found = footprint(phase, told, wiring)
    assert found.groups == [[3], [5]]
    assert [wiring.name(link) for link in found.link.tolist()] == [
        "node0/gpu3/memory",
        "node0/gpu5/memory",
    ]
    assert found.carried_bytes.tolist() == [200.0, 200.0]


@pytest.mark.parametrize(
    ("collective", "sent", "received"),
    [
        (Collective.ALL_REDUCE, [5 / 4] * 4, [5 / 4] * 4),
        (Collective.REDUCE_SCATTER, [1] * 4, [1 / 4] * 4),
        (Collective.ALL_GATHER, [1 / 4] * 4, [1] * 4),
        (Collective.REDUCE, [1] * 4, [1, 0, 0, 0]),
        (Collective.BROADCAST, [1, 0, 0, 0], [1] * 4),
    ],
)
def test_a_switch_that_reduces_has_two_ways(
    collective: Collective, sent: list[float], received: list[float]
) -> None:
    system = load("dgx-h100:1").resized(1)
    links = tuple(
        replace(link, reduces=link.domain is Domain.SWITCH and level == 1)
        for level, link in enumerate(system.links)
    )
    system = replace(system, hierarchy=Hierarchy.of(node=1, gpu=4), links=links)
    reduction = Reduction(Reduction.plain(1, 4).placement, ("all",))
    what = list_instructions(1)[0]
    roles = roles_of(reduction, what.groups.free, what.groups.zero)
    [line] = Simulator(system).by(collective, Algorithm.IN_NETWORK, roles)
    found, wiring = print_of(system, replace(what, collective=collective), line, [(0, 1, 2, 3)])
    loads = dict(zip(found.link.tolist(), (found.carried_bytes / SIZE).tolist(), strict=True))
    out = [loads.get(link, 0.0) for link in wiring.ports(1, np.arange(4)).tolist()]
    back = [loads.get(link + 1, 0.0) for link in wiring.ports(1, np.arange(4)).tolist()]
    assert (out, back) == (pytest.approx(sent), pytest.approx(received))


def test_groups_that_are_no_grids_are_refused() -> None:
    system = load("dgx-h100:4")
    [line, *_] = Simulator(system).lines(
        Collective.ALL_REDUCE, roles_of(Reduction.plain(4, 8), (1,), ())
    )
    price = price_of_line(Collective.ALL_REDUCE.value, line, SIZE)
    for groups in ([[0, 1, 8]], [[0, 1], [2, 10]], [[1, 0], [2, 3]]):
        with pytest.raises(InputError, match=r"no grid of digits|differ in shape"):
            footprint(
                Exchange(Collective.ALL_REDUCE, np.array(groups), SIZE), price, Wiring(system)
            )


@st.composite
def ragged(draw: st.DrawFn) -> tuple[System, list[Group]]:
    """Groups of any members in any units, on a machine on which no message passes a device."""
    system = draw(smart_systems(12))
    assume(not any(link.domain in (Domain.RING, Domain.TORUS) for link in system.links))
    assume(system.devices > 1)
    order = draw(st.permutations(range(system.devices)))
    cuts = sorted(draw(st.sets(st.integers(2, system.devices), min_size=1, max_size=3)))
    groups = [tuple(order[a:b]) for a, b in pairwise([0, *cuts])]
    return system, [group for group in groups if len(group) > 1]


def loads_of(
    system: System, groups: list[Group], collective: Collective, algorithm: Algorithm
) -> dict[tuple[int, str], float]:
    sizes = np.array([len(group) for group in groups])
    shape = GroupShape(system.hierarchy, sizes, np.concatenate(groups))
    wiring = Wiring(system)
    found = merge_entries(
        shape.member[:, None].tolist(),
        list(Loads(collective, algorithm, shape, wiring).entries()),
        wiring,
    )
    return {
        (group, wiring.name(link)): each
        for group, link, each in zip(
            found.group.tolist(), found.link.tolist(), found.carried_bytes.tolist(), strict=True
        )
    }


@given(ragged(), st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER]))
@examples(15, 100)
def test_a_direct_exchange_of_any_group_puts_its_messages_on_links(
    case: tuple[System, list[Group]], collective: Collective
) -> None:
    system, groups = case
    machine = Machine(system)
    rounds = 2 if collective is Collective.ALL_REDUCE else 1
    expected = {
        (number, spelled(machine, wire)): float(load)
        for number, group in enumerate(groups)
        for wire, load in machine.loads(machine.direct(group, rounds)).items()
    }
    found = loads_of(system, groups, collective, Algorithm.DIRECT)
    assert found == pytest.approx(expected)


def test_children_of_a_mesh_that_hold_more_members_are_sent_more() -> None:
    """Two members in one child and one in each of two: two messages cross to the fuller one."""
    system = switches(Hierarchy.of(node=3, gpu=2))
    mesh = replace(system.links[0], domain=Domain.MESH)
    system = replace(system, links=(mesh, system.links[1]))
    found = loads_of(system, [(0, 1, 2, 4)], Collective.ALL_GATHER, Algorithm.DIRECT)
    across = {link: each for (_, link), each in found.items() if link.count("/") == 0}
    full, thin = pytest.approx(2 / 4), pytest.approx(1 / 4)
    assert across == {
        "node0-node1 forth": full,
        "node0-node1 back": full,
        "node0-node2 forth": full,
        "node0-node2 back": full,
        "node1-node2 forth": thin,
        "node1-node2 back": thin,
    }


@given(ragged(), st.sampled_from([Collective.ALL_REDUCE, Collective.REDUCE_SCATTER]))
@examples(15, 100)
def test_a_ring_of_any_group_crosses_each_level_as_often_as_its_edges(
    case: tuple[System, list[Group]], collective: Collective
) -> None:
    """In all, on switches: which members take turns at which border is for the engine to say."""
    system, groups = case
    links = tuple(replace(link, domain=Domain.SWITCH, through=()) for link in system.links)
    system, cards = replace(system, links=links), system.hierarchy.cardinalities
    rounds = 2 if collective is Collective.ALL_REDUCE else 1
    found = loads_of(system, groups, collective, Algorithm.RING)
    for number, group in enumerate(groups):
        ring = sorted(group)
        edges = [0] * len(cards)
        for here, there in zip(ring, [*ring[1:], ring[0]], strict=True):
            digits = zip(*(system.hierarchy.digits(one) for one in (here, there)), strict=True)
            edges[[a == b for a, b in digits].index(False)] += 1
        each = rounds * (len(group) - 1) / len(group)
        for level in range(len(cards)):
            for way in ("out", "in"):
                carried = sum(
                    load
                    for (whose, link), load in found.items()
                    if (whose, link.count("/")) == (number, level + 1) and link.endswith(way)
                )
                assert carried == pytest.approx(each * edges[level])
