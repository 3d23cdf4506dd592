"""A machine as boxes in boxes with its links between them, placed for a drawing; large ones folded.

The positions are ours, so the same machine always looks the same. Switches and buses are drawn as a
hub above the units they join, rings, tori and small meshes as lines between neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import ceil, log10, prod, sqrt
from typing import Any

from hierarchies import Domain
from synth.verbs.answers.machine_parts import LevelInFull, MachineException

MOST_DEVICES = 128
DEVICE, _GAP, _PAD, _HUB, _HUB_WIDTH = 46, 12, 26, 64, 150
_MOST_MESHED = 8
_HUBS = {Domain.SWITCH, Domain.BUS}
_PORT = re.compile(r"/port[0-9]+")

Json = dict[str, Any]
Path = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """Where a unit is drawn that has others inside."""

    id: str
    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Topology:
    """Nodes and edges as the drawing library takes them, the devices, and what is left out.

    Devices are known by their numbers, with their digits, outermost first. Boxes are for drawings
    made without that library, which finds them itself; ``size`` is how wide and tall all is.
    """

    nodes: list[Json]
    edges: list[Json]
    devices: Mapping[int, Path]
    left_out: str
    boxes: Sequence[Box]
    size: tuple[float, float]


def topology(levels: Sequence[LevelInFull], faults: Sequence[MachineException] = ()) -> Topology:
    """The drawing of a machine; of too many devices only some, as 16 of 512 nodes, are drawn."""
    shown = folded([level.count for level in levels], MOST_DEVICES)
    drawing = _Drawing(levels, shown, {one.unit: one for one in faults})
    drawing.children((), (0.0, 0.0))
    left_out = _left_out(levels, shown)
    wide, high = drawing.size(0)
    size = (wide - _PAD, high - _PAD * 1.5)  # the whole has no box around it
    return Topology(drawing.nodes, drawing.edges, drawing.devices, left_out, drawing.boxes, size)


def folded(counts: Sequence[int], most: int) -> list[int]:
    """How many children are drawn at each level; inner levels come first, outer ones are cut."""
    shown: list[int] = []
    for count in reversed(counts):
        shown.append(max(1, min(count, most // prod(shown))))
    return shown[::-1]


def speed(level: LevelInFull) -> str:
    """One unit's bandwidth to its neighbours: ``450 GB/s``, or ``8 × 50 GB/s`` by 8 ports."""
    each = f"{level.bandwidth_GB_per_s:g} GB/s"
    return f"{level.ports} × {each}" if level.ports > 1 else each


def unit_name(levels: Sequence[LevelInFull], path: Path) -> str:
    """``node1/gpu3``: as faults name it."""
    return "/".join(f"{level.name}{n}" for level, n in zip(levels, path, strict=False))


def _left_out(levels: Sequence[LevelInFull], shown: Sequence[int]) -> str:
    some = [
        f"{count} of {level.count} {level.name}s"
        for level, count in zip(levels, shown, strict=True)
        if count < level.count
    ]
    if not some:
        return ""
    inside = " in each" if len(some) > 1 else ""
    return f"{' and '.join(some)}{inside} are drawn; those left out look alike"


def _number(path: Path, counts: Sequence[int]) -> int:
    found = 0
    for digit, count in zip(path, counts, strict=True):
        found = found * count + digit
    return found


@dataclass
class _Drawing:
    """The drawing so far; ``shown`` is how many children of a unit are drawn at each level."""

    levels: Sequence[LevelInFull]
    shown: Sequence[int]
    faults: Mapping[str, MachineException]
    nodes: list[Json] = field(default_factory=list)
    edges: list[Json] = field(default_factory=list)
    devices: dict[int, Path] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)

    def children(self, path: Path, corner: tuple[float, float]) -> None:
        """The children of a unit, their links, and what is inside; ``corner`` is top left."""
        depth = len(path)
        count = self.shown[depth]
        width, height = self.size(depth + 1)
        across = self._columns(depth)
        whole = across * (width + _GAP) - _GAP
        hub = _has_hub(self.levels[depth], count)
        middle = corner[0] + max(whole, _HUB_WIDTH if hub else 0) / 2
        x, y = middle - whole / 2, corner[1] + (_HUB if hub else 0)
        for child in range(count):
            row, column = divmod(child, across)
            self._unit((*path, child), (x + column * (width + _GAP), y + row * (height + _GAP)))
        children = [(*path, child) for child in range(count)]
        if hub:
            self._hub(path, children, {"x": middle, "y": corner[1] + _HUB / 2 - 10})
        else:
            self._cables(path, children)

    def _unit(self, path: Path, at: tuple[float, float]) -> None:
        """One child: a device, or a box of what is inside."""
        name = unit_name(self.levels, path)
        data: Json = {"id": _id(path), "name": name, "kind": "unit", **_parent(path[:-1])}
        if len(path) < len(self.levels):
            self.nodes.append({"data": data})
            self.boxes.append(Box(data["id"], name, *at, *self.size(len(path))))
            self.children(path, (at[0] + _PAD / 2, at[1] + _PAD / 2))
            return
        number = _number(path, [level.count for level in self.levels])
        self.devices[number] = path
        data |= {"kind": "device", "device": number}
        units = [unit_name(self.levels, path[: n + 1]) for n in range(len(path))]
        if any(unit in self.faults and self.faults[unit].missing for unit in units):
            data |= {"missing": 1}
        middle = {"x": at[0] + DEVICE / 2, "y": at[1] + DEVICE / 2}
        self.nodes.append({"data": data, "position": middle})

    def _hub(self, path: Path, children: list[Path], at: Mapping[str, float]) -> None:
        """What joins all children of a unit."""
        level = self.levels[len(path)]
        hub = f"hub{_id(path)}"
        reduces = ", reduces" if level.reduces else ""
        label = f"{level.name} {level.domain.value}{reduces}\n{speed(level)}"
        data = {"id": hub, "kind": "hub", "name": label, **_parent(path)}
        self.nodes.append({"data": data, "position": at})
        for child in children:
            fault = _link_faults(self.faults, unit_name(self.levels, child))
            self.edges.append(_edge(level, (_id(child), hub), fault, bool(fault)))

    def _cables(self, path: Path, children: list[Path]) -> None:
        """The links between neighbours; the first says how fast all are."""
        level = self.levels[len(path)]
        for number, (one, other) in enumerate(_neighbours(level, children)):
            cable = "-".join(f"{level.name}{end}" for end in sorted((one[-1], other[-1])))
            fault = self.faults.get("/".join(filter(None, (unit_name(self.levels, path), cable))))
            label = _fault_text(fault) if fault else "" if number else speed(level)
            self.edges.append(_edge(level, (_id(one), _id(other)), label, bool(fault)))

    def _columns(self, depth: int) -> int:
        return columns(self.shown[depth], len(self.levels) - depth)

    def size(self, depth: int) -> tuple[float, float]:
        """How wide and tall a unit of a level is drawn."""
        if depth == len(self.levels):
            return DEVICE, DEVICE
        width, height = self.size(depth + 1)
        across = self._columns(depth)
        down = ceil(self.shown[depth] / across)
        hub = _has_hub(self.levels[depth], self.shown[depth])
        return (
            max(across * (width + _GAP) - _GAP, _HUB_WIDTH if hub else 0) + _PAD,
            down * (height + _GAP) - _GAP + _PAD * 1.5 + (_HUB if hub else 0),
        )


def _parent(path: Path) -> Json:
    """The box that something is in; nothing for what is in none."""
    return {"parent": _id(path)} if path else {}


def _edge(level: LevelInFull, ends: tuple[str, str], label: str, faulty: bool) -> Json:
    source, target = ends
    wide = 1 + max(0.0, log10(level.bandwidth_GB_per_s * level.ports))
    return {
        "classes": "worn" if faulty else "",
        "data": {
            "id": f"{source}-{target}",
            "source": source,
            "target": target,
            "label": label,
            "wide": round(wide, 2),
        },
    }


def _neighbours(level: LevelInFull, children: list[Path]) -> Iterator[tuple[Path, Path]]:
    if level.domain is Domain.MESH:
        yield from combinations(children, 2)
        return
    yield from pairwise(children)
    if len(children) == level.count and len(children) > 2:
        yield children[-1], children[0]


def _link_faults(faults: Mapping[str, MachineException], unit: str) -> str:
    """What is wrong with the link of a unit: it is slower or missing, or some of its ports are."""
    own = (name for name in faults if name == unit or _PORT.fullmatch(name.removeprefix(unit)))
    return "; ".join(_fault_text(faults[name]) for name in own)


def _fault_text(fault: MachineException) -> str:
    last = fault.unit.rpartition("/")[2]
    return f"{last} missing" if fault.missing else f"{last} at {fault.bandwidth_share:.0%}"


def _has_hub(level: LevelInFull, count: int) -> bool:
    many = level.domain is Domain.MESH and count > _MOST_MESHED
    return count > 1 and (level.domain in _HUBS or many)


def columns(count: int, height: int) -> int:
    """In how many columns so many children stand, so that the whole is wider than tall.

    Devices (``height`` 1) stand about twice as wide as tall, up to four boxes of them in one row.
    """
    wanted = sqrt((2 if height == 1 else 5 if count <= 4 else 1.6) * count)
    fits = [across for across in range(1, count + 1) if count % across == 0]
    best = min(fits, key=lambda across: abs(across - wanted))
    return best if best <= 4 * wanted and count / best <= 4 * wanted else ceil(wanted)


def _id(path: Path) -> str:
    return "u" + ".".join(map(str, path))
