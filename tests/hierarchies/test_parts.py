"""Machines of another shape: whose ports are left, which ends are joined."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import (
    Domain,
    Fault,
    Hierarchy,
    InputError,
    Link,
    System,
    catalogue,
    describe_system,
    load,
    read,
    spell_machine,
)
from hierarchies.links import Wiring
from hierarchies.parts import reshape_system
from strategies import systems


@given(systems())
def test_the_same_shape_is_the_same_machine(system: System) -> None:
    assert reshape_system(system, system.hierarchy.cardinalities) == system
    only = reshape_system(system, system.hierarchy.cardinalities[:1])
    assert only == system


@given(systems(), st.data())
def test_every_device_of_a_part_keeps_what_it_shares(system: System, data: st.DataObject) -> None:
    """As many devices share as many ports, or all that are left share them; none is invented."""
    counts = system.hierarchy.cardinalities
    shape = tuple(data.draw(st.integers(1, count)) for count in counts)
    try:
        part = reshape_system(system, shape)
    except InputError:
        return
    assert part.hierarchy.cardinalities == shape
    for level, link in enumerate(part.links):
        if link.domain is not Domain.SWITCH:
            continue
        inside = prod(shape[level + 1 :])
        assert part.block(level) == min(system.block(level), inside)
        assert part.port_bytes_per_second(level) == system.port_bytes_per_second(level)
        assert link.ports <= system.links[level].ports


@pytest.mark.parametrize(
    "spec",
    [
        *catalogue(),
        "gb200-nvl72:1x64",
        "tpu-v5e-slice:2x4",
        "tpu-v5p-slice:4x4x8",
        "tpu-v5p-multislice:2x4x4x8",
        "p2-a100:4x8",
    ],
)
def test_how_a_machine_is_asked_for_gives_that_machine(spec: str) -> None:
    system = load(spec)
    assert load(spell_machine(system.name, system.hierarchy.cardinalities)) == system


def test_an_unknown_system_needs_its_outermost_count() -> None:
    assert spell_machine("ours", (2, 8)) == "ours:2"


def test_a_slice_of_tpus_is_x_first_as_google_writes_it() -> None:
    for spec, sizes in (("tpu-v5p-slice:4x4x8", (8, 4, 4)), ("tpu-v5e-slice:2x4", (4, 2))):
        assert load(spec).hierarchy.cardinalities == sizes
    assert load("aws-trn2:2x4x2").hierarchy.cardinalities == (2, 4, 2)
    assert load("tpu-v4-pod-slice:8").hierarchy.cardinalities == (8, 4, 4)


def test_several_slices_begin_with_their_number_and_keep_the_order_of_one() -> None:
    system = load("tpu-v5p-multislice:3x4x4x8")
    assert system.hierarchy.names == ("slice", "z", "y", "x")
    assert system.hierarchy.cardinalities == (3, 8, 4, 4)
    # Four chips a host, whose NICs are one port.
    assert (system.links[0].ports, system.block(0)) == (32, 4)
    assert all(link.wraps for link in system.links[1:])
    open_ends = load("tpu-v5e-multislice:2x8x16").links
    assert [link.wraps for link in open_ends] == [True, False, False]
    with pytest.raises(InputError, match=r"one for each level, as in 2x4x4x4 \(slice, x, y, z\)"):
        load("tpu-v5p-multislice:2x4x4")


def test_sixty_four_of_a_rack_of_seventy_two() -> None:
    part = load("gb200-nvl72:1x64")
    assert part.hierarchy.cardinalities == (1, 64)
    assert part.links[0].ports == 64
    assert load("gb200-nvl72:2").links[0].ports == 72
    assert load("l40s-pcie:4x1x4").links[0].ports == 1
    assert load("p2-a100:4x8").links[0].ports == 1


@pytest.mark.parametrize(
    ("spec", "joined"),
    [
        ("tpu-v5e-slice:16x16", True),
        ("tpu-v5e-slice:8x8", False),
        ("tpu-v5e-slice:8x16", False),
        ("tpu-v5e-slice:8", False),
        ("tpu-v5e-slice", True),
        ("tpu-v4-pod-slice:4x4x8", True),
        ("tpu-v4-pod-slice:2x2x4", False),
        ("tpu-v4-pod-slice:8", True),
        ("tpu-v4-pod-slice:2", False),
    ],
)
def test_ends_of_a_tpu_slice_are_joined_according_to_google(spec: str, joined: bool) -> None:
    system = load(spec)
    assert {link.wraps for link in system.links} == {joined}
    for level, link in enumerate(system.links):
        assert link.ports == system.hierarchy.devices_in_child(level)
    again = read(describe_system(system))
    assert [link.wraps for link in again.links] == [link.wraps for link in system.links]


def test_a_part_of_a_ring_is_a_line() -> None:
    ring = Link(Domain.RING, 1e9, 0.0)
    system = System("r", "", Hierarchy.of(node=4, gpu=8), (replace(ring), ring), 1e12)
    part = reshape_system(system, (4, 4))
    assert [link.wraps for link in part.links] == [True, False]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("dgx-h100:4x16", "level 'gpu': 16 of 8; dgx-h100 has no more"),
        (
            "dgx-h100:4x8x2",
            "3 counts for 4 node x 8 gpu; one for each level, as in 4x8 (node, gpu)",
        ),
        ("dgx-h100:0x8", "would be empty"),
        ("dgx-h100:4y8", "no shape; after ':' stands a count for the outermost level, or for each"),
        ("gb200-nvl72:2x0", "would be empty"),
    ],
)
def test_descriptions_of_impossible_machines_are_refused(spec: str, problem: str) -> None:
    with pytest.raises(InputError) as told:
        load(spec)
    assert problem in str(told.value)


@pytest.mark.parametrize(
    ("spec", "ports", "of_devices"),
    [
        ("aws-p4d:4x3", 2, [0, 0, 1]),
        ("aws-p4d:4x5", 3, [0, 0, 1, 1, 2]),
        ("aws-p4d:4x7", 4, [0, 0, 1, 1, 2, 2, 3]),
        ("aws-p4d:4x4", 2, [0, 0, 1, 1]),
        ("aws-p4d:4x1", 1, [0]),
    ],
)
def test_a_node_of_some_gpus_keeps_their_nics_and_who_shares_them(
    spec: str, ports: int, of_devices: list[int]
) -> None:
    """Four NICs for eight GPUs: of five, two and two share one, and the last has its own."""
    system = load(spec)
    whole, inside = load("aws-p4d:4"), len(of_devices)
    assert (system.links[0].ports, system.blocks(0)) == (ports, ports)
    assert system.port_bytes_per_second(0) == whole.port_bytes_per_second(0)
    wiring = Wiring(system)
    found = wiring.ports(0, np.arange(system.devices)).reshape(4, inside) - wiring.firsts[0]
    assert (found == 2 * (np.array(of_devices) + ports * np.arange(4)[:, None])).all()
    assert wiring.firsts[1] - wiring.firsts[0] == 2 * 4 * ports
    assert wiring.name(2 * ports + 1) == "node1/port0 in"
    assert read(describe_system(system)) == system
    dead = system.with_faults([Fault((2,), share=0.5, port=ports - 1)])
    slow = np.flatnonzero(Wiring(dead).bandwidths < wiring.bandwidths)
    assert [wiring.name(link) for link in slow] == [
        f"node2/port{ports - 1} out",
        f"node2/port{ports - 1} in",
    ]


def test_ports_of_which_the_last_serves_too_few_are_refused() -> None:
    """Two NICs for eight GPUs: five of them are four and one, which no description says."""
    links = (Link(Domain.SWITCH, 1e9, 0.0, 2), Link(Domain.SWITCH, 1e9, 0.0))
    system = System("two", "", Hierarchy.of(node=4, gpu=8), links, 1e12)
    assert reshape_system(system, (4, 7)).blocks(0) == 2
    with pytest.raises(InputError, match="5 devices of which every 4 share a port; take a number"):
        reshape_system(system, (4, 5))
