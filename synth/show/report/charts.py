"""Stacked bars on one scale, and a step's time against memory, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.planned import PlanOfFront, PlanOfStep
from synth.collective.emit.timeline.names import ticks
from synth.show.report.colours import FEW_COLOURS
from synth.show.report.curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    frame_drawing,
    grid,
    linear_scale,
    x_at,
    y_at,
)

_LABELS, _LEGEND_TOP, _TALL, _GAP, _LEGEND = 150, 30, 20, 7, 22
_COLOURS = (*FEW_COLOURS, "#a6a6a6")
_GIB = 2.0**30
_FRONT_HEADING = "Step time against peak memory"


@dataclass(frozen=True)
class StackedBar:
    """A bar: its name, and the amount of each kind."""

    label: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of all kinds."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Limit:
    """An upper bound on the scale of bars, and its name."""

    value: float
    label: str


def draw_bars(
    heading: str,
    kinds: Sequence[str],
    bars: Sequence[StackedBar],
    text: Callable[[float], str],
    limit: Limit | None = None,
) -> Markup:
    """Draw the bars from the top, with their parts in the order of the ``kinds``.

    There are at most nine kinds. Each has its own colour, which is the same in all drawings.
    """
    met = {kind for bar in bars for kind, value in bar.parts.items() if value}
    pairs = zip(kinds, _COLOURS, strict=False)
    colours = {kind: colour for kind, colour in pairs if kind in met}
    most = max([bar.total for bar in bars] + [limit.value if limit else 0.0])
    legend = list(_bar_legend(colours))
    rows = 1 + max((row for row, _ in legend), default=0)
    top = _LEGEND_TOP + _LEGEND * rows + 20 * bool(limit)
    height = top + len(bars) * (_TALL + _GAP) + 12
    left = min(max([_LABELS, *(8 + 7 * len(bar.label) for bar in bars)]), WIDTH // 2)
    scale = (WIDTH - left - RIGHT - 80) / most if most else 0.0
    parts = [f'<text x="0" y="14" font-weight="600">{escape(heading)}</text>']
    parts += [drawn for _, drawn in legend]
    if limit:
        x = left + limit.value * scale
        parts.append(_limit_line(x, top - 6, height - 10, (x, top - 12), limit.label))
    for number, bar in enumerate(bars):
        y = top + number * (_TALL + _GAP)
        parts += _bar(bar, colours, (left, scale), y, text)
        end = left + most * scale + 8
        parts.append(f'<text x="{end:.1f}" y="{y + 14}">{escape(text(bar.total))}</text>')
    return Markup(frame_drawing(heading, parts, height))


def _bar_legend(colours: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the name of each colour, with the row that it is in."""
    x, row = 0, 0
    for kind, colour in colours.items():
        wide = 34 + 7 * len(kind)
        if x and x + wide > WIDTH:
            x, row = 0, row + 1
        y = _LEGEND_TOP + row * _LEGEND
        box = f'<rect x="{x}" y="{y - 2}" width="12" height="12" fill="{colour}"/>'
        yield row, f'{box}<text x="{x + 17}" y="{y + 8}">{escape(kind)}</text>'
        x += wide


def _limit_line(x: float, top: int, bottom: int, at: tuple[float, int], label: str) -> str:
    return (
        f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" '
        'stroke="currentColor" stroke-width="2" stroke-dasharray="6 4"/>'
        f'<text x="{at[0]:.1f}" y="{at[1]}" text-anchor="end" font-size="11">{escape(label)}</text>'
    )


def _bar(
    bar: StackedBar,
    colours: Mapping[str, str],
    scale: tuple[int, float],
    y: int,
    text: Callable[[float], str],
) -> Iterator[str]:
    """Yield a bar; ``scale`` is the x of zero, and the pixels of a unit."""
    left, per_unit = scale
    x = float(left)
    yield f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>'
    for kind, colour in colours.items():
        value = bar.parts.get(kind, 0.0)
        yield (
            f'<rect class="part" x="{x:.1f}" y="{y}" width="{value * per_unit:.1f}" '
            f'height="{_TALL}" fill="{colour}"><title>{escape(bar.label)}, {escape(kind)}: '
            f"{escape(text(value))}</title></rect>"
        )
        x += value * per_unit


def draw_front(
    front: Sequence[PlanOfFront], simulated: Sequence[PlanOfStep], device_bytes: float
) -> Markup:
    """Draw the front as steps, with plans above and right of it; simulated plans have numbers."""
    sizes = [device_bytes, *(plan.bytes for plan in front)]
    most = max(sizes + [plan.memory.bytes for plan in simulated])
    seconds = [plan.seconds for plan in front] + [plan.seconds for plan in simulated]
    low, high = min(seconds), max(seconds)
    margin = (high - low or high) * 0.08
    marks = [_GIB * mark for mark in ticks(most / _GIB)]
    across = linear_scale(0.0, most * 1.02, marks, format_bytes)
    moments = _moments(low, high)
    up = linear_scale(max(0.0, low - margin), high + margin, moments, format_duration)
    x, label = x_at(across, device_bytes), f"device memory: {format_bytes(device_bytes)}"
    parts = [
        *grid(across, up),
        _limit_line(x, TOP, HEIGHT - BOTTOM, (x - 6, TOP + 12), label),
        *_steps(front, across, up),
    ]
    for number, plan in reversed(list(enumerate(simulated, 1))):
        x, y = x_at(across, plan.memory.bytes), y_at(up, plan.seconds)
        parts.append(_numbered_mark(number, plan, x, y))
    return Markup(frame_drawing(_FRONT_HEADING, [*parts, *_front_legend(bool(front))]))


def _moments(low: float, high: float) -> list[float]:
    """Round ones between both, or about one of them."""
    if high == low:
        return [low]
    step = ticks(high - low)[1]
    return [step * number for number in range(int(low / step), int(high / step) + 2)]


def _steps(front: Sequence[PlanOfFront], across: Scale, up: Scale) -> Iterator[str]:
    """Yield the fastest in each memory, from much to little, and a mark for each plan."""
    corners: list[str] = []
    points = [(x_at(across, plan.bytes), y_at(up, plan.seconds)) for plan in front]
    for x, y in points:
        if corners:  # with less memory than the last plan, this plan is the fastest
            corners.append(f"{corners[-1].partition(',')[0]},{y}")
        corners.append(f"{x},{y}")
    if corners:
        yield (
            f'<polyline class="best" points="{" ".join(corners)}" fill="none" stroke="#0072b2" '
            'stroke-width="2"/>'
        )
    for plan, (x, y) in zip(front, points, strict=True):
        figures = f"{format_duration(plan.seconds)}, {format_bytes(plan.bytes)}, estimated"
        yield (
            f'<circle class="best" cx="{x}" cy="{y}" r="4" fill="#0072b2">'
            f"<title>{escape(plan.plan)}: {figures}</title></circle>"
        )


def _numbered_mark(number: int, plan: PlanOfStep, x: float, y: float) -> str:
    figures = f"{format_duration(plan.seconds)}, {format_bytes(plan.memory.bytes)}, simulated"
    return (
        f'<g class="simulated" fill="#000000"><title>{number}: {escape(plan.title)}: '
        f"{figures}</title>"
        f'<circle cx="{x}" cy="{y}" r="8" fill="#e69f00" stroke="#000000" stroke-opacity="0.5"/>'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="11" font-weight="600">'
        f"{number}</text></g>"
    )


def _front_legend(front: bool) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="14" font-weight="600">{_FRONT_HEADING}</text>'
    x = LEFT
    if front:
        yield (
            f'<line class="best" x1="{x}" x2="{x + 30}" y1="31" y2="31" stroke="#0072b2" '
            f'stroke-width="2"/><text x="{x + 36}" y="35">fastest plan within each memory,'
            " estimated</text>"
        )
        x += 330
    yield (
        f'<circle cx="{x + 8}" cy="31" r="7" fill="#e69f00" stroke="#000000" stroke-opacity="0.5"/>'
        f'<text x="{x + 22}" y="35">simulated, by rank</text>'
    )
