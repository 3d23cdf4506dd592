"""Bus bandwidth, speed-up and time against message size, as SVG: the same for page and reports.

Sizes are logarithmic, as usual for nccl-tests; bus bandwidth and speed-up begin at 0, and times are
also logarithmic. Lines have the colours of a page's classes (``.curve .best``) if it has any, else
of attributes, so that a drawing is self-contained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10, prod

from markupsafe import Markup

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.parts import KEEP_DEFAULT
from synth.ask.answers.ranked import SizeFigures, StretchPart, SweepReply
from synth.collective.emit.timeline.names import ticks
from synth.show.report.colours import FEW_COLOURS
from synth.show.report.rendering import Cells, cells_of
from synth.show.terminal.rows import RankingRow, bus_bandwidth, default_by_size, rows, speedup_text
from synth.show.terminal.style import Columns, algorithm_name, table_of

LEFT, RIGHT, TOP, BOTTOM = 84, 24, 46, 42
WIDTH, HEIGHT = 760, 340
"""The size of charts, and their margins."""
_DASHES = ("", "12 3", "2 3", "12 3 2 3")
_FIGURES = "size,best time,bus bandwidth,default time,default bus bandwidth,speed-up,bound"
_LABEL = 56
"""The width of the label of a size."""
Lines = dict[str, list[tuple[float, float]]]
"""Points of size and value, by the names of lines."""


@dataclass(frozen=True)
class Curves:
    """The figures of every size as a table and as drawings.

    ``changes``: from which size on the default is which; ``stretches``: what to do at which sizes,
    each but the first from a dotted line on.
    """

    table: Cells
    changes: Sequence[str]
    stretches: Sequence[SizeRangeAction]
    drawings: Sequence[Markup]


@dataclass(frozen=True)
class SizeRangeAction:
    """The recommendation for a range of sizes: the program, if any, and how or why."""

    sizes: str
    program: str
    note: str


@dataclass(frozen=True)
class LineStyle:
    """A line: its colour, its dashes (nothing is said by colour alone), its class and its name."""

    colour: str
    dashes: str
    kind: str
    label: str


_LOOKS = {
    "best": LineStyle("#0072b2", "", "best", "best answer"),
    "default": LineStyle("#d55e00", "12 3", "default", "default"),
    "bound": LineStyle("#6b6b6b", "6 4", "bound", "bound"),
    "measured": LineStyle("#0072b2", "", "best", "measured"),
    "predicted": LineStyle("#d55e00", "12 3", "default", "predicted"),
}


@dataclass(frozen=True)
class Scale:
    """The position of values between 0 and 1, the labelled values and their text."""

    at: Callable[[float], float]
    ticks: Sequence[float]
    text: Callable[[float], str]


def draw_curves(answer: SweepReply) -> Curves:
    """Return the curves of an answer over a range of sizes."""
    sizes = sorted(answer.sizes, key=lambda size: size.bytes)
    axes = answer.stretches[0].first.axes if answer.stretches else {}
    members = prod(axes.get(name, 1) for name in answer.reduce)
    factor = answer.request.busbw_factor(members) / 1e9
    times = {
        "best": [(size.bytes, size.seconds) for size in sizes],
        "default": [(size.bytes, size.baseline_seconds) for size in sizes],
        "bound": [(size.bytes, size.bound_seconds) for size in sizes],
    }
    lines: Lines = {name: [(float(x), y) for x, y in line if y > 0] for name, line in times.items()}
    rates: Lines = {
        name: [(size, factor * size / seconds) for size, seconds in line]
        for name, line in lines.items()
    }
    gains: Lines = {
        "best": [
            (size.bytes, size.baseline_seconds / size.runtime_seconds)
            for size in sizes
            if size.seconds
        ],
        "default": [(size.bytes, 1.0) for size in sizes if size.seconds],
    }
    marks = [stretch.from_bytes for stretch in answer.stretches[1:]]
    drawn = [
        _drawing("Bus bandwidth against message size", rates, marks, _rates),
        _drawing("Speed-up over the default against message size", gains, marks, _gains),
        _drawing("Time against message size", lines, marks, _seconds),
    ]
    request = answer.request.value
    columns: Columns[SizeFigures] = {
        "size": lambda size: format_bytes(size.bytes),
        "best time": lambda size: format_duration(size.seconds),
        "bus bandwidth": lambda size: bus_bandwidth(request, size.bytes, size.seconds, members),
        "default time": lambda size: format_duration(size.baseline_seconds),
        "default algorithm": lambda size: algorithm_name(size.default_name, size.default_protocol),
        "default bus bandwidth": lambda size: bus_bandwidth(
            request, size.bytes, size.baseline_seconds, members
        ),
        "speed-up": _speedup,
        "bound": lambda size: format_duration(size.bound_seconds),
        "program": lambda size: size.program.replace("; ", ";\n") or "nothing to do",
    }
    table = table_of(sizes, columns, right=_FIGURES)
    return Curves(
        cells_of(table),
        default_by_size(answer),
        [*map(_range_action, answer.stretches, rows(answer))],
        [Markup(drawing) for drawing in drawn if drawing],
    )


def _speedup(size: SizeFigures) -> str:
    return speedup_text(
        size.against_default, size.worth_measuring, size.baseline_seconds, size.runtime_seconds
    )


def _range_action(stretch: StretchPart, row: RankingRow) -> SizeRangeAction:
    sizes = " to ".join(row.title)
    if stretch.keeps_default:
        return SizeRangeAction(sizes, "", KEEP_DEFAULT.text)
    program = "; ".join(step for stripe in row.stripes for step in stripe.steps)
    return SizeRangeAction(
        sizes, program, ", ".join(filter(None, (row.by, " to ".join(row.speedup))))
    )


def draw_bandwidths(heading: str, lines: Lines) -> Markup:
    """Bus bandwidth in GB/s against size in bytes, a line for each name; nothing without points."""
    return Markup(_drawing(heading, lines, (), _rates))


def draw_speedups(heading: str, lines: Lines) -> Markup:
    """Speed-up over the default against size in bytes, a line for each name."""
    return Markup(_drawing(heading, lines, (), _gains))


def draw_times(heading: str, lines: Lines) -> Markup:
    """Seconds against a number above 0, such as samples, a line for each name; both from 0 on."""
    return Markup(_drawing(heading, lines, (), _seconds_from_0, _numbers_from_0))


def _drawing(
    heading: str,
    lines: Lines,
    marks: Sequence[int],
    scale: Callable[[Sequence[float]], Scale],
    scale_across: Callable[[Sequence[float]], Scale] | None = None,
) -> str:
    """Some lines over sizes, or over another scale, with dotted ones where advice changes."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    across = (scale_across or _sizes)([x for x, _ in points])
    up = scale([y for _, y in points])
    parts = [*grid(across, up), *_marks(across, marks)]
    looks = _looks(lines)
    for name, line in lines.items():
        parts += _line(
            looks[name],
            [(x_at(across, x), y_at(up, y), x, y) for x, y in line],
            across.text,
            up.text,
        )
    parts += _legend(heading, looks.values())
    return frame_drawing(heading, parts)


def frame_drawing(heading: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    """Return the SVG drawing of these parts."""
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
    return Scale(
        _log_position(low, high), [2.0**n for n in range(first, last + 1, every)], format_bytes
    )


def _seconds(values: Sequence[float]) -> Scale:
    """Powers of ten, or 1, 2 and 5 times such where there are few."""
    low, high = min(values), max(values)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    found = [10.0**power * factor for power in powers for factor in factors]
    inside = [mark for mark in found if low * 0.999 <= mark <= high * 1.001]
    return Scale(_log_position(low, high), inside, format_duration)


def _rates(values: Sequence[float]) -> Scale:
    return _zero_based_scale(values, lambda value: f"{value:g} GB/s")


def _gains(values: Sequence[float]) -> Scale:
    return _zero_based_scale(values, lambda value: f"{value:.3g}x")


def _seconds_from_0(values: Sequence[float]) -> Scale:
    return _zero_based_scale(values, format_duration)


def _numbers_from_0(values: Sequence[float]) -> Scale:
    return _zero_based_scale(values, lambda value: f"{value:,.10g}")


def _zero_based_scale(values: Sequence[float], text: Callable[[float], str]) -> Scale:
    """Up to a mark: none of the values lies above them all, so that each is read between two."""
    high = max(values)
    marks = ticks(high)
    if len(marks) > 1 and marks[-1] < high:
        marks.append(float(f"{marks[-1] + marks[1]:.6g}"))
    return linear_scale(0.0, max(high * 1.05, marks[-1]), marks, text)


def _log_position(low: float, high: float) -> Callable[[float], float]:
    """From 0 to 1 for values from the lowest to the highest; all at 0.5 if these are one."""
    wide = log10(high) - log10(low)
    return lambda value: (log10(value) - log10(low)) / wide if wide else 0.5


def linear_scale(
    low: float, high: float, marked: Sequence[float], text: Callable[[float], str]
) -> Scale:
    """From the lowest to the highest, labelled where it is ``marked``."""
    wide = high - low
    return Scale(
        lambda value: (value - low) / wide if wide else 0.5,
        [mark for mark in marked if low <= mark <= high],
        text,
    )


def x_at(scale: Scale, value: float) -> float:
    """Return the x coordinate of a value."""
    return round(LEFT + scale.at(value) * (WIDTH - LEFT - RIGHT), 1)


def y_at(scale: Scale, value: float) -> float:
    """Return the y coordinate of a value."""
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
    """Yield lines where the recommendation changes, labelled with the size where there is room."""
    free = float(LEFT)
    for size in sizes:
        x = x_at(across, size)
        yield (
            f'<line class="crossover" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
            'stroke="currentColor" stroke-opacity="0.6" stroke-dasharray="2 4">'
            f"<title>recommendation changes at {format_bytes(size)}</title></line>"
        )
        last = x + _LABEL > WIDTH - RIGHT
        begins = x - _LABEL if last else x
        if begins >= free:
            yield (
                f'<text class="crossover" x="{x - 4 if last else x + 4:g}" y="{TOP + 10}" '
                f'text-anchor="{"end" if last else "start"}" '
                f'font-size="11">{format_bytes(size)}</text>'
            )
            free = begins + _LABEL


def _looks(lines: Lines) -> Mapping[str, LineStyle]:
    """Return the style of each line: fixed for known names, by order for others."""
    return {
        name: _LOOKS.get(name)
        or LineStyle(
            FEW_COLOURS[at % len(FEW_COLOURS)],
            _DASHES[at // len(FEW_COLOURS) % len(_DASHES)],
            "other",
            name,
        )
        for at, name in enumerate(lines)
    }


def _line(
    look: LineStyle,
    points: Sequence[tuple[float, float, float, float]],
    text_across: Callable[[float], str],
    text: Callable[[float], str],
) -> Iterator[str]:
    dashed = f' stroke-dasharray="{look.dashes}"' if look.dashes else ""
    path = " ".join(f"{x},{y}" for x, y, _, _ in points)
    yield (
        f'<polyline class="{look.kind}" points="{path}" fill="none" stroke="{look.colour}" '
        f'stroke-width="2"{dashed}/>'
    )
    for x, y, size, value in points:
        seen = ("3", "1") if look.kind in ("best", "other") else ("6", "0")
        yield (
            f'<circle class="{look.kind}" cx="{x}" cy="{y}" r="{seen[0]}" stroke="none" '
            f'fill="{look.colour}" fill-opacity="{seen[1]}">'
            f"<title>{escape(look.label)}, {text_across(size)}: {text(value)}</title></circle>"
        )


def _legend(heading: str, looks: Iterable[LineStyle]) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="14" font-weight="600">{escape(heading)}</text>'
    x = LEFT
    for look in looks:
        dashed = f' stroke-dasharray="{look.dashes}"' if look.dashes else ""
        yield (
            f'<line class="{look.kind}" x1="{x}" x2="{x + 30}" y1="31" y2="31" '
            f'stroke="{look.colour}" stroke-width="2"{dashed}/>'
            f'<text x="{x + 36}" y="35">{escape(look.label)}</text>'
        )
        x += max(130, 56 + 7 * len(look.label))
