"""A machine as boxes in boxes with its links between them, placed for a drawing; large ones folded.

The positions are ours, so the same machine always looks the same. Switches and buses are drawn as a
hub above the units they join, rings and small meshes as lines between neighbours, and tori as grids
whose lines are closed by arcs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import log10, prod
from typing import Any

from hierarchies import Domain, LevelInFull, MachineException, first_group
from synth.show.report.layout import (
    ARC,
    DEVICE,
    GAP,
    GRID_GAP,
    HUB,
    HUB_WIDTH,
    MOST_DEVICES,
    MOST_NARROW,
    PAD,
    SIDE_MARGIN,
    DrawingLayout,
    fold_counts,
    has_hub,
)

_PORT = re.compile(r"/port[0-9]+")

Json = dict[str, Any]
Path = tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """The box of a unit that has others inside."""

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


def topology(
    levels: Sequence[LevelInFull],
    faults: Sequence[MachineException] = (),
    *,
    narrow: bool = False,
    around: Path = (),
) -> Topology:
    """Return the drawing of a machine; large machines are drawn in part, as 16 of 512 nodes.

    ``narrow``: for a telephone, with fewer devices, and units below each other. ``around`` has the
    digits of a device to include; by default the first of each unit are drawn.
    """
    most = MOST_NARROW if narrow else MOST_DEVICES
    shown = fold_counts([level.count for level in levels], most)
    layout = DrawingLayout(levels, shown, narrow)
    drawing = _TopologyDrawing(layout, {fault.unit: fault for fault in faults}, around)
    drawing.children((), (0.0, 0.0))
    left_out = _left_out_text(levels, shown)
    wide, high = layout.size(0)
    size = (wide - PAD, high - PAD * 1.5)  # the whole has no box around it
    return Topology(drawing.nodes, drawing.edges, drawing.devices, left_out, drawing.boxes, size)


def speed(level: LevelInFull) -> str:
    """Return one unit's bandwidth to its neighbours: ``450 GB/s``, or ``8 × 50 GB/s`` by 8 ports.

    In a torus that of a device, each of which has links of its own: ``z 45 GB/s``.
    """
    each = f"{level.bandwidth_GB_per_s:g} GB/s"
    if level.domain is Domain.TORUS:
        return f"{level.name} {each}"
    return f"{level.ports} × {each}" if level.ports > 1 else each


def unit_name(levels: Sequence[LevelInFull], path: Path) -> str:
    """``node1/gpu3``: as faults name it."""
    return "/".join(f"{level.name}{n}" for level, n in zip(levels, path, strict=False))


def _left_out_text(levels: Sequence[LevelInFull], shown: Sequence[int]) -> str:
    some = [
        f"{count} of {level.count} {level.name}s"
        for level, count in zip(levels, shown, strict=True)
        if count < level.count
    ]
    if not some:
        return ""
    inside = " in each" if len(some) > 1 else ""
    return f"{' and '.join(some)}{inside} are drawn; the others are identical"


def digits_of(device: int, counts: Sequence[int]) -> Path:
    """Return the digits of a device by its number, outermost first."""
    found: Path = ()
    for count in reversed(counts):
        device, digit = divmod(device, count)
        found = (digit, *found)
    return found


def coordinates(digits: Sequence[int], matrix: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return a device's coordinates by its digits; ``matrix``, the placement, has a row per axis.

    Inside a level the digit is split among the axes, the first slowest, and outer levels count
    more: the last device of an axis has the highest coordinate.
    """
    found = [0] * len(matrix)
    for level, digit in enumerate(digits):
        rest = prod(row[level] for row in matrix)
        for axis, row in enumerate(matrix):
            rest //= row[level]
            part, digit = divmod(digit, rest)
            found[axis] = found[axis] * row[level] + part
    return tuple(found)


def peers(
    device: int, at: Sequence[int], matrix: Sequence[Sequence[int]], over: Sequence[int]
) -> list[int]:
    """Return the group of a device over some axes, itself among them, ascending.

    ``at`` are its coordinates. They all have the same ones on the other axes.
    """
    found = [device]
    for axis in over:
        steps = first_group(matrix, axis)
        found = [member + step - steps[at[axis]] for member in found for step in steps]
    return sorted(found)


def _number(path: Path, counts: Sequence[int]) -> int:
    found = 0
    for digit, count in zip(path, counts, strict=True):
        found = found * count + digit
    return found


@dataclass
class _TopologyDrawing:
    """The drawing so far."""

    layout: DrawingLayout
    faults: Mapping[str, MachineException]
    around: Path = ()
    nodes: list[Json] = field(default_factory=list)
    edges: list[Json] = field(default_factory=list)
    devices: dict[int, Path] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)

    @property
    def levels(self) -> Sequence[LevelInFull]:
        """The levels of the machine, outermost first."""
        return self.layout.levels

    def children(self, path: Path, corner: tuple[float, float]) -> None:
        """The children of a unit, their links, and what is inside; ``corner`` is top left."""
        depth = len(path)
        if self.layout.is_grid(depth):
            self._grid(path, corner)
            return
        count = self.layout.shown[depth]
        width, height = self.layout.size(depth + 1)
        across = self.layout.columns[depth]
        whole = across * (width + GAP) - GAP
        hub = has_hub(self.levels[depth], count)
        middle = corner[0] + max(whole, HUB_WIDTH if hub else 0) / 2
        x, y = middle - whole / 2, corner[1] + (HUB if hub else 0)
        children = [(*path, child) for child in self._drawn(path, depth)]
        for place, child in enumerate(children):
            row, column = divmod(place, across)
            self._unit(child, (x + column * (width + GAP), y + row * (height + GAP)))
        if hub:
            self._hub(path, children, {"x": middle, "y": corner[1] + HUB / 2 - 10})
        else:
            self._cables(path, children)

    def _drawn(self, path: Path, depth: int) -> range:
        """Return a unit's children that are drawn: neighbours that include the device looked up."""
        count, shown = self.levels[depth].count, self.layout.shown[depth]
        on_the_way = self.around and self.around[: len(path)] == path
        wanted = self.around[depth] if on_the_way else 0
        first = min(wanted // shown * shown, count - shown)
        return range(first, first + shown)

    def _unit(self, path: Path, at: tuple[float, float]) -> None:
        """One child: a device, or a box of what is inside."""
        name = unit_name(self.levels, path)
        data: Json = {"id": _id(path), "name": name, "kind": "unit", **_parent(path[:-1])}
        if len(path) < len(self.levels):
            self.nodes.append({"data": data})
            self.boxes.append(Box(data["id"], name, *at, *self.layout.size(len(path))))
            self.children(path, (at[0] + PAD / 2, at[1] + PAD / 2))
            return
        self._device(path, _parent(path[:-1]), at)

    def _device(self, path: Path, parent: Json, at: tuple[float, float]) -> None:
        name = unit_name(self.levels, path)
        data: Json = {"id": _id(path), "name": name, "kind": "device", **parent}
        number = _number(path, [level.count for level in self.levels])
        self.devices[number] = path
        data["device"] = number
        units = [unit_name(self.levels, path[: n + 1]) for n in range(len(path))]
        if any(unit in self.faults and self.faults[unit].missing for unit in units):
            data |= {"missing": 1}
        middle = {"x": at[0] + DEVICE / 2, "y": at[1] + DEVICE / 2}
        self.nodes.append({"data": data, "position": middle})

    def _grid(self, path: Path, corner: tuple[float, float]) -> None:
        """Devices of the two innermost levels of a torus in rows, each beside its neighbours."""
        rows, columns = (self._drawn(path, len(path) + inside) for inside in (0, 1))
        pitch = DEVICE + GRID_GAP
        x, y = corner[0], corner[1] + ARC
        for down, row in enumerate(rows):
            for across, column in enumerate(columns):
                at = (x + across * pitch, y + down * pitch)
                self._device((*path, row, column), _parent(path), at)
        lines = [
            (-1, (*path, row), [(*path, row, column) for column in columns]) for row in rows
        ] + [(-2, path, [(*path, row, column) for row in rows]) for column in columns]
        labelled = set[int]()
        for which, above, devices in lines:
            level = self.levels[which]
            for device, other in _neighbours(level, devices):
                closes = _closes(level, devices, (device, other))
                label = speed(level) if closes and which not in labelled else ""
                labelled |= {which} if closes else set()
                self._cable(level, above, (device, other), label, SIDE_MARGIN if closes else 0.0)

    def _hub(self, path: Path, children: list[Path], at: Mapping[str, float]) -> None:
        level = self.levels[len(path)]
        hub = f"hub{_id(path)}"
        reduces = ", reduces" if level.reduces else ""
        some = f", {len(children)} of {level.count}" if len(children) < level.count else ""
        label = f"{level.name} {level.domain.value}{reduces}{some}\n{speed(level)}"
        data = {"id": hub, "kind": "hub", "name": label, **_parent(path)}
        self.nodes.append({"data": data, "position": at})
        for child in children:
            fault = _link_faults(self.faults, unit_name(self.levels, child))
            self.edges.append(_edge(level, (_id(child), hub), fault, bool(fault)))

    def _cables(self, path: Path, children: list[Path]) -> None:
        """The links between neighbours; one says how fast all are."""
        level = self.levels[len(path)]
        columns, size = self.layout.columns[len(path)], self.layout.size(len(path) + 1)
        in_line = {len(children): size[1], 1: size[0]}  # in one row, or in one column
        around = in_line[columns] / 2 + GAP / 2 if columns in in_line else 0.0
        pairs = list(_neighbours(level, children))
        closes = around > 0 and bool(pairs) and _closes(level, children, pairs[-1])
        labelled = pairs[-1 if closes else 0] if pairs else None
        for ends in pairs:
            label = speed(level) if ends is labelled else ""
            self._cable(level, path, ends, label, around if closes and ends is labelled else 0.0)

    def _cable(
        self, level: LevelInFull, above: Path, ends: tuple[Path, Path], label: str, aside: float
    ) -> None:
        """A link between two neighbours inside a unit; ``aside``: so far beside those between."""
        digit = self.levels.index(level)
        cable = "-".join(f"{level.name}{n}" for n in sorted((ends[0][digit], ends[1][digit])))
        fault = self.faults.get("/".join(filter(None, (unit_name(self.levels, above), cable))))
        text = _fault_text(fault) if fault else label
        edge = _edge(level, (_id(ends[0]), _id(ends[1])), text, bool(fault))
        if aside:
            edge["classes"] = f"{edge['classes']} wrap".strip()
            edge["data"]["aside"] = aside
        self.edges.append(edge)


def _parent(path: Path) -> Json:
    """Return the parent of a node; empty for the outermost ones."""
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
    if level.wraps and len(children) == level.count and len(children) > 2:
        yield children[-1], children[0]


def _closes(level: LevelInFull, children: list[Path], ends: tuple[Path, Path]) -> bool:
    """Whether a link leads from the last of a circle to the first."""
    return level.domain is not Domain.MESH and ends[1] == children[0]


def _link_faults(faults: Mapping[str, MachineException], unit: str) -> str:
    """Return the faults of the link of a unit and of its ports."""
    own = (name for name in faults if name == unit or _PORT.fullmatch(name.removeprefix(unit)))
    return "; ".join(_fault_text(faults[name]) for name in own)


def _fault_text(fault: MachineException) -> str:
    last = fault.unit.rpartition("/")[2]
    return f"{last} missing" if fault.missing else f"{last} at {fault.bandwidth_share:.0%}"


def _id(path: Path) -> str:
    return "u" + ".".join(map(str, path))
