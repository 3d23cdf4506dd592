"""Drafts of the devices that JAX lists: slices of TPU chips in a torus, or processes of GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from hierarchies.errors import InputError
from hierarchies.files.loading import load
from hierarchies.importers import structured
from hierarchies.importers.contents import Contents, Unit
from hierarchies.importers.draft import Blank, Draft, DraftLevel, ImportOptions, StatedValue
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.nccl_rates import NETWORK
from hierarchies.importers.networks.networks import check_nodes
from hierarchies.importers.structured import BEGINNING, parse_json

SNIPPET = """\
import jax, json
print(json.dumps([(d.id, d.process_index, d.device_kind, getattr(d, "coords", None),
                   getattr(d, "core_on_chip", None), getattr(d, "slice_index", None))
                  for d in jax.devices()]))"""

MOST_DEVICES = 10**6
_FIELDS = ("id", "process_index", "device_kind", "coords", "core_on_chip", "slice_index")
_SOURCE = "jax.devices()"
_KNOWN = {
    "TPU v4": "tpu-v4-pod-slice",
    "TPU v5 lite": "tpu-v5e-slice",
    "TPU v5e": "tpu-v5e-slice",
    "TPU v5": "tpu-v5p-slice",
    "TPU v5p": "tpu-v5p-slice",
    "TPU v6 lite": "tpu-v6e-slice",
    "TPU v6e": "tpu-v6e-slice",
}


@dataclass(frozen=True)
class JaxDevice:
    """One device of JAX's list; ``coords`` are x, y, z, empty if it has none."""

    id: int
    process: int
    kind: str
    coords: tuple[int, ...]
    core: int
    slice: int


def check_beginning(text: str) -> None:
    """Raise InputError for a text that does not begin as a JSON list of devices."""
    structured.check_beginning(text, "[")
    if not re.match(r"\s*\[\s*[\[{]", text[:BEGINNING]):
        raise InputError("not a list of devices", hint=f"run\n{SNIPPET}")


def read(text: str, options: ImportOptions) -> Draft:
    """Return the draft of a dump. Raises InputError for devices that form no levels."""
    devices = devices_of(text)
    kinds = Counter(device.kind for device in devices)
    if len(kinds) > 1:
        raise InputError(
            f"devices of several kinds: {shorten_list(kinds)}", hint="import them separately"
        )
    dimensions = {len(device.coords) for device in devices}
    if len(dimensions) > 1:
        raise InputError("some devices have coords of a different length")
    check_nodes(len({device.process for device in devices}), options)
    return _torus(devices) if dimensions != {0} else _processes(devices)


def devices_of(text: str) -> tuple[JaxDevice, ...]:
    """Return the devices of a dump. Raises InputError for invalid JSON, and for duplicate ids."""
    entries = parse_json(text)
    if not isinstance(entries, list) or not entries:
        raise InputError("not a list of devices", hint=f"run\n{SNIPPET}")
    if len(entries) > MOST_DEVICES:
        raise InputError(f"{len(entries):,} devices", hint=f"at most {MOST_DEVICES:,} are read")
    devices = tuple(_device(entry, f"device {i + 1}") for i, entry in enumerate(entries))
    twice = [str(id) for id, count in Counter(d.id for d in devices).items() if count > 1]
    if twice:
        raise InputError(f"ids given more than once: {shorten_list(twice)}")
    return devices


def _device(entry: Any, where: str) -> JaxDevice:
    if isinstance(entry, dict):
        entry = [entry.get(field) for field in _FIELDS]
    if not isinstance(entry, list) or len(entry) != len(_FIELDS):
        raise InputError(
            f"a device is not {len(_FIELDS)} values", where=where, hint=", ".join(_FIELDS)
        )
    id, process, kind, coords, core, slice = entry
    if not isinstance(kind, str):
        raise InputError("device_kind is not a string", where=where)
    if coords is not None and not (isinstance(coords, list) and 1 <= len(coords) <= 3):
        raise InputError("coords are not 1 to 3 numbers", where=where)
    return JaxDevice(
        _parse_whole(id, f"{where}, id"),
        _parse_whole(process, f"{where}, process_index"),
        kind,
        tuple(_parse_whole(c, f"{where}, coords") for c in coords or ()),
        _parse_whole(core or 0, f"{where}, core_on_chip"),
        _parse_whole(slice or 0, f"{where}, slice_index"),
    )


def _parse_whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
        raise InputError(f"{str(value)[:40]!r} is not a number from 0", where=where)
    return value


def _torus(devices: Sequence[JaxDevice]) -> Draft:
    """Return levels from coords: slices, then z, y and x of the chips in one slice, then cores."""
    axes = "xyz"[: len(devices[0].coords)]
    slices: dict[int, list[JaxDevice]] = {}
    for device in devices:
        slices.setdefault(device.slice, []).append(device)
    boxes = {number: _box(inside) for number, inside in slices.items()}
    shapes = Counter(boxes.values())
    if len(shapes) > 1:
        spelled = "; ".join(f"slice {n}: {_spell_box(box, axes)}" for n, box in boxes.items())
        raise InputError(
            f"slices of several shapes: {spelled[:300]}", hint="import slices of one shape"
        )
    shape = next(iter(shapes))
    kind = devices[0].kind
    levels = _levels(kind, len(slices), shape, axes)
    notes = [_WRAPS, *_order_note(devices)]
    return Draft(
        "jax-devices",
        f"{kind}: {len(slices)} slices of {_spell_box(shape, axes)}",
        levels,
        device=kind,
        memory_bytes_per_second=_memory(kind),
        notes=tuple(notes),
        counted={
            "devices": len(devices),
            "slices": len(slices),
            "chips": len({(d.slice, d.coords) for d in devices}),
            "processes": len({device.process for device in devices}),
        },
        holds_devices=True,
    )


_NO_COORDINATES = (
    "These devices have no coordinates, so the dump shows only which process has which. If "
    "several processes share a machine, a node here is a part of it."
)
_WRAPS = (
    "The dump does not say whether the ends of each dimension are connected. A torus "
    "is priced as if "
    "they were, which is too optimistic where they are not (a TPU v5e connects them "
    "only across all 16 chips, a TPU v4 where every dimension is a multiple of 4): "
    "write wraps = false there."
)


def _box(devices: Sequence[JaxDevice]) -> tuple[int, ...]:
    """Return the extents of the box that devices fill, x first, cores last.

    Raises InputError if a device is missing, or two have the same place.
    """
    places = [(*device.coords, device.core) for device in devices]
    lows = [min(column) for column in zip(*places, strict=True)]
    highs = [max(column) for column in zip(*places, strict=True)]
    extents = tuple(high - low + 1 for low, high in zip(lows, highs, strict=True))
    if len(set(places)) != len(places):
        twice = [str(place) for place, count in Counter(places).items() if count > 1]
        raise InputError(f"two devices at one place (coords and core): {shorten_list(twice)}")
    if prod(extents) != len(places):
        raise InputError(
            f"{len(places)} devices in a box of {' x '.join(map(str, extents))} (coords and core)",
            hint="a torus needs a device at every place of the box: dump all devices of the slice",
        )
    return extents


def _spell_box(box: Sequence[int], axes: str) -> str:
    cores = f" x {box[-1]} cores" if box[-1] > 1 else ""
    return " x ".join(f"{extent} {a}" for extent, a in zip(box, axes, strict=False)) + cores


def _levels(kind: str, slices: int, box: Sequence[int], axes: str) -> tuple[DraftLevel, ...]:
    levels, inside = [], prod(box)
    if slices > 1:
        levels.append(_slice_level(slices))
    for axis in reversed(range(len(axes))):
        inside //= box[axis]
        if box[axis] > 1:
            levels.append(_axis_level(kind, axes[axis], box[axis], inside))
    if box[-1] > 1:
        levels.append(_core_level(box[-1]))
    return tuple(levels) or (_axis_level(kind, "x", 1, 1),)


def _slice_level(count: int) -> DraftLevel:
    return DraftLevel(
        "slice",
        Blank("switch", "slices are connected by the data centre network"),
        Blank(source="of one host's NIC, per direction; not in the dump"),
        Blank(source="of the data centre network; not in the dump"),
        StatedValue(count, f"{_SOURCE}: slice_index"),
        Blank(source="number of NICs of all hosts of one slice"),
    )


def _axis_level(kind: str, axis: str, count: int, inside: int) -> DraftLevel:
    known = _KNOWN.get(kind)
    bandwidth, latency = Blank(source="of one link between neighbours, per direction"), Blank()
    if known:
        link = load(known).links[-1]
        origin = f"{known} of the catalogue, "
        source = link.source("bandwidth_GB_per_s", "no source")
        bandwidth = Blank(link.bandwidth_bytes_per_second, origin + source)
        latency = Blank(link.latency_seconds, origin + link.source("latency_us", "no source"))
    return DraftLevel(
        axis,
        StatedValue("torus", f"{_SOURCE}: coords"),
        bandwidth,
        latency,
        StatedValue(count, f"{_SOURCE}: coords"),
        StatedValue(inside, "every device of a torus has its own links"),
    )


def _core_level(count: int) -> DraftLevel:
    return DraftLevel(
        "core",
        Blank(
            "bus", "cores of a chip share its memory; the dump does not say how they are connected"
        ),
        Blank(source="between the cores of one chip: about its memory's bandwidth"),
        Blank(),
        StatedValue(count, f"{_SOURCE}: core_on_chip"),
    )


def _memory(kind: str) -> Blank:
    if kind not in _KNOWN:
        return Blank()
    system = load(_KNOWN[kind])
    source = f"{_KNOWN[kind]} of the catalogue, {system.memory_source}"
    return Blank(system.memory_bytes_per_second, source)


def _order_note(devices: Sequence[JaxDevice]) -> list[str]:
    """Return a note if JAX's ids are not in the order of the levels: slices, z, y, x, cores."""
    by_place = sorted(devices, key=lambda d: (d.slice, *reversed(d.coords), d.core))
    if [d.id for d in by_place] == sorted(d.id for d in devices):
        return []
    order = "which counts x fastest, then y, z and slices: order the mesh by coords, not by id."
    return [f"JAX's ids have a different order from this description's,  {order}"]


def _processes(devices: Sequence[JaxDevice]) -> Draft:
    """Return levels without coords: processes are the nodes, with equal numbers of devices."""
    counts = Counter(device.process for device in devices)
    if len(set(counts.values())) > 1:
        listed = shorten_list(f"process {process} has {n}" for process, n in counts.items())
        raise InputError(
            f"processes with different numbers of devices: {listed}",
            hint="import processes with equal numbers of devices",
        )
    source = f"{_SOURCE}: process_index"
    inside = next(iter(counts.values()))
    node = DraftLevel(
        "node",
        Blank("switch", "usual for a network of nodes"),
        Blank(source="of one NIC, per direction: 400 Gb/s are 50 GB/s"),
        NETWORK["latency_us"],
        StatedValue(len(counts), source),
        Blank(source="number of NICs of a node for this network"),
    )
    device = DraftLevel(
        "device",
        Blank(source="switch, mesh or ring: how the devices of one process are connected"),
        Blank(source="of the port of one device, per direction"),
        Blank(),
        StatedValue(inside, source),
    )
    kind = devices[0].kind
    slices = len({d.slice for d in devices})
    notes = [_NO_COORDINATES]
    if slices > 1:
        notes.append(f"slice_index has {slices} values, which were not used as a level.")
    draft = Draft(
        "jax-devices",
        f"{kind}: {len(counts)} processes of {inside} devices",
        (node, device),
        device=kind,
        notes=tuple(notes),
        counted={"devices": len(devices), "processes": len(counts)},
        models=(kind,),
        holds_devices=True,
    )
    units = tuple(Unit(f"node{number}", 1, inside) for number in range(len(counts)))
    nodes = replace(
        draft, levels=(node,), contents=Contents("node", source, units), holds_devices=False
    )
    return replace(draft, wider=nodes)
