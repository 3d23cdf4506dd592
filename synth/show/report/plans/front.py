"""Seconds against memory, as SVG: the plans that no other beats in both, and those simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from hierarchies.units import format_bytes, format_duration
from synth.collective.emit.timeline.svg import ticks
from synth.show.report.curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    TOP,
    Scale,
    frame_drawing,
    grid,
    linear_scale,
    x_at,
    y_at,
)

_GIB = 2.0**30
_HEADING = "A step's seconds against memory of the fullest device"


@dataclass(frozen=True)
class Point:
    """A plan: its name, seconds of a step, and bytes of the fullest device."""

    name: str
    seconds: float
    bytes: float


def draw_front(front: Sequence[Point], simulated: Sequence[Point], device_bytes: float) -> Markup:
    """The front as steps: above and right of it plans are; the simulated by their numbers."""
    every = [*front, *simulated]
    most = max(device_bytes, *(one.bytes for one in every))
    low, high = (of(one.seconds for one in every) for of in (min, max))
    beside = (high - low or high) * 0.08
    across = linear_scale(
        0.0, most * 1.02, [_GIB * one for one in ticks(most / _GIB)], format_bytes
    )
    up = linear_scale(max(0.0, low - beside), high + beside, _moments(low, high), format_duration)
    parts = [*grid(across, up), *_device(across, device_bytes), *_steps(front, across, up)]
    for number, one in reversed(list(enumerate(simulated, 1))):
        parts += _numbered_mark(number, one, x_at(across, one.bytes), y_at(up, one.seconds))
    return Markup(frame_drawing(_HEADING, [*parts, *_legend(bool(front))]))


def _moments(low: float, high: float) -> list[float]:
    """Round ones between both, or about one of them."""
    if high == low:
        return [low]
    step = ticks(high - low)[1]
    return [step * number for number in range(int(low / step), int(high / step) + 2)]


def _device(across: Scale, device_bytes: float) -> Iterator[str]:
    x = x_at(across, device_bytes)
    yield (
        f'<line class="limit" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
        'stroke="currentColor" stroke-width="2" stroke-dasharray="6 4"/>'
        f'<text x="{x - 6}" y="{TOP + 12}" text-anchor="end" font-size="11">'
        f"a device has {format_bytes(device_bytes)}</text>"
    )


def _steps(front: Sequence[Point], across: Scale, up: Scale) -> Iterator[str]:
    """The fastest in each memory, from much to little, and a mark for each plan."""
    corners: list[str] = []
    for one in front:
        x, y = x_at(across, one.bytes), y_at(up, one.seconds)
        if corners:  # in any less memory than the last had it takes as long as this one
            corners.append(f"{corners[-1].partition(',')[0]},{y}")
        corners.append(f"{x},{y}")
    if corners:
        yield (
            f'<polyline class="best" points="{" ".join(corners)}" fill="none" stroke="#0072b2" '
            'stroke-width="2"/>'
        )
    for one in front:
        x, y = x_at(across, one.bytes), y_at(up, one.seconds)
        said = f"{one.name}: {format_duration(one.seconds)}, {format_bytes(one.bytes)}, as expected"
        yield (
            f'<circle class="best" cx="{x}" cy="{y}" r="4" fill="#0072b2">'
            f"<title>{escape(said)}</title></circle>"
        )


def _numbered_mark(number: int, one: Point, x: float, y: float) -> Iterator[str]:
    said = (
        f"{number}: {one.name}: {format_duration(one.seconds)}, {format_bytes(one.bytes)}, "
        "simulated"
    )
    yield (
        f'<g class="simulated" fill="#000000"><title>{escape(said)}</title>'
        f'<circle cx="{x}" cy="{y}" r="8" fill="#e69f00" stroke="#000000" stroke-opacity="0.5"/>'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="11" font-weight="600">'
        f"{number}</text></g>"
    )


def _legend(front: bool) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="14" font-weight="600">{_HEADING}</text>'
    x = LEFT
    if front:
        yield (
            f'<line class="best" x1="{x}" x2="{x + 30}" y1="31" y2="31" stroke="#0072b2" '
            f'stroke-width="2"/><text x="{x + 36}" y="35">the fastest in less memory, as the search'
            " expects</text>"
        )
        x += 380
    yield (
        f'<circle cx="{x + 8}" cy="31" r="7" fill="#e69f00" stroke="#000000" stroke-opacity="0.5"/>'
        f'<text x="{x + 22}" y="35">simulated, by rank</text>'
    )
