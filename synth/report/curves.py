"""Time and bus bandwidth against message size, as SVG: the same for the page and for reports.

Sizes are logarithmic, times too; bus bandwidth begins at 0. Lines take their colours from classes
where a page has such (``.curve .best``), else from attributes, so that a drawing stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10, prod

from markupsafe import Markup

from hierarchies.units import duration, volume
from synth.calibration.logs.tables import busbw_factor
from synth.emit.timeline.svg import ticks
from synth.verbs.answers.ranked import SizeFigures, Stretch, SweepReply

LEFT, RIGHT, TOP, BOTTOM = 84, 24, 46, 42
WIDTH, HEIGHT = 760, 340
"""Of all drawings of figures against figures, and the margins around the figures."""
_LOOKS = {"best": ("#0072b2", ""), "default": ("#d55e00", "12 3"), "bound": ("#6b6b6b", "6 4")}
"""The colour of each line, and its dashes: nothing is said by colour alone."""
_LABELS = {"best": "best answer", "default": "default", "bound": "bound"}
Lines = dict[str, list[tuple[float, float]]]
"""Points of size and value, by the names of lines."""


@dataclass(frozen=True)
class Curves:
    """The figures of every size, the stretches after the first, and the drawings of both."""

    sizes: Sequence[SizeFigures]
    crossovers: Sequence[Stretch]
    drawings: Sequence[Markup]


@dataclass(frozen=True)
class Scale:
    """Where values lie between 0 and 1, which of them are labelled, and how."""

    at: Callable[[float], float]
    ticks: Sequence[float]
    text: Callable[[float], str]


def curves(answer: SweepReply) -> Curves:
    """The curves of an answer over a range of sizes."""
    sizes = sorted(answer.sizes, key=lambda one: one.bytes)
    crossovers = answer.stretches[1:]
    axes = answer.stretches[0].first.axes if answer.stretches else {}
    members = prod(axes.get(name, 1) for name in answer.reduce)
    factor = busbw_factor(answer.request.value, members) / 1e9
    times = {
        "best": [(one.bytes, one.seconds) for one in sizes],
        "default": [(one.bytes, one.baseline_seconds) for one in sizes],
        "bound": [(one.bytes, one.bound_seconds) for one in sizes],
    }
    lines: Lines = {name: [(float(x), y) for x, y in line if y > 0] for name, line in times.items()}
    rates: Lines = {
        name: [(size, factor * size / seconds) for size, seconds in lines[name]]
        for name in ("best", "default")
    }
    marks = [one.from_bytes for one in crossovers]
    drawn = [
        _drawing("Time against message size", lines, marks, _seconds),
        _drawing("Bus bandwidth against message size", rates, marks, _rates),
    ]
    return Curves(sizes, crossovers, [Markup(one) for one in drawn if one])


def _drawing(
    heading: str,
    lines: Lines,
    marks: Sequence[int],
    scale: Callable[[Sequence[float]], Scale],
) -> str:
    """Some lines over sizes, with a dashed one where another answer becomes the best."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    across, up = _sizes([x for x, _ in points]), scale([y for _, y in points])
    parts = [*grid(across, up), *_marks(across, marks)]
    for name, line in lines.items():
        parts += _line(name, [(x_at(across, x), y_at(up, y), x, y) for x, y in line], up.text)
    parts += _legend(heading, lines)
    return framed(heading, parts)


def framed(heading: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    """The drawing of figures that has these parts."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" role="img" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
        f"<title>{escape(heading)}</title>{''.join(parts)}</svg>"
    )


def _sizes(values: Sequence[float]) -> Scale:
    """Powers of two, at most about ten of them."""
    low, high = min(values), max(values)
    first, last = ceil(log10(low) / log10(2) - 1e-9), floor(log10(high) / log10(2) + 1e-9)
    every = max(1, ceil((last - first) / 10))
    return Scale(_logarithmic(low, high), [2.0**n for n in range(first, last + 1, every)], volume)


def _seconds(values: Sequence[float]) -> Scale:
    """Powers of ten, or 1, 2 and 5 times such where there are few."""
    low, high = min(values), max(values)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    found = [10.0**power * factor for power in powers for factor in factors]
    inside = [one for one in found if low * 0.999 <= one <= high * 1.001]
    return Scale(_logarithmic(low, high), inside, duration)


def _rates(values: Sequence[float]) -> Scale:
    """From 0 on."""
    high = max(values)
    return linear(0.0, high, ticks(high), lambda value: f"{value:g} GB/s")


def _logarithmic(low: float, high: float) -> Callable[[float], float]:
    """From 0 to 1 for values from the lowest to the highest; all at 0.5 if these are one."""
    wide = log10(high) - log10(low)
    return lambda value: (log10(value) - log10(low)) / wide if wide else 0.5


def linear(low: float, high: float, marked: Sequence[float], text: Callable[[float], str]) -> Scale:
    """From the lowest to the highest, labelled where it is ``marked``."""
    wide = high - low
    return Scale(
        lambda value: (value - low) / wide if wide else 0.5,
        [one for one in marked if low <= one <= high],
        text,
    )


def x_at(scale: Scale, value: float) -> float:
    """Where a value is from left to right."""
    return round(LEFT + scale.at(value) * (WIDTH - LEFT - RIGHT), 1)


def y_at(scale: Scale, value: float) -> float:
    """Where a value is from top to bottom."""
    return round(HEIGHT - BOTTOM - scale.at(value) * (HEIGHT - TOP - BOTTOM), 1)


def grid(across: Scale, up: Scale) -> Iterator[str]:
    """Pale lines at what is labelled on both scales, and the labels."""
    pale = 'stroke="currentColor" stroke-opacity="0.15"'
    for value in across.ticks:
        x = x_at(across, value)
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" {pale}/>'
        yield (
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" font-size="11">'
            f"{across.text(value)}</text>"
        )
    for value in up.ticks:
        y = y_at(up, value)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" {pale}/>'
        yield (
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" font-size="11">'
            f"{up.text(value)}</text>"
        )


def _marks(across: Scale, sizes: Sequence[int]) -> Iterator[str]:
    for size in sizes:
        x = x_at(across, size)
        yield (
            f'<line class="crossover" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
            'stroke="currentColor" stroke-opacity="0.6" stroke-dasharray="2 4">'
            f"<title>another answer from {volume(size)} on</title></line>"
        )


def _line(
    name: str, points: Sequence[tuple[float, float, float, float]], text: Callable[[float], str]
) -> Iterator[str]:
    colour, dashes = _LOOKS[name]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    path = " ".join(f"{x},{y}" for x, y, _, _ in points)
    yield (
        f'<polyline class="{name}" points="{path}" fill="none" stroke="{colour}" '
        f'stroke-width="2"{dashed}/>'
    )
    for x, y, size, value in points:
        seen = ("3", "1") if name == "best" else ("6", "0")
        yield (
            f'<circle class="{name}" cx="{x}" cy="{y}" r="{seen[0]}" stroke="none" '
            f'fill="{colour}" fill-opacity="{seen[1]}">'
            f"<title>{_LABELS[name]}, {volume(size)}: {text(value)}</title></circle>"
        )


def _legend(heading: str, lines: Lines) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="14" font-weight="600">{escape(heading)}</text>'
    x = LEFT
    for name in lines:
        colour, dashes = _LOOKS[name]
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        yield (
            f'<line class="{name}" x1="{x}" x2="{x + 30}" y1="31" y2="31" stroke="{colour}" '
            f'stroke-width="2"{dashed}/><text x="{x + 36}" y="35">{_LABELS[name]}</text>'
        )
        x += 130
