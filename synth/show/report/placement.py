"""The coordinates and groups of devices, drawn on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup

from hierarchies import format_ranges
from synth.show.report.colours import Paint, paints
from synth.show.report.details import DrawnDevice
from synth.show.report.layout import DEVICE
from synth.show.report.topology import Box, Topology

_EDGE, _LARGE = 14, 700
_FEW = 5
"""The number of characters of coordinates that fit a device in the default size."""
_MOST_RUNS = 16
Place = tuple[float, float]


@dataclass(frozen=True)
class DrawnGroups:
    """The groups over some axes.

    Each drawn device has the position of its group in ``paints`` and in ``members``, which has the
    numbers of a group's devices in few words.
    """

    over: Sequence[str]
    caption: str
    paints: Sequence[Paint]
    members: Sequence[str]
    group_of: Mapping[int, int]


def grouping(
    devices: Sequence[DrawnDevice],
    axes: Sequence[str],
    over: Sequence[str],
    members: Callable[[DrawnDevice], Sequence[int]],
) -> DrawnGroups:
    """Return the groups of drawn devices over some axes; ``members`` lists a device's group."""
    held = groups(devices, axes, over)
    first = {held[device.number]: device for device in reversed(devices) if device.number in held}
    found = {group: number for number, group in enumerate(sorted(first))}
    return DrawnGroups(
        over,
        caption(axes, over),
        paints(max(1, len(found))),
        [format_ranges(members(first[group]), _MOST_RUNS) for group in found],
        {number: found[group] for number, group in held.items()},
    )


def groups(
    devices: Sequence[DrawnDevice], axes: Sequence[str], over: Sequence[str]
) -> Mapping[int, tuple[int, ...]]:
    """Return the group of each device: its coordinates on the axes that the collective is not over.

    Devices that hold the same ones differ only on axes it is over, so they work together.
    """
    fixed = [number for number, name in enumerate(axes) if name not in over]
    return {
        device.number: tuple(device.coordinates[number] for number in fixed)
        for device in devices
        if device.coordinates
    }


def draw_machine(
    drawn: Topology,
    devices: Sequence[DrawnDevice],
    axes: Sequence[str],
    over: Sequence[str],
    here: int | None = None,
) -> Markup:
    """Return the machine, each device with its number and coordinates, and one fill for each group.

    ``here``: the number of a device that is framed, with those of its group.
    """
    together = groups(devices, axes, over)
    different = sorted(set(together.values()))
    fills = dict(zip(different, paints(max(1, len(different))), strict=False))
    by_name = {device.number: device for device in devices}
    mine = None if here is None else together.get(here)
    framed = {number: " peer" for number, own in together.items() if own == mine}
    framed |= {} if here is None else {here: " here"}
    wide, high = drawn.size
    parts = [*_units(drawn)]
    for node in drawn.nodes:
        if node["data"]["kind"] == "device":
            device = by_name[node["data"]["device"]]
            at = node["position"]["x"], node["position"]["y"]
            paint = fills[together[device.number]] if device.number in together else None
            parts += _device(device, at, axes, paint, framed.get(device.number, ""))
        elif node["data"]["kind"] == "hub":
            parts += _hub(node["data"]["name"], (node["position"]["x"], node["position"]["y"]))
    width, height = wide + 2 * _EDGE, high + 2 * _EDGE
    large = " large" if width > _LARGE else ""
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="placed{large}" role="img" '
        f'viewBox="{-_EDGE} {-_EDGE} {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        'font-family="system-ui, sans-serif" font-size="11" fill="currentColor">'
        f"<title>{escape(caption(axes, over))}</title>{''.join(parts)}</svg>"
    )


def caption(axes: Sequence[str], over: Sequence[str]) -> str:
    """Return the caption of the drawing."""
    held = f"({', '.join(axes)})" if len(axes) > 1 else ", ".join(axes)
    rest = [name for name in axes if name not in over]
    same = f": they have the same coordinates on {', '.join(rest)}" if rest else ""
    return (
        f"Each device shows its number and its coordinates on {held}. Devices of one colour form a "
        f"group over {', '.join(over)}{same}."
    )


def _units(drawn: Topology) -> Iterator[str]:
    """Yield boxes and links from the outermost level inwards, so that inner parts are on top."""
    middles = {
        node["data"]["id"]: (node["position"]["x"], node["position"]["y"])
        for node in drawn.nodes
        if "position" in node
    }
    tops = dict(middles)
    for box in drawn.boxes:
        middles[box.id] = (box.x + box.width / 2, box.y + box.height / 2)
        tops[box.id] = (box.x + box.width / 2, box.y)
    deepest = max((edge["data"]["source"].count(".") for edge in drawn.edges), default=0)
    for depth in range(deepest + 1):
        for edge in drawn.edges:
            if edge["data"]["source"].count(".") == depth:
                yield _edge(edge, *_ends(edge, middles, tops))
        yield from (_unit(box) for box in drawn.boxes if box.id.count(".") == depth)
    for edge in drawn.edges:
        if edge["data"]["label"]:
            ends = _ends(edge, middles, tops)
            if aside := edge["data"].get("aside"):
                ends = _corner_points(*ends, aside)
            yield _label(edge["data"]["label"], *ends)


def _ends(
    edge: Mapping[str, Any], middles: Mapping[str, Place], tops: Mapping[str, Place]
) -> tuple[Place, Place]:
    """Return where a link begins and ends: what hangs at a hub hangs there by its upper edge."""
    source, target = edge["data"]["source"], edge["data"]["target"]
    return (tops if target.startswith("hub") else middles)[source], middles[target]


def _unit(box: Box) -> str:
    return (
        f'<rect class="unit" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
        f'height="{box.height:g}" rx="5" fill="#ffffff" fill-opacity="0.5" '
        'stroke="currentColor" stroke-opacity="0.4"/>'
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + box.height - 8:g}" '
        f'text-anchor="middle">{escape(box.name)}</text>'
    )


def _edge(edge: Mapping[str, Any], begin: Place, end: Place) -> str:
    faulty = "worn" in edge["classes"]
    dashes = ' stroke-dasharray="6 4"' if faulty else ""
    aside = edge["data"].get("aside", 0.0)
    ends = [begin, *_corner_points(begin, end, aside), end] if aside else [begin, end]
    points = " ".join(f"{x:g},{y:g}" for x, y in ends)
    return (
        f'<polyline class="{"worn" if faulty else "wire"}" points="{points}" fill="none" '
        f'stroke="#7b8794" stroke-width="{edge["data"]["wide"]}"{dashes}/>'
    )


def _corner_points(begin: Place, end: Place, aside: float) -> tuple[Place, Place]:
    """Return the corners of a link that closes a circle: above a row, or right of a column."""
    x, y = (aside, 0.0) if begin[0] == end[0] else (0.0, -aside)
    return (begin[0] + x, begin[1] + y), (end[0] + x, end[1] + y)


def _label(text: str, begin: Place, end: Place) -> str:
    """Return the label in the middle of a link; an outline separates its letters from lines."""
    x, y = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
    return (
        f'<text class="seam" x="{x:g}" y="{y + 4:g}" text-anchor="middle" stroke="#ffffff" '
        f'stroke-width="4" paint-order="stroke">{escape(text)}</text>'
    )


def _hub(name: str, at: Place) -> Iterator[str]:
    wide = max(150.0, 6.2 * max(map(len, name.split("\n"))) + 16)
    yield (
        f'<rect class="hub" x="{at[0] - wide / 2:g}" y="{at[1] - 16:g}" width="{wide:g}" '
        'height="32" rx="5" fill="#e4e9ee" stroke="#7b8794"/>'
    )
    for number, line in enumerate(name.split("\n")):
        yield (
            f'<text x="{at[0]:g}" y="{at[1] - 3 + 13 * number:g}" text-anchor="middle">'
            f"{escape(line)}</text>"
        )


def _device(
    device: DrawnDevice, at: Place, axes: Sequence[str], paint: Paint | None, frame: str
) -> Iterator[str]:
    """Yield a device: its number, and its coordinates in order of axes; dashed if missing."""
    held = ", ".join(f"{n} {c}" for n, c in zip(axes, device.coordinates, strict=False))
    text = ",".join(map(str, device.coordinates)) or "missing"
    fill = f'fill="{paint.fill}"' if paint else 'fill="none" stroke-dasharray="4 3"'
    ink = f' fill="{paint.ink}"' if paint else ""
    small = 11 if len(text) <= _FEW else max(5, 11 * _FEW // len(text) + 1)
    yield (
        f'<g class="device{frame}"{ink}><title>{escape(f"device {device.number}, {device.name}")}: '
        f"{escape(held or 'missing')}</title>"
        f'<rect x="{at[0] - DEVICE / 2:g}" y="{at[1] - DEVICE / 2:g}" width="{DEVICE}" '
        f'height="{DEVICE}" rx="5" {fill} stroke="currentColor" stroke-opacity="0.4"/>'
        f'<text x="{at[0]:g}" y="{at[1] - 5:g}" text-anchor="middle" font-weight="600">'
        f'{device.number}</text><text x="{at[0]:g}" y="{at[1] + 13:g}" text-anchor="middle" '
        f'font-size="{small}">{text}</text></g>'
    )
