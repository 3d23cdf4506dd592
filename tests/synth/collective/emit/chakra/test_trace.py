"""Traces are read back by the protobuf runtime, through a schema built here by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from grammar import Collective, Goal, Program, parse
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    Placement,
    Reduction,
    System,
    load,
    placements,
)
from strategies import reductions, source, switches, valid_programs
from synth.collective.emit.buffers import follow_buffers
from synth.collective.emit.chakra.protobuf import encode_delimited, encode_varint
from synth.collective.emit.chakra.trace import device_bytes_per_second, write
from synth.collective.emit.source import CannotExpressError, EmitSource, Files
from synth.collective.semantics.schedule import Exchange, Transpose

HOUSE = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
PRICED = {
    Collective.ALL_REDUCE: 0,
    Collective.ALL_GATHER: 2,
    Collective.ALL_TO_ALL: 6,
    Collective.REDUCE_SCATTER: 7,
}
FIELDS = {
    "BoolList": [("values", 1, "bool", "many")],
    "AttributeProto": [
        ("name", 1, "string", ""),
        ("int64_val", 9, "int64", "value"),
        ("uint64_val", 13, "uint64", "value"),
        ("bool_val", 27, "bool", "value"),
        ("bool_list", 28, ".m.BoolList", "value"),
        ("string_val", 29, "string", "value"),
    ],
    "GlobalMetadata": [("version", 1, "string", ""), ("attr", 2, ".m.AttributeProto", "many")],
    "Node": [
        ("id", 1, "uint64", ""),
        ("name", 2, "string", ""),
        ("type", 3, "int32", ""),
        ("ctrl_deps", 4, "uint64", "many"),
        ("data_deps", 5, "uint64", "many"),
        ("attr", 10, ".m.AttributeProto", "many"),
    ],
}


@cache
def messages() -> dict[str, Any]:
    """The classes of Chakra's et_def.proto, as far as traces use them."""
    proto = descriptor_pb2.FileDescriptorProto(name="et.proto", package="m", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in FIELDS.items():
        message = proto.message_type.add(name=name)
        for field, number, kind, role in fields:
            made = message.field.add(name=field, number=number)
            made.label = kinds.LABEL_REPEATED if role == "many" else kinds.LABEL_OPTIONAL
            if kind.startswith("."):
                made.type, made.type_name = kinds.TYPE_MESSAGE, kind
            else:
                made.type = getattr(kinds, f"TYPE_{kind.upper()}")
            if role == "value":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    found = (pool.FindMessageTypeByName(f"m.{name}") for name in FIELDS)
    return {kind.name: message_factory.GetMessageClass(kind) for kind in found}


def read(trace: bytes) -> tuple[Any, list[Any]]:
    """The metadata and the nodes of a trace; every byte of it must be understood."""
    pieces = []
    while trace:
        length, used = 0, 0
        while True:
            length |= (trace[used] & 0x7F) << 7 * used
            used += 1
            if trace[used - 1] < 0x80:
                break
        assert len(trace) >= used + length
        pieces.append(trace[used : used + length])
        trace = trace[used + length :]
    known = messages()
    found = [known["GlobalMetadata" if n == 0 else "Node"]() for n in range(len(pieces))]
    for message, piece in zip(found, pieces, strict=True):
        message.ParseFromString(piece)
        assert message.SerializeToString(deterministic=True) == piece, "fields unknown or unsorted"
    return found[0], found[1:]


def nodes_of(files: Files, device: int) -> list[Any]:
    trace = files[f"trace.{device}.et"]
    assert isinstance(trace, bytes)
    metadata, nodes = read(trace)
    assert metadata.version
    return nodes


def attributes(node: Any) -> dict[str, Any]:
    found = {}
    for attr in node.attr:
        kind = attr.WhichOneof("value")
        assert kind, attr
        value = getattr(attr, kind)
        found[attr.name] = list(value.values) if kind == "bool_list" else value
    return found


def check(made: EmitSource) -> None:
    """Every trace says exactly what the schedule has its device do."""
    files = write(made)
    schedule = made.schedule
    named = json.loads(files["comm_groups.json"])
    assert list(named) == [str(n + 1) for n in range(len(named))]
    held = follow_buffers(schedule).parts
    counts = json.loads(files["network.yml"])["npus_count"]
    for device in range(schedule.devices):
        nodes = nodes_of(files, device)
        mine = [n for n, phase in enumerate(schedule.phases) if device in members(phase)]
        assert [node.id for node in nodes] == [number + 1 for number in mine]
        chain = [[], *([number + 1] for number in mine)][: len(nodes)]
        assert [list(node.data_deps) for node in nodes] == chain
        for number, node in zip(mine, nodes, strict=True):
            phase, said = schedule.phases[number], attributes(node)
            assert said["is_cpu_op"] is False
            if isinstance(phase, Transpose):
                assert node.type == 4
                assert said["num_ops"] == said["tensor_size"] == 2 * phase.size_bytes
                continue
            (group,) = (group for group in phase.groups.tolist() if device in group)
            assert node.type == 7
            assert said["comm_type"] == PRICED[phase.collective]
            assert said["comm_size"] == schedule.padded_bytes // held[number][device]
            spread = len(group) if phase.collective is Collective.ALL_GATHER else 1
            assert said["comm_size"] * spread == phase.size_bytes
            if "pg_name" in said:
                assert named[said["pg_name"]] == group
            else:
                assert along(said["involved_dim"], counts, device) == sorted(group)


def members(phase: Any) -> set[int]:
    held = phase.groups if isinstance(phase, Exchange) else phase.devices
    return set(held.reshape(-1).tolist())


def along(involved: list[bool], counts: list[int], device: int) -> list[int]:
    """The devices that differ from one only in these dimensions, the first the fastest."""

    def digits(rank: int) -> list[int]:
        found = []
        for count in counts:
            rank, digit = divmod(rank, count)
            found.append(digit)
        return found

    assert len(involved) == len(counts)
    mine = digits(device)
    return [
        rank
        for rank in range(prod(counts))
        if all(a == b or free for a, b, free in zip(digits(rank), mine, involved, strict=True))
    ]


@given(st.data(), reductions())
def test_traces_match_the_schedule(data: st.DataObject, reduction: Reduction) -> None:
    if len(reduction.tree.digits) > 3:
        return
    goal = data.draw(st.sampled_from([Goal.ALL_REDUCE, *Goal]))
    made = source(data.draw(valid_programs(reduction.tree, goal)), reduction, goal=goal)
    told = {phase.collective for phase in made.schedule.phases if isinstance(phase, Exchange)}
    if told <= set(PRICED) and made.schedule.devices > 1:
        check(made)
    else:
        with pytest.raises(CannotExpressError):
            write(made)


def test_sizes_add_up_for_the_house_program() -> None:
    made = source(HOUSE, plain(node=4, gpu=8), 2**26)
    check(made)
    nodes = nodes_of(write(made), 9)
    assert [attributes(node)["comm_size"] for node in nodes] == [2**26, 2**23, 2**23]
    assert [node.name for node in nodes] == ["1 reduce-scatter", "2 all-reduce", "3 all-gather"]


def plain(**levels: int) -> Reduction:
    """One axis over the whole of a machine."""
    hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels.items()))
    axis = Axis("data", hierarchy.devices)
    return Reduction(next(iter(placements(hierarchy, (axis,)))), ("data",))


def test_a_group_has_one_name_in_all_steps() -> None:
    named = json.loads(write(source(HOUSE, plain(node=2, gpu=3)))["comm_groups.json"])
    assert named == {"1": [0, 1, 2], "2": [3, 4, 5], "3": [0, 3], "4": [1, 4], "5": [2, 5]}


def test_whole_levels_are_printed_as_dimensions() -> None:
    text = "reduce-scatter pod inside; all-reduce pod parallel; all-gather pod inside"
    made = source(text, plain(pod=2, node=2, gpu=2))
    check(made)
    nodes = nodes_of(write(made), 0)
    said = [attributes(node) for node in nodes]
    assert said[0]["involved_dim"] == [True, True, False]
    assert "pg_name" not in said[0]
    assert said[1]["pg_name"] == "1"


def test_rooted_collectives_are_refused() -> None:
    text = "reduce node inside; all-reduce node master; broadcast node inside"
    with pytest.raises(CannotExpressError, match="step 1: reduce: ASTRA-sim prices"):
        write(source(text, plain(node=2, gpu=2)))


def test_a_byte_is_not_cut() -> None:
    with pytest.raises(CannotExpressError, match="cuts no byte for 4 members"):
        write(source("all-reduce root inside", plain(gpu=4), 3))


def test_a_machine_of_one_device_is_refused() -> None:
    with pytest.raises(CannotExpressError, match="one device"):
        write(source(Program(()), plain(gpu=1)))


def test_more_groups_than_names_are_refused() -> None:
    with pytest.raises(InputError, match="groups"):
        write(source("all-reduce node inside; all-reduce node parallel", plain(node=2, gpu=2150)))


def machine(*links: Link, sizes: tuple[int, ...]) -> System:
    names = ("pod", "node", "gpu")[-len(sizes) :]
    levels = tuple(Level(name, size) for name, size in zip(names, sizes, strict=True))
    return System("m", "", Hierarchy(levels), links, 1e12)


def on(system: System, text: str) -> EmitSource:
    made = source(
        text,
        plain(**dict(zip(system.hierarchy.names, system.hierarchy.cardinalities, strict=True))),
    )
    return EmitSource(made.schedule, system, made.prices, made.verdict)


@pytest.mark.parametrize("ports", [1, 2, 4, 8, 32])
def test_all_devices_of_a_child_share_its_ports(ports: int) -> None:
    system = machine(
        Link(Domain.SWITCH, 50e9, 2e-6, ports), Link(Domain.SWITCH, 400e9, 1e-6), sizes=(2, 8)
    )
    assert device_bytes_per_second(system, 0) == 50e9 * ports / 8
    assert device_bytes_per_second(system, 1) == 400e9
    network = json.loads(write(on(system, HOUSE))["network.yml"])
    assert network["topology"] == ["Switch", "Switch"]
    assert network["npus_count"] == [8, 2]
    assert network["bandwidth"] == [400e9 / 2**30, 50e9 * ports / 8 / 2**30]
    assert network["latency"] == pytest.approx([500, 1000])


def test_each_kind_of_domain_is_described() -> None:
    rest = Link(Domain.SWITCH, 100e9, 1e-6)
    for domain, ports, topology, share, hops in (
        (Domain.RING, 1, "Ring", 1 / 4, 1),
        (Domain.TORUS, 4, "Ring", 1, 1),
        (Domain.MESH, 1, "FullyConnected", 1 / 4, 1),
        (Domain.BUS, 1, "Switch", 1 / 12, 2),
    ):
        system = machine(Link(domain, 60e9, 2e-6, ports), rest, sizes=(3, 4))
        files = write(on(system, HOUSE))
        network = json.loads(files["network.yml"])
        assert network["topology"] == ["Switch", topology]
        assert network["bandwidth"][1] == pytest.approx(60e9 * share / 2**30)
        assert network["latency"][1] == pytest.approx(2000 / hops)
        ways = json.loads(files["system.json"])["all-reduce-implementation"]
        assert ways == ["ring", "direct" if domain is Domain.MESH else "ring"]


def seconds_by_astra_sim(files: Files, device: int) -> float:
    """ASTRA-sim's congestion-unaware arithmetic for named groups, told again.

    Every message of a ring pays two hops of a switch and its bytes in units of 2**30; if it is
    added up, three times its bytes in memory.
    """
    network, system = json.loads(files["network.yml"]), json.loads(files["system.json"])
    named = json.loads(files["comm_groups.json"])
    total = 0.0
    for node in nodes_of(files, device):
        said = attributes(node)
        group = named[said["pg_name"]]
        dimension = 0 if group[1] - group[0] == 1 else 1
        assert network["topology"][dimension] == "Switch"
        others = len(group) - 1
        messages, added = {0: (2, 1), 2: (1, 0), 7: (1, 1)}[said["comm_type"]]
        size = said["comm_size"] / (1 if said["comm_type"] == 2 else len(group))
        sent = size / (network["bandwidth"][dimension] * 2**30 / 1e9)
        way = 2 * network["latency"][dimension] + sent
        total += others * (messages * way + added * 3 * size / system["local-mem-bw"])
    return total * 1e-9


def test_astra_sim_reproduces_its_stored_results() -> None:
    """A run of ASTRA-sim itself (ce9de92) took 976,972 ns for this program, machine and payload.

    Its memory was not written down; with the 3350 GB/s of ASTRA-sim's H100 example the sum fits.
    """
    system = replace(
        machine(
            Link(Domain.SWITCH, 25 * 2**30, 10e-6, 8),
            Link(Domain.SWITCH, 300 * 2**30, 1.8e-6),
            sizes=(4, 8),
        ),
        memory_bytes_per_second=3350e9,
    )
    made = source(HOUSE, plain(node=4, gpu=8), 2**26)
    files = write(EmitSource(made.schedule, system, made.prices, made.verdict))
    network = json.loads(files["network.yml"])
    assert network["bandwidth"] == [300, 25]
    assert network["latency"] == [900, 5000]
    assert seconds_by_astra_sim(files, 13) == pytest.approx(976_972e-9, rel=1e-3)


def test_levels_of_one_child_are_no_dimensions() -> None:
    network = json.loads(write(source(HOUSE, plain(pod=1, node=2, gpu=4)))["network.yml"])
    assert network["npus_count"] == [4, 2]


def shared(domain: Domain) -> EmitSource:
    """An axis on two levels that shares the inner one with another axis."""
    system = machine(Link(Domain.SWITCH, 1e9, 1e-6), Link(domain, 1e10, 1e-6), sizes=(2, 4))
    axes = (Axis("data", 4), Axis("model", 2))
    placement = Placement(system.hierarchy, axes, ((2, 2), (1, 2)))
    made = source("all-reduce root inside", Reduction(placement, ("data",)))
    return EmitSource(made.schedule, system, made.prices, made.verdict)


def test_a_switch_that_axes_share_has_a_dimension_for_each() -> None:
    made = shared(Domain.SWITCH)
    check(made)
    files = write(made)
    assert json.loads(files["network.yml"])["npus_count"] == [2, 2, 2]
    (node,) = nodes_of(files, 0)
    assert attributes(node)["involved_dim"] == [False, True, True]


def test_differences_from_astra_sim_are_reported() -> None:
    made = shared(Domain.RING)
    check(made)
    text = str(write(made)["run.txt"])
    assert "Step 1, all-reduce: groups fill no whole levels of node, gpu" in text
    assert "one direction only" in text
    bus = machine(Link(Domain.BUS, 1e9, 1e-6), sizes=(4,))
    assert "an equal share" in str(write(on(bus, "all-reduce root inside"))["run.txt"])


@pytest.mark.parametrize("name", ["dgx-h100:4", "tpu-v4-pod-slice", "mi300x:4", "l40s-pcie"])
def test_known_machines_have_inputs(name: str) -> None:
    system = load(name)
    (axis,) = [Axis("data", system.devices)]
    (placement,) = placements(system.hierarchy, (axis,))
    made = source("all-reduce root inside", Reduction(placement, ("data",)))
    files = write(EmitSource(made.schedule, system, made.prices, made.verdict))
    network = json.loads(files["network.yml"])
    assert prod(network["npus_count"]) == system.devices
    assert all(value > 0 for value in network["bandwidth"])
    assert len(files) == system.devices + 5


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_read_back(number: int) -> None:
    node = messages()["Node"]
    assert node.FromString(b"\x08" + encode_varint(number)).id == number
    assert encode_delimited(encode_varint(number))[0] == len(encode_varint(number))


def test_programs_are_spelled_in_the_run_notes() -> None:
    text = str(write(source(HOUSE, plain(node=2, gpu=2)))["run.txt"])
    assert str(parse(HOUSE)) in text
    assert "--comm-group-configuration=comm_groups.json" in text
    assert switches(plain(node=2, gpu=2).placement.hierarchy).name in text
