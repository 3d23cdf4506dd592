"""Switches that reduce: the simulator against every piece on every wire."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Groups, Instruction, list_instructions
from hierarchies import Axis, Hierarchy, Reduction, System, load, placements
from hierarchies.fabric import roles_of
from price_oracle import Machine, groups_of
from strategies import SWITCHES, reductions, smart_systems
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.price.step_prices import Simulator
from synth.collective.price.ways import MEMORY, PriceLine

GB = 1e9


def whole(system: System) -> Reduction:
    [placement] = placements(system.hierarchy, (Axis("data", system.devices),))
    return Reduction(placement, ("data",))


def in_network(system: System, reduction: Reduction, what: Instruction) -> list[PriceLine]:
    roles = roles_of(reduction, what.groups.free, what.groups.zero)
    lines = Simulator(system, Choice.ANY).lines(what.collective, roles)
    return [line for line in lines if line.algorithm is Algorithm.IN_NETWORK]


@given(smart_systems(12, kinds=SWITCHES), st.data())
@examples(20, 150)
def test_wires_are_as_busy_as_priced(system: System, data: st.DataObject) -> None:
    """All groups of an instruction at once, ports shared, outer traffic through inner ports."""
    links = tuple(replace(link, reduces=True) for link in system.links)
    system = replace(system, links=links)
    reduction = data.draw(reductions(system.hierarchy))
    assume(0 < len(reduction.tree.digits) <= 4)
    what = data.draw(st.sampled_from(list_instructions(len(reduction.tree.digits), across=True)))
    machine = Machine(system)
    loads: dict[object, float] = {}
    for group in groups_of(reduction, what.groups):
        for wire, amount in machine.in_network(what.collective, group):
            loads[wire] = loads.get(wire, 0.0) + float(amount) / machine.capacity(wire)
    expected: dict[str, float] = {}
    one_way: dict[str, float] = {}
    for wire, seconds in loads.items():
        assert isinstance(wire, tuple)
        name = system.hierarchy.names[wire[0]]
        expected[name] = max(expected.get(name, 0.0), seconds)
        way = f"{name} {'out' if wire[1] == 'up' else 'in'}"
        one_way[way] = max(one_way.get(way, 0.0), seconds)
    [line] = in_network(system, reduction, what)
    found = dict(line.loads)
    del found[MEMORY]
    assert found == pytest.approx(expected, rel=1e-9)
    each = dict(line.resources)
    del each[MEMORY]
    assert each == pytest.approx(one_way, rel=1e-9)


@pytest.mark.parametrize("gpus", [4, 5, 6, 7, 8])
def test_bytes_of_an_all_reduce_in_one_switch(gpus: int) -> None:
    """(k + 1)/k buffers a port. NCCL measured algorithm bandwidths of 258 GB/s for 5 GPUs and 273
    for 8 (NVIDIA/nccl issue 1455), 1.06 times as much: (6/5)/(9/8) = 1.067.
    """
    h100 = load("dgx-h100:1")
    node, gpu = h100.hierarchy.levels
    hierarchy = Hierarchy((node, replace(gpu, cardinality=gpus)))
    system = replace(
        h100, hierarchy=hierarchy, links=(replace(h100.links[0], ports=1), h100.links[1])
    )
    what = Instruction(Collective.ALL_REDUCE, Groups((0,)))
    [line] = in_network(system, whole(system), what)
    assert dict(line.bytes_per_port) == pytest.approx({"gpu": (gpus + 1) / gpus})
    assert line.latency_seconds == pytest.approx(8.4e-6 + 3 * 3.4e-6)


@pytest.mark.parametrize(
    ("name", "offered"),
    [("dgx-h100:4", True), ("dgx-a100:4", False), ("gb200-nvl72:2", True), ("mi300x:2", False)],
)
def test_which_machines_have_it(name: str, offered: bool) -> None:
    system = load(name)
    reduction = whole(system)
    what = Instruction(Collective.ALL_REDUCE, Groups(tuple(range(len(reduction.tree.digits)))))
    assert bool(in_network(system, reduction, what)) is offered


def test_between_nodes_a_tree_does_what_no_switch_does() -> None:
    """NVLS-tree on two nodes: a buffer over eight NICs each way, and 9/8 over each GPU's port."""
    system = load("dgx-h100:2")
    what = Instruction(Collective.ALL_REDUCE, Groups((0, 1)))
    [line] = in_network(system, whole(system), what)
    assert dict(line.bytes_per_port) == pytest.approx({"node": 1 / 8, "gpu": 9 / 8})
    assert line.latency_seconds == pytest.approx(8.4e-6 + 2 * 14e-6 + 3 * 3.4e-6)
    for collective in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER):
        assert not in_network(system, whole(system), replace(what, collective=collective))
    inside = Instruction(Collective.REDUCE_SCATTER, Groups((1,)))
    [line] = in_network(system, whole(system), inside)
    assert dict(line.bytes_per_port) == {"gpu": 1.0}


@given(smart_systems(24), st.data(), st.floats(1, 1e10))
@examples(20, 150)
def test_a_switch_that_reduces_makes_nothing_dearer(
    system: System, data: st.DataObject, size: float
) -> None:
    dumb = replace(system, links=tuple(replace(link, reduces=False) for link in system.links))
    reduction = data.draw(reductions(system.hierarchy))
    assume(0 < len(reduction.tree.digits) <= 4)
    what = data.draw(st.sampled_from(list_instructions(len(reduction.tree.digits), across=True)))
    roles = roles_of(reduction, what.groups.free, what.groups.zero)
    before, after = (
        Simulator(one).exchange(what.collective, roles, size).seconds for one in (dumb, system)
    )
    assert after <= before
