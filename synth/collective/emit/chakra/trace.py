"""Chakra execution traces and ASTRA-sim's inputs for the machine: a second opinion on prices.

Each device has a trace (``trace.<device>.et``): GlobalMetadata, then Nodes, each message after its
length, chained by ``data_deps``. Ranks are devices, whatever the options' rank order: ASTRA-sim
reads a rank as a position in the network, innermost dimension fastest, as devices are numbered.

Sources:

* messages and field numbers: mlcommons/chakra schema/protobuf/et_def.proto @ 6dc63e14;
* attributes read (is_cpu_op, comm_type, comm_size, pg_name, involved_dim, num_ops, tensor_size),
  all-reduce, all-gather, reduce-scatter and all-to-all only (a broadcast is replayed, not priced),
  groups by whole numbers from 1: astra-sim/astra-sim astra-sim/workload/Workload.cc @ 0383c203;
* a group runs one ring in its order, the whole machine and ``involved_dim`` the algorithms of
  system.json per dimension: astra-sim/system/CommunicatorGroup.cc @ 0b0a1de0, Sys.cc @ 013fe678;
* an all-gather's size is that of a member's initial piece, an all-to-all's that of all blocks it
  sends: native_collectives/.../Ring.cc @ 7c775188;
* GB are 2**30 bytes, dimensions have at least 2 NPUs, a switch has 2 hops, a message pays for the
  innermost dimension in which its ends differ: astra-sim/astra-network-analytical
  common/NetworkFunction.cc @ 0f6d65e7, NetworkParser.cc, Switch.cc, MultiDimTopology.cc @ 047ef653;
* memory in units of 10**9 bytes, operations in units of 10**12: Sys.cc @ 013fe678.

ASTRA-sim's bandwidth is per device. A child's ports carry the traffic of all its devices, so a
device has ``bandwidth * ports / devices of the child`` (a block of devices shares a port evenly);
one link of a ring or mesh of children is shared by all devices of a child, a bus by all devices of
the parent. That is exact where all devices take part, which holds here: programs with idle devices
need a reduce or a broadcast, which are refused. A switch's latency is split over its two hops. A
switch (or bus) shared by several axes is written as one dimension for each axis if groups over
several levels cannot be written otherwise: a message costs the same. Transposes are compute nodes
that read and write the buffer, one operation a byte, priced by the roofline at memory bandwidth.
run.txt lists where ASTRA-sim's model differs from our simulator's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from grammar import Collective
from hierarchies import Devices, Domain, InputError, Link, System
from synth.collective.emit.buffers import follow_buffers
from synth.collective.emit.chakra.protobuf import (
    encode_bytes,
    encode_delimited,
    encode_integer,
    encode_packed,
)
from synth.collective.emit.mesh import mesh
from synth.collective.emit.source import (
    CannotExpressError,
    EmitSource,
    Files,
    inexpressible_error,
    step_number,
)
from synth.collective.semantics.schedule import Exchange, Transpose

PREFIX = "trace"
VERSION = "0.0.4"
_COMPUTE, _COLLECTIVE = 4, 7
_TYPES = {
    Collective.ALL_REDUCE: 0,
    Collective.ALL_GATHER: 2,
    Collective.ALL_TO_ALL: 6,
    Collective.REDUCE_SCATTER: 7,
}
_TOPOLOGIES = {
    Domain.SWITCH: "Switch",
    Domain.RING: "Ring",
    Domain.TORUS: "Ring",
    Domain.MESH: "FullyConnected",
    Domain.BUS: "Switch",
}
_MOST_GROUPS = (2**31 - 1) // 1_000_000
"""ASTRA-sim numbers a group's messages starting at its name times a million, in 32 bits."""


def write(source: EmitSource) -> Files:
    """Returns the traces of all devices and the other inputs of ASTRA-sim.

    Raises CannotExpressError for a reduce or a broadcast, for an all-reduce of fewer bytes than
    members and for a machine of one device; InputError for more groups than ASTRA-sim can name.
    """
    dimensions = _dimensions(source)
    if source.system.faults:
        raise CannotExpressError(
            f"a machine whose links differ ({source.system.faults_text})", where="system"
        )
    if not dimensions:
        raise CannotExpressError("a machine of one device", where="system")
    traces = _Traces(source, dimensions)
    for number, phase in enumerate(source.schedule.phases):
        if isinstance(phase, Exchange):
            traces.exchange(number, phase)
        else:
            traces.transpose(number, phase)
    if len(traces.names) > _MOST_GROUPS:
        raise InputError(
            f"{len(traces.names)} groups", where="chakra", hint=f"at most {_MOST_GROUPS} have names"
        )
    groups = {str(name): list(group) for group, name in traces.names.items()}
    return {
        **{f"{PREFIX}.{device}.et": trace for device, trace in enumerate(traces.files())},
        "comm_groups.json": json.dumps(groups) + "\n",
        "network.yml": json.dumps(_network(source.system, dimensions), indent=2) + "\n",
        "system.json": json.dumps(_system(source.system, dimensions), indent=2) + "\n",
        "remote_memory.json": '{"memory-type": "NO_MEMORY_EXPANSION"}\n',
        "run.txt": _run(source, dimensions, traces.notes),
    }


@dataclass(frozen=True)
class Dimension:
    """A dimension of ASTRA-sim's network: a level, or one axis's part of it."""

    level: int
    size: int
    link: Link

    @property
    def topology(self) -> str:
        return _TOPOLOGIES[self.link.domain]

    @property
    def hop_seconds(self) -> float:
        return self.link.latency_seconds / (2 if self.topology == "Switch" else 1)


Dimensions = tuple[Dimension, ...]
"""Innermost (fastest) first, as devices are numbered. Dimensions of size 1 are left out."""


def _dimensions(source: EmitSource) -> Dimensions:
    """Returns the levels; switches are split by axes if groups only partly fill several levels."""
    system, schedule = source.system, source.schedule
    counts = enumerate(zip(system.hierarchy.cardinalities, system.links, strict=True))
    whole = tuple(Dimension(level, size, link) for level, (size, link) in counts if size > 1)[::-1]
    exchanges = [phase for phase in schedule.phases if isinstance(phase, Exchange)]
    if not any(_route(phase.groups, system, whole).note for phase in exchanges):
        return whole
    found: list[Dimension] = []
    axes = mesh(source.placement).axes
    for dimension in whole:
        parts = [axis.size for axis in axes if axis.level == dimension.level][::-1]
        sizes = parts if dimension.topology == "Switch" else [dimension.size]
        found += [replace(dimension, size=size) for size in sizes]
    return tuple(found)


class _Traces:
    """The nodes of every device, written phase by phase; each depends on the previous."""

    def __init__(self, source: EmitSource, dimensions: Dimensions) -> None:
        devices = source.schedule.devices
        self._source = source
        self._dimensions = dimensions
        self._sizes = source.schedule.padded_bytes // np.maximum(
            follow_buffers(source.schedule).parts, 1
        )
        self._written: list[list[bytes]] = [
            [encode_delimited(encode_bytes(1, VERSION))] for _ in range(devices)
        ]
        self._previous = [0] * devices
        self.names: dict[tuple[int, ...], int] = {}
        self.notes: list[str] = []

    def files(self) -> list[bytes]:
        return [b"".join(nodes) for nodes in self._written]

    def exchange(self, number: int, phase: Exchange) -> None:
        """Appends a collective node to every member of each group."""
        if phase.collective not in _TYPES:
            why = "ASTRA-sim prices all-reduce, reduce-scatter, all-gather and all-to-all only"
            raise inexpressible_error(self._source, number, why)
        sizes = self._sizes[number][phase.groups[:, 0]]
        members = phase.groups.shape[1]
        if phase.collective is Collective.ALL_REDUCE and sizes.min() < members:
            raise inexpressible_error(
                self._source, number, f"ASTRA-sim cuts no byte for {members} members"
            )
        route = _route(phase.groups, self._source.system, self._dimensions)
        if route.note:
            step = step_number(self._source.schedule, number)
            self.notes.append(f"Step {step}, {phase.collective.value}: {route.note}")
        start = _node(number + 1, phase.collective.value, _COLLECTIVE)
        head = _attribute("is_cpu_op", 27, 0) + _attribute("comm_type", 9, _TYPES[phase.collective])
        if route.dimensions:
            head += _attribute("involved_dim", 28, encode_packed(1, route.dimensions))
        for group, size in zip(phase.groups.tolist(), sizes.tolist(), strict=True):
            attributes = head + _attribute("comm_size", 9, size)
            if not route.dimensions:
                name = self.names.setdefault(tuple(group), len(self.names) + 1)
                attributes += _attribute("pg_name", 29, str(name))
            self._append(group, number + 1, start, attributes)

    def transpose(self, number: int, phase: Transpose) -> None:
        """Appends a compute node that reads and writes the buffer once."""
        touched = 2 * phase.size_bytes
        attributes = (
            _attribute("is_cpu_op", 27, 0)
            + _attribute("num_ops", 9, touched)
            + _attribute("tensor_size", 13, touched)
        )
        start = _node(number + 1, "transpose", _COMPUTE)
        self._append(phase.devices.tolist(), number + 1, start, attributes)

    def _append(self, devices: list[int], name: int, start: bytes, attributes: bytes) -> None:
        """Appends a node to several devices, each with its own dependency."""
        encoded: dict[int, bytes] = {}
        for device in devices:
            previous = self._previous[device]
            if previous not in encoded:
                waits = encode_packed(5, [previous] if previous else [])
                encoded[previous] = encode_delimited(start + waits + attributes)
            self._written[device].append(encoded[previous])
            self._previous[device] = name


def _node(name: int, what: str, kind: int) -> bytes:
    """Encodes the fields before a node's dependencies; node ids count phases from 1."""
    return encode_integer(1, name) + encode_bytes(2, f"{name} {what}") + encode_integer(3, kind)


def _attribute(name: str, field: int, value: int | str | bytes) -> bytes:
    """Encodes an attribute; its type's field: 9 int64, 13 uint64, 27 bool, 28 bools, 29 string."""
    encoded = encode_integer(field, value) if isinstance(value, int) else encode_bytes(field, value)
    return encode_bytes(10, encode_bytes(1, name) + encoded)


@dataclass(frozen=True)
class _Route:
    """The members of a group: by dimensions, or, if empty, by a named group."""

    dimensions: tuple[bool, ...] = ()
    note: str = ""


def _route(groups: Devices, system: System, dimensions: Dimensions) -> _Route:
    """Returns a named group (one ring) for all devices or within a level; else whole dimensions."""
    places = np.unravel_index(groups, [dimension.size for dimension in reversed(dimensions)])
    varies = [bool((place != place[:, :1]).any()) for place in places][::-1]
    crossed = [dimension for dimension, used in zip(dimensions, varies, strict=True) if used]
    levels = sorted({dimension.level for dimension in crossed})
    members = groups.shape[1]
    has_mesh = any(dimension.link.domain is Domain.MESH for dimension in crossed)
    if members == system.devices or (len(levels) == 1 and not has_mesh):
        return _Route()
    whole = members == prod(dimension.size for dimension in crossed)
    if whole and groups.size == system.devices:
        return _Route(tuple(varies))
    names = ", ".join(system.hierarchy.names[level] for level in levels)
    if len(levels) == 1:
        return _Route(note=f"one ring in part of the mesh {names} uses one link of each device.")
    return _Route(
        note=f"groups fill no whole levels of {names}; each message of their ring pays for the "
        "innermost level in which its ends differ, which is too little."
    )


def _network(system: System, dimensions: Dimensions) -> dict[str, object]:
    """Returns JSON, which is also YAML: analytical backends read either, by version."""
    speeds = [device_bytes_per_second(system, dimension.level) for dimension in dimensions]
    return {
        "topology": [dimension.topology for dimension in dimensions],
        "npus_count": [dimension.size for dimension in dimensions],
        "bandwidth": [speed / 2**30 for speed in speeds],
        "latency": [round(dimension.hop_seconds * 1e9, 6) for dimension in dimensions],
    }


def device_bytes_per_second(system: System, level: int) -> float:
    """Returns the rate at which each device can send at a level while all others send."""
    bandwidth = system.port_bytes_per_second(level) / system.block(level)
    if system.links[level].domain is Domain.BUS:
        return bandwidth / system.hierarchy.cardinalities[level]
    return bandwidth


def _system(system: System, dimensions: Dimensions) -> dict[str, object]:
    """Returns settings: one chunk at a time without overlap, as simulated; otherwise usual."""
    domains = [dimension.link.domain for dimension in dimensions]
    algorithms = ["direct" if domain is Domain.MESH else "ring" for domain in domains]
    memory = system.memory_bytes_per_second / 1e9
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "all-reduce-implementation": algorithms,
        "all-gather-implementation": algorithms,
        "reduce-scatter-implementation": algorithms,
        "all-to-all-implementation": algorithms,
        "collective-optimization": "localBWAware",
        "local-mem-bw": memory,
        "peak-perf": ceil(memory),
        "roofline-enabled": 1,
        "boost-mode": 0,
    }


_COMMAND = f"""\
AstraSim_Analytical_Congestion_Unaware \\
  --workload-configuration={PREFIX} \\
  --comm-group-configuration=comm_groups.json \\
  --system-configuration=system.json \\
  --network-configuration=network.yml \\
  --remote-memory-configuration=remote_memory.json
"""


def _run(source: EmitSource, dimensions: Dimensions, notes: list[str]) -> str:
    """Returns the command, and where its result differs from our simulator's."""
    system = source.system
    links = [dimension.link for dimension in dimensions]
    domains = {link.domain for link in links}
    remarks = [
        "network.yml lists the innermost level first, per device, in units of 2**30 bytes.",
        "Adding up waits for memory, which we take to overlap; endpoint-delay is ASTRA-sim's own.",
        "Transposes are compute nodes; peak-perf only keeps them limited by memory.",
        *notes,
    ]
    if domains & {Domain.RING, Domain.TORUS}:
        remarks.append("Rings use one direction only: expect half of the predicted bandwidth.")
    if not all(link.wraps for link in links):
        remarks.append(
            "A line or grid is written as a ring or torus: ASTRA-sim has no other topology."
        )
    if Domain.BUS in domains:
        remarks.append("A bus is written as a switch of which every device has an equal share.")
    if any(link.through for link in links):
        remarks.append("Traffic that passes through inner links does not load them here.")
    return "\n".join(
        [
            f"{source.options.made_by}: {source.schedule.program}",
            f"on {system.name}, {source.schedule.payload_bytes} bytes on each device",
            f"collsynth's simulator says {source.seconds * 1e9:.0f} ns.",
            "",
            _COMMAND,
            *remarks,
            "",
        ]
    )
