"""The simulated run as an SVG drawing: for reports, notebooks and the service's page.

Styles are presentation attributes, and text and lines use currentColor, so the file works alone,
and a page that inlines it may restyle it by its classes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape

from hierarchies.units import format_duration
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.timeline.chart import Chart, ChartBar, ChartRow, chart
from synth.collective.emit.timeline.names import LOWEST, bar_name_attributes, ticks, write_bar_name

COLOURS = {
    "all-reduce": "#0072b2",
    "reduce-scatter": "#e69f00",
    "all-gather": "#009e73",
    "reduce": "#d55e00",
    "broadcast": "#56b4e9",
    "all-to-all": "#cc79a7",
    "transpose": "#8c8c8c",
}
"""Okabe and Ito's colours, distinguishable with any kind of colour blindness."""
_LEFT, _WIDTH, _RIGHT = 280, 640, 80
_TOP, _GAP = 46, 8
_ALONE, _BESIDE, _THIN = 16, 13, 5
_TALLEST = 480
"""If all rows together would be taller, lanes are thinner and have no names."""
_LETTERS = 40
"""Longer labels are compressed, so that they are not cut off."""
_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(source: EmitSource) -> Files:
    """Returns the drawing, and its contents as JSON for a table next to it."""
    drawn = chart(source)
    data = {"program": str(source.schedule.program), **drawn.as_json()}
    return {
        "timeline.svg": "\n".join(_drawing(drawn)) + "\n",
        "timeline.json": json.dumps(data, indent=1) + "\n",
    }


def _drawing(drawn: Chart) -> Iterator[str]:
    beside = _BESIDE if drawn.lanes * len(drawn.rows) * _BESIDE <= _TALLEST else _THIN
    lane = _ALONE if drawn.lanes == 1 else beside
    tall = max(_ALONE, drawn.lanes * lane)
    height = _TOP + len(drawn.rows) * (tall + _GAP) + 16
    width = _LEFT + _WIDTH + _RIGHT
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
    )
    yield f"<title>Timeline: {format_duration(drawn.seconds)} in all</title>"
    yield from _legend(drawn)
    yield from _scale(drawn.seconds, height)
    striped = any(bar.stripe > 1 for row in drawn.rows for bar in row.bars)
    for number, row in enumerate(drawn.rows):
        yield from _row(row, _TOP + number * (tall + _GAP), tall, lane, drawn.seconds, striped)
    yield "</svg>"


def _legend(drawn: Chart) -> Iterator[str]:
    x = _LEFT
    for name in dict.fromkeys(bar.what for row in drawn.rows for bar in row.bars):
        yield (
            f'<g class="key"><rect class="bar {_class(name)}" x="{x}" y="4" width="12" height="12" '
            f'fill="{COLOURS.get(name, "#8c8c8c")}"/>'
            f'<text x="{x + 17}" y="14">{_text(name)}</text></g>'
        )
        x += 34 + 7 * len(name)


def _scale(seconds: float, height: int) -> Iterator[str]:
    """Yields lines at round times, with their labels above."""
    for moment in ticks(seconds):
        x = _x_position(moment, seconds)
        yield (
            f'<g class="tick"><line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{height - 8}" '
            'stroke="currentColor" stroke-opacity="0.2"/>'
            f'<text x="{x}" y="{_TOP - 12}" text-anchor="middle" font-size="11">'
            f"{format_duration(moment)}</text></g>"
        )


def _row(
    row: ChartRow, y: int, tall: int, lane: int, seconds: float, striped: bool = False
) -> Iterator[str]:
    count = f" (and {row.alike - 1} alike)" if row.alike > 1 else ""
    label = {"device": row.name, "link": f"{row.name}: busiest port"}.get(row.kind, row.name)
    share = row.busy_seconds / seconds if seconds else 0.0
    label_text = label + count
    fitted = f' textLength="{_LEFT - 16}" lengthAdjust="spacingAndGlyphs"'
    yield f'<g class="row {row.kind}">'
    yield (
        f'<text class="label" x="{_LEFT - 8}" y="{y + tall // 2 + 4}" text-anchor="end"'
        f"{fitted if len(label_text) > _LETTERS else ''}>{_text(label_text)}</text>"
    )
    yield (
        f'<rect class="ground" x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{tall}" '
        'fill="currentColor" fill-opacity="0.06"/>'
    )
    names = row.kind == "device" and lane - 1 >= LOWEST
    bar_names = [_name_step(bar, striped) if names else "" for bar in row.bars]
    for bar, name in zip(row.bars, bar_names, strict=True):
        yield _bar(bar, y + bar.lane * lane, lane, seconds, name)
    for bar, name in zip(row.bars, bar_names, strict=True):
        yield _name(bar, y + bar.lane * lane, lane, seconds, name)
    yield (
        f'<text class="share" x="{_LEFT + _WIDTH + 8}" y="{y + tall // 2 + 4}">'
        f"{share:.0%} busy</text></g>"
    )


def _bar(bar: ChartBar, y: int, tall: int, seconds: float, name: str) -> str:
    x, end = _x_position(bar.begin_seconds, seconds), _x_position(bar.end_seconds, seconds)
    opacity = 0.35 + 0.65 * bar.busy_share
    return (
        f'<rect class="bar {_class(bar.what)}" x="{x}" y="{y}" '
        f'width="{max(0.2, round(end - x, 2))}" height="{tall - 1}" '
        f'fill="{_colour(bar)}" '
        f'fill-opacity="{opacity:.2f}"{bar_name_attributes(name, _colour(bar))}>'
        f"<title>{_text(_describe_bar(bar))}</title></rect>"
    )


def _name(bar: ChartBar, y: int, tall: int, seconds: float, name: str) -> str:
    x, end = _x_position(bar.begin_seconds, seconds), _x_position(bar.end_seconds, seconds)
    return write_bar_name(name, x, y, end - x, tall - 1, _colour(bar))


def _name_step(bar: ChartBar, striped: bool) -> str:
    """Returns the step's number, as in tables of steps, and its collective."""
    number = f"{bar.stripe}.{bar.step}" if striped else str(bar.step)
    return _UNPRINTABLE.sub("\ufffd", f"{number} {bar.what}")


def _colour(bar: ChartBar) -> str:
    return COLOURS.get(bar.what, "#8c8c8c")


def _describe_bar(bar: ChartBar) -> str:
    joined = bar.last_segment > bar.first_segment
    segments = f"{bar.first_segment} to {bar.last_segment}" if joined else bar.first_segment
    busy = "" if bar.busy_share == 1.0 else f", busy {bar.busy_share:.0%}"
    when = f"{format_duration(bar.begin_seconds)} to {format_duration(bar.end_seconds)}"
    return f"step {bar.step} of stripe {bar.stripe}, {bar.what}, segment {segments}: {when}{busy}"


def _x_position(moment: float, seconds: float) -> float:
    return round(_LEFT + _WIDTH * (moment / seconds if seconds else 0.0), 2)


def _class(name: str) -> str:
    return "is-" + re.sub("[^a-z-]", "", name)


def _text(text: str) -> str:
    """Returns text as XML: escaped, and without characters that XML does not allow."""
    return escape(_UNPRINTABLE.sub("\ufffd", text))
