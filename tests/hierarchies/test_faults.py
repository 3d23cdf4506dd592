"""What a system lacks: names of units, ports and cables, the TOML, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import (
    Domain,
    Hierarchy,
    InputError,
    System,
    describe_system,
    load,
    parse_fault,
    read,
)
from strategies import hierarchies, switches, systems

TEXT = """\
name = "mine"

[device]
name = "a device"
memory_GB_per_s = 2000
source = "measured"

[[level]]
name = "node"
count = 4
domain = "switch"
bandwidth_GB_per_s = 50
latency_us = 14.0
ports = 4
through = []
source = "measured"

[[level]]
name = "gpu"
count = 4
domain = "switch"
bandwidth_GB_per_s = 300
latency_us = 1
source = "measured"
"""


@given(hierarchies(), st.data())
def test_a_printed_name_is_read_back(hierarchy: Hierarchy, data: st.DataObject) -> None:
    device = data.draw(st.integers(0, hierarchy.devices - 1))
    path = hierarchy.digits(device)[: data.draw(st.integers(1, len(hierarchy.levels)))]
    name = "/".join(f"{n}{d}" for n, d in zip(hierarchy.names, path, strict=False))
    fault = parse_fault(name, hierarchy)
    assert (fault.path, fault.missing, fault.name(hierarchy)) == (path, True, name)


@given(systems(12), st.data())
def test_devices_that_are_missing_are_those_of_the_unit(
    system: System, data: st.DataObject
) -> None:
    device = data.draw(st.integers(0, system.devices - 1))
    path = system.hierarchy.digits(device)
    name = "/".join(f"{n}{d}" for n, d in zip(system.hierarchy.names, path, strict=True))
    if system.devices == 1:
        with pytest.raises(InputError, match="no device is left"):
            system.with_faults([parse_fault(name, system.hierarchy)])
        return
    left = system.with_faults([parse_fault(name, system.hierarchy)])
    assert left.devices - len(left.missing) == system.devices - 1


def test_nic_and_port_are_one() -> None:
    hierarchy = load("dgx-h100:4").hierarchy
    assert parse_fault("node3/nic2", hierarchy) == parse_fault("node3/port2", hierarchy)


def test_without_whole_outer_units_a_machine_is_the_smaller_one() -> None:
    system = load("dgx-h100:4")
    less = system.with_faults(
        [parse_fault("node1", system.hierarchy), parse_fault("node3/nic2", system.hierarchy, 0.5)]
    )
    assert less.hierarchy == load("dgx-h100:3").hierarchy
    assert less.faults_text == "node2/port2 at 0.5 of its bandwidth"
    assert less.missing == ()


def test_unchanged_speed_is_not_a_fault() -> None:
    system = load("dgx-h100:4")
    assert system.with_faults([parse_fault("node3", system.hierarchy, 1.0)]) == system


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["rack0"], "no unit 'rack0'"),
        (["node4"], "node0 to node3"),
        (["node0/gpu4"], "gpu0 to gpu3"),
        (["node0/gpu0/core1"], "inside of a device"),
        (["node0/nic4"], "ports are 0 to 3"),
        (["node0/gpu0-gpu1"], "they stand in a switch"),
        (["node"], "here stands node and a number"),
        (["node0/gpu0/nic0"], "take it out: node0/gpu0"),
        ([f"node0/nic{port}" for port in range(4)], "take it out: node0"),
        (["node0", "node0"], "named twice"),
        (["node0", "node0/gpu1"], "part of a unit that is missing"),
        ([f"node{n}" for n in range(4)], "no device is left"),
    ],
)
def test_what_cannot_be_missing_is_refused(names: list[str], told: str) -> None:
    system = read(TEXT)
    with pytest.raises(InputError, match=told):
        system.with_faults([parse_fault(name, system.hierarchy) for name in names])


def test_exceptions_of_a_description() -> None:
    system = read(
        TEXT
        + '[[exception]]\nunit = "node3/gpu2"\nmissing = true\n'
        + '[[exception]]\nunit = "node1/nic0"\nbandwidth_share = 0.5\nsource = "ibdiagnet"\n'
    )
    assert system.missing == (14,)
    assert system.faults_text == "without node3/gpu2, node1/port0 at 0.5 of its bandwidth"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('unit = "node9"\nmissing = true', "line 29, exception 2: no unit 'node9'"),
        ('unit = "node1"', "line 29, exception 2: node1 is as it should be"),
        ('unit = "node1"\nbandwidth_share = 0.0\nsource = "x"', "bandwidth_share = 0.0"),
        ('unit = "node1"\nbandwidth_share = 1.5\nsource = "x"', "bandwidth_share = 1.5"),
        ('unit = "node1"\nbandwidth_share = nan\nsource = "x"', "bandwidth_share = nan"),
        ('unit = "node1"\nbandwidth_share = 0.5', "no 'source'"),
        ('unit = "node0"\nmissing = true', "line 29, exception 2: node0 is named twice"),
        ('unit = "node1"\nlost = true', "line 29, exception 2: unknown key 'lost'"),
        ("missing = true", "line 29, exception 2: no 'unit'"),
        ('unit = "node1"\nmissing = 1', "line 29, exception 2: missing = 1"),
    ],
)
def test_a_wrong_exception_is_reported_with_its_line(text: str, told: str) -> None:
    first = '[[exception]]\nunit = "node0"\nmissing = true\n\n'
    with pytest.raises(InputError) as error:
        read(f"{TEXT}{first}[[exception]]\n{text}\n", where="my.toml")
    assert str(error.value).startswith("my.toml")
    assert told in str(error.value)


def test_a_cable_of_a_ring_can_be_slow_but_not_missing() -> None:
    ring = read(TEXT.replace('domain = "switch"\nbandwidth_GB_per_s = 300',
                             'domain = "ring"\nbandwidth_GB_per_s = 300'))  # fmt: skip
    assert ring.links[1].domain is Domain.RING
    slow = ring.with_faults([parse_fault("node2/gpu3-gpu0", ring.hierarchy, 0.5)])
    assert slow.faults_text == "node2/gpu0-gpu3 at 0.5 of its bandwidth"
    with pytest.raises(InputError, match="cannot be missing"):
        ring.with_faults([parse_fault("node2/gpu0-gpu1", ring.hierarchy)])
    with pytest.raises(InputError, match="no cable"):
        ring.with_faults([parse_fault("node2/gpu0-gpu2", ring.hierarchy, 0.5)])


def test_systems_with_missing_devices_are_refused_by_verbs_that_need_all() -> None:
    system = switches(Hierarchy.of(node=2, gpu=2))
    assert system.check_even() is system
    with pytest.raises(InputError, match="lacks 1 of 4 devices"):
        system.with_faults([parse_fault("node0/gpu1", system.hierarchy)]).check_even()


@pytest.mark.parametrize("names", [["node3/gpu5"], ["node1/port2", "node0"], ["node2/gpu1"]])
def test_a_system_is_written_with_what_it_lacks(names: list[str]) -> None:
    healthy = load("dgx-h100:4")
    slow = parse_fault("node2/port1", healthy.hierarchy, 0.25, "a test")
    lacking = [parse_fault(name, healthy.hierarchy, 0.0, "seen") for name in names]
    system = healthy.with_faults([*lacking, slow])
    again = read(describe_system(system))
    assert again.faults == system.faults
    assert (again.devices, again.missing) == (system.devices, system.missing)
