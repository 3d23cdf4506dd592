"""A machine as boxes in boxes with its links between them, placed for a drawing; large ones folded.

The positions are ours, so the same machine always looks the same. Switches and buses are drawn as a
hub above the units they join, rings, tori and small meshes as lines between neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from math import ceil, log10, prod, sqrt
from typing import Any

from hierarchies import Domain
from synth.verbs.answers.machine_parts import LevelInFull, MachineException, MachineInFull

MOST_DEVICES = 128
_DEVICE, _GAP, _PAD, _HUB, _HUB_WIDTH = 46, 12, 26, 64, 150
_MOST_MESHED = 8
_HUBS = {Domain.SWITCH, Domain.BUS}
_PORT = re.compile(r"/port[0-9]+")

Json = dict[str, Any]
Path = tuple[int, ...]


@dataclass
class _Canvas:
    """What is drawn so far."""

    nodes: list[Json] = field(default_factory=list)
    edges: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Topology:
    """Nodes and edges as the drawing library takes them, the devices, and what is left out."""

    nodes: list[Json]
    edges: list[Json]
    devices: tuple[int, ...]
    left_out: str


def topology(system: MachineInFull, most: int = MOST_DEVICES) -> Topology:
    """The drawing of a machine with at most so many devices."""
    levels = system.levels
    counts = [level.count for level in levels]
    shown = folded(counts, most)
    canvas = _Canvas()
    faults = {one.unit: one for one in system.exceptions}
    _draw(canvas, levels, shown, faults, (), (0.0, 0.0))
    devices = tuple(_number(path, counts) for path in product(*(range(count) for count in shown)))
    return Topology(canvas.nodes, canvas.edges, devices, _left_out(levels, shown))


def folded(counts: Sequence[int], most: int) -> list[int]:
    """How many children are drawn at each level: all of the inner ones, as far as there is room."""
    shown: list[int] = []
    for count in reversed(counts):
        shown.append(max(1, min(count, most // prod(shown))))
    return shown[::-1]


def speed(level: LevelInFull) -> str:
    """What one unit has towards its neighbours: ``450 GB/s``, ``8 x 50 GB/s`` by several ports."""
    told = f"{level.bandwidth_GB_per_s:g} GB/s"
    return f"{level.ports} × {told}" if level.ports > 1 else told


def unit_name(levels: Sequence[LevelInFull], path: Path) -> str:
    """``node1/gpu3``: as faults name it."""
    return "/".join(f"{level.name}{n}" for level, n in zip(levels, path, strict=False))


def _left_out(levels: Sequence[LevelInFull], shown: Sequence[int]) -> str:
    told = [
        f"{count} of {level.count} {level.name}s"
        for level, count in zip(levels, shown, strict=True)
        if count < level.count
    ]
    if not told:
        return ""
    inside = " in each" if len(told) > 1 else ""
    return f"{' and '.join(told)}{inside} are drawn; those left out look alike"


def _number(path: Path, counts: Sequence[int]) -> int:
    found = 0
    for digit, count in zip(path, counts, strict=True):
        found = found * count + digit
    return found


def _draw(
    canvas: _Canvas,
    levels: Sequence[LevelInFull],
    shown: Sequence[int],
    faults: Mapping[str, MachineException],
    path: Path,
    corner: tuple[float, float],
) -> None:
    """The children of a unit, their links, and what is inside them; ``corner`` is top left."""
    depth = len(path)
    level, count = levels[depth], shown[depth]
    width, height = _size(levels, shown, depth + 1)
    across = columns(count, len(levels) - depth)
    whole = across * (width + _GAP) - _GAP
    hub = _has_hub(level, count)
    middle = corner[0] + max(whole, _HUB_WIDTH if hub else 0) / 2
    x, y = middle - whole / 2, corner[1] + (_HUB if hub else 0)
    for child in range(count):
        row, column = divmod(child, across)
        at = (x + column * (width + _GAP), y + row * (height + _GAP))
        _unit(canvas, levels, shown, faults, (*path, child), at)
    _links(canvas, levels, faults, path, count, (middle, corner[1] + _HUB / 2 - 10))


def _unit(
    canvas: _Canvas,
    levels: Sequence[LevelInFull],
    shown: Sequence[int],
    faults: Mapping[str, MachineException],
    path: Path,
    at: tuple[float, float],
) -> None:
    """One child: a device, or a box of what is inside."""
    counts = [level.count for level in levels]
    name = unit_name(levels, path)
    data: Json = {"id": _id(path), "name": name, "kind": "unit"}
    if len(path) > 1:
        data["parent"] = _id(path[:-1])
    if len(path) < len(levels):
        canvas.nodes.append({"data": data})
        _draw(canvas, levels, shown, faults, path, (at[0] + _PAD / 2, at[1] + _PAD / 2))
        return
    data |= {"kind": "device", "device": _number(path, counts)}
    if any(_missing(faults, unit_name(levels, path[: n + 1])) for n in range(len(path))):
        data["missing"] = 1
    middle = {"x": at[0] + _DEVICE / 2, "y": at[1] + _DEVICE / 2}
    canvas.nodes.append({"data": data, "position": middle})


def _links(
    canvas: _Canvas,
    levels: Sequence[LevelInFull],
    faults: Mapping[str, MachineException],
    path: Path,
    count: int,
    hub: tuple[float, float],
) -> None:
    level = levels[len(path)]
    children = [(*path, child) for child in range(count)]
    if not _has_hub(level, count):
        for number, (one, other) in enumerate(_neighbours(level, children)):
            ends = sorted((one[-1], other[-1]))
            cable = "-".join(f"{level.name}{end}" for end in ends)
            fault = faults.get("/".join(filter(None, (unit_name(levels, path), cable))))
            label = _said(fault) if fault else "" if number else speed(level)
            canvas.edges.append(_edge(level, _id(one), _id(other), label, bool(fault)))
        return
    middle = f"hub{_id(path)}"
    reduces = ", reduces" if level.reduces else ""
    label = f"{level.name} {level.domain.value}{reduces}\n{speed(level)}"
    data: Json = {"id": middle, "kind": "hub", "name": label}
    if path:
        data["parent"] = _id(path)
    canvas.nodes.append({"data": data, "position": {"x": hub[0], "y": hub[1]}})
    for child in children:
        worn = _worn(faults, unit_name(levels, child))
        canvas.edges.append(_edge(level, _id(child), middle, worn, bool(worn)))


def _edge(level: LevelInFull, source: str, target: str, label: str, worn: bool) -> Json:
    wide = 1 + max(0.0, log10(level.bandwidth_GB_per_s * level.ports))
    return {
        "classes": "worn" if worn else "",
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


def _worn(faults: Mapping[str, MachineException], unit: str) -> str:
    """What is wrong with the link of a unit: it is slower or missing, or some of its ports are."""
    own = (name for name in faults if name == unit or _PORT.fullmatch(name.removeprefix(unit)))
    return "; ".join(_said(faults[name]) for name in own)


def _said(fault: MachineException) -> str:
    last = fault.unit.rpartition("/")[2]
    return f"{last} missing" if fault.missing else f"{last} at {fault.bandwidth_share:.0%}"


def _missing(faults: Mapping[str, MachineException], unit: str) -> bool:
    return unit in faults and bool(faults[unit].missing)


def _has_hub(level: LevelInFull, count: int) -> bool:
    many = level.domain is Domain.MESH and count > _MOST_MESHED
    return count > 1 and (level.domain in _HUBS or many)


def _size(levels: Sequence[LevelInFull], shown: Sequence[int], depth: int) -> tuple[float, float]:
    """How wide and tall a unit of a level is drawn."""
    if depth == len(levels):
        return _DEVICE, _DEVICE
    width, height = _size(levels, shown, depth + 1)
    across = columns(shown[depth], len(levels) - depth)
    down = ceil(shown[depth] / across)
    hub = _has_hub(levels[depth], shown[depth])
    return (
        max(across * (width + _GAP) - _GAP, _HUB_WIDTH if hub else 0) + _PAD,
        down * (height + _GAP) - _GAP + _PAD * 1.5 + (_HUB if hub else 0),
    )


def columns(count: int, height: int) -> int:
    """In how many columns so many children stand, so that the whole is wider than tall.

    Devices (``height`` 1) stand about twice as wide as tall, up to four boxes of them in one row.
    """
    wished = sqrt((2 if height == 1 else 5 if count <= 4 else 1.6) * count)
    fits = [across for across in range(1, count + 1) if count % across == 0]
    best = min(fits, key=lambda across: abs(across - wished))
    return best if best <= 4 * wished and count / best <= 4 * wished else ceil(wished)


def _id(path: Path) -> str:
    return "u" + ".".join(map(str, path))
