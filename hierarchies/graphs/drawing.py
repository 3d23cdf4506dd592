"""A drawing of a machine as SVG: units as nested boxes, the links of each level as a bar above.

A drawing of every cable of a cluster would be unreadable. The units of a level are alike, so only
the first units and units with faults are drawn, and the others are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from hierarchies.faults import Fault
from hierarchies.system import Domain, System

_DEVICE, _GAP, _BAR, _MARGIN, _LETTER = (58, 34), 12, 24, 14, 6.4
_WIDEST, _DEVICES, _UNITS, _PORTS = 1100, 8, 2, 16
_FILLS = ("#eef3fb", "#f3eefa", "#eef7f0", "#fbf4ea")
_LINES = ("#2f5d9b", "#6a4a9c", "#2f7a4d", "#9a6a1f")
_BROKEN, _SLOW = "#b3261e", "#c77700"


@dataclass(frozen=True)
class _Box:
    """A drawn part: its size, and its elements, whose upper left corner is (0, 0)."""

    width: float
    height: float
    parts: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        return f'<g transform="translate({x:g},{y:g})">{"".join(self.parts)}</g>'


def svg(system: System) -> str:
    """Return the machine as one SVG image of at most a few hundred elements."""
    title = f"{system.name}: {system.hierarchy}"
    inside = _parent(system, ())
    lines = [_text(0, 14, title, 15, bold=True)]
    if system.faults:
        lines.append(_text(0, 32, system.faults_text, 12, _BROKEN))
    top = 28 + 18 * (len(lines) - 1)
    width = max(inside.width, len(title) * 8.5, len(system.faults_text) * _LETTER) + 2 * _MARGIN
    height = inside.height + top + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" role="img">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
        f'<g transform="translate({_MARGIN},{_MARGIN})">{"".join(lines)}{inside.at(0, top)}</g>'
        "</svg>\n"
    )


def _parent(system: System, path: tuple[int, ...]) -> _Box:
    """Return the inside of a unit: the bar of its children's links, and the children below it."""
    level = len(path)
    shown = _children_to_draw(system, path)
    boxes = [_child(system, (*path, number)) for number in shown]
    rows = _rows(boxes, innermost=level == len(system.links) - 1)
    left_out = system.hierarchy.cardinalities[level] - len(shown)
    label = _describe_link(system, level)
    remark = f"and {left_out} more like these" if left_out else ""
    across = [sum(box.width for box in row) + _GAP * (len(row) - 1) for row in rows]
    width = max(*across, len(label) * _LETTER + 16, len(remark) * _LETTER)
    colour = _LINES[level % len(_LINES)]
    parts = [
        f'<rect width="{width:g}" height="{_BAR}" rx="4" fill="{colour}"/>',
        _text(8, 16, label, 11, "#ffffff"),
    ]
    y = _BAR + 2.0 * _GAP
    for row in rows:
        parts += _row(row, y, system.links[level].domain, colour)
        y += max(box.height for box in row) + _GAP
    if remark:
        parts.append(_text(0, y + 8, remark, 12, "#555555"))
        y += 16
    return _Box(width, y, tuple(parts))


def _row(row: Sequence[_Box], y: float, domain: Domain, colour: str) -> list[str]:
    """Return boxes side by side, with lines to the bar, or between neighbours of a circle."""
    parts, x = [], 0.0
    for number, box in enumerate(row):
        middle = x + box.width / 2
        if domain in (Domain.SWITCH, Domain.BUS):
            begin = _BAR if y < _BAR + 3 * _GAP else y - _GAP
            parts.append(_line(middle, begin, middle, y, colour))
        elif number:
            half = y + min(box.height, _DEVICE[1]) / 2
            parts.append(_line(x - _GAP, half, x, half, colour))
        parts.append(box.at(x, y))
        x += box.width + _GAP
    return parts


def _rows(boxes: Sequence[_Box], *, innermost: bool) -> list[list[_Box]]:
    if innermost:
        return [list(boxes[i : i + _DEVICES]) for i in range(0, len(boxes), _DEVICES)]
    wide = sum(box.width for box in boxes) + _GAP * (len(boxes) - 1)
    return [list(boxes)] if wide <= _WIDEST else [[box] for box in boxes]


def _child(system: System, path: tuple[int, ...]) -> _Box:
    level = len(path) - 1
    name = f"{system.hierarchy.names[level]}{path[-1]}"
    fault = _fault(system, path)
    colour = _LINES[level % len(_LINES)]
    missing = fault is not None and fault.missing
    edge = _BROKEN if missing else _SLOW if fault else colour
    dashes = ' stroke-dasharray="4 3"' if fault else ""
    if level == len(system.links) - 1 or missing:
        wide, high = max(_DEVICE[0], len(name) * _LETTER + 10), _DEVICE[1]
        outline = _outline(wide, high, "#ffffff", edge, dashes)
        label = _text(wide / 2, high / 2 + 4, name, 11, edge if fault else "#222222", mid=True)
        return _Box(wide, high, (outline, label))
    inside = _parent(system, path)
    ports, head = _ports(system, path)
    width = max(inside.width, len(head) * _LETTER + 10) + 2 * _GAP
    height = inside.height + 2 * _GAP + 4
    outline = _outline(width, height, _FILLS[level % len(_FILLS)], edge, dashes)
    caption = _text(_GAP, 18, f"{name}{head}", 12, edge if fault else "#222222", bold=True)
    return _Box(width, height + 4, (outline, caption, *ports, inside.at(_GAP, 2 * _GAP + 4)))


def _ports(system: System, path: tuple[int, ...]) -> tuple[list[str], str]:
    """Return squares on the upper edge of a unit, one per port, and a caption with their number."""
    level = len(path) - 1
    link = system.links[level]
    if link.domain is not Domain.SWITCH:
        return [], ""
    dead = {f.port: f for f in system.faults if f.path == path and f.port is not None}
    squares = []
    for port in range(min(link.ports, _PORTS)):
        fault = dead.get(port)
        fill = _LINES[level % len(_LINES)]
        if fault is not None:
            fill = _BROKEN if fault.missing else _SLOW
        squares.append(
            f'<rect x="{_GAP + port * 11}" y="-4" width="8" height="8" fill="{fill}">'
            f"<title>port{port}</title></rect>"
        )
    return squares, f", {link.ports} port{'s' if link.ports > 1 else ''}"


def _children_to_draw(system: System, path: tuple[int, ...]) -> list[int]:
    """Return the children to draw: the first children, and those with faults."""
    level = len(path)
    children = system.hierarchy.cardinalities[level]
    deep = len(system.links) - 1 - level
    most = (2 * _DEVICES, _UNITS)[deep] if deep < 2 else 1
    special = {f.path[level] for f in system.faults if f.path[:level] == path != f.path}
    chosen = set(sorted(special)[:_UNITS]) if children > most else set[int]()
    for number in range(children):
        if len(chosen) < most:
            chosen.add(number)
    return sorted(chosen)


def _fault(system: System, path: tuple[int, ...]) -> Fault | None:
    units = (fault for fault in system.faults if fault.path == path and fault.is_unit)
    return next(units, None)


def _describe_link(system: System, level: int) -> str:
    """``node: switch of 4, 8 ports x 50 GB/s, 5 us``."""
    link, name = system.links[level], system.hierarchy.names[level]
    children = system.hierarchy.cardinalities[level]
    rate = f"{link.bandwidth_bytes_per_second / 1e9:g} GB/s"
    if link.domain is Domain.SWITCH:
        rate = f"{link.ports} port{'s' if link.ports > 1 else ''} x {rate}"
    parts = [f"{name}: {link.domain.value} of {children}", rate]
    parts.append(f"{link.latency_seconds * 1e6:g} us")
    if link.reduces:
        parts.append("adds up")
    if link.through:
        parts.append(f"through {', '.join(link.through)}")
    return ", ".join(parts)


def _outline(width: float, height: float, fill: str, edge: str, dashes: str) -> str:
    return (
        f'<rect width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{edge}" '
        f'stroke-width="1.5"{dashes}/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="1.5"/>'


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    fill: str = "#222222",
    *,
    bold: bool = False,
    mid: bool = False,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    anchor = ' text-anchor="middle"' if mid else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{weight}{anchor}>'
        f"{escape(text)}</text>"
    )
