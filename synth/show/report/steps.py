"""The timeline of a simulated step as SVG: a row for each stream, of a pipeline for each rank.

Bars are in a separate drawing, in which a page may zoom in time while the labels on the left stay.
Styles are presentation attributes, so that the file is self-contained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from hierarchies.units import format_duration
from synth.ask.answers.training.simulated import PASSES, Activity, RankOfStep, RowOfStep
from synth.collective.emit.timeline.names import bar_name_attributes, ticks, write_bar_name

_LEFT, _WIDTH, _RIGHT, _TOP = 170, 760, 70, 46
_TALL, _GAP = 18, 6
_BESIDE_ENDS = 64
"""The distance to the times at both ends within which no other time fits."""
_WIDE = 100_000
"""The width of the bars' own drawing: fine enough that short ones are still there if enlarged."""

_EDGE = (
    ' stroke="currentColor" stroke-opacity="0.25" stroke-width="0.5" '
    'vector-effect="non-scaling-stroke"'
)
_NARROW = 3
"""The edges of narrower bars would hide their colour."""

MOST_RANKS = 32
_COLOURS = {
    Activity.COMPUTING: "#0072b2",
    Activity.COMMUNICATION: "#e69f00",
    Activity.EXPOSED: "#d55e00",
    Activity.FORWARD: "#56b4e9",
    Activity.BACKWARD: "#0072b2",
    Activity.ONCE: "#009e73",
}
"""Of Okabe and Ito's, which people see apart whatever kind of colour blindness they have."""

_KINDS = {
    Activity.COMMUNICATION: "overlapped communication",
    Activity.EXPOSED: "exposed communication",
}
"""The names in the legend, where those of activities are ambiguous."""


@dataclass(frozen=True)
class TimelineTrack:
    """A row of the drawing."""

    label: str
    rows: Sequence[RowOfStep]


def draw_timeline(
    name: str, seconds: float, ranks: Sequence[RankOfStep], whole: float = 0
) -> Markup:
    """Return the drawing; bars have titles.

    ``whole``: the time from left to right if it is longer, so that two may be compared.
    """
    lines, whole = list(_lines(ranks)), max(seconds, whole)
    height = _TOP + len(lines) * (_TALL + _GAP) + 10
    width = _LEFT + _WIDTH + _RIGHT
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline step" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="currentColor" '
        f'data-seconds="{whole!r}">'
        f"<title>Timeline of {escape(name)}: {format_duration(seconds)}</title>"
        f"{''.join(_legend(lines))}{''.join(_labels(lines, seconds, whole))}"
        f'<svg class="bars" x="{_LEFT}" y="{_TOP - 8}" width="{_WIDTH}" height="{height - _TOP}" '
        f'viewBox="0 0 {_WIDE} {height - _TOP}" preserveAspectRatio="none">'
        f"{''.join(_bars(lines, whole))}</svg>"
        f'<g class="names">{"".join(_names(lines, whole))}</g></svg>'
    )


def _lines(ranks: Sequence[RankOfStep]) -> Iterator[TimelineTrack]:
    """Yield the passes of the ranks, then the streams of the busiest rank."""
    for number, rank in enumerate(ranks[:MOST_RANKS]):
        passes = [row for row in rank.rows if row.stream == PASSES]
        if passes:
            yield TimelineTrack(f"rank {number}" if len(ranks) > 1 else PASSES, passes)
    busiest = min(range(len(ranks)), key=lambda number: ranks[number].idle_seconds)
    before = f"rank {busiest}, " if len(ranks) > 1 else ""
    rows = ranks[busiest].rows
    for stream in dict.fromkeys(row.stream for row in rows if row.stream != PASSES):
        yield TimelineTrack(f"{before}{stream}", [row for row in rows if row.stream == stream])


def _parts(row: RowOfStep) -> Mapping[Activity, float]:
    """Return the share of a row's time by activity."""
    return {Activity(kind): part for kind, part in row.parts.items()} or {row.kind: 1.0}


def _legend(lines: Sequence[TimelineTrack]) -> Iterator[str]:
    met = {kind for line in lines for row in line.rows for kind in _parts(row)}
    x = _LEFT
    for kind in (activity for activity in Activity if activity in met):
        yield (
            f'<rect x="{x}" y="4" width="12" height="12" fill="{_COLOURS[kind]}"/>'
            f'<text x="{x + 17}" y="14">{_KINDS.get(kind, kind.value)}</text>'
        )
        x += 34 + 7 * len(_KINDS.get(kind, kind.value))


def _labels(lines: Sequence[TimelineTrack], seconds: float, whole: float) -> Iterator[str]:
    """Yield the texts beside the bars: names, shares of the time, and the times of the view."""
    yield (
        f'<text class="from" x="{_LEFT}" y="{_TOP - 14}" font-size="11">0 s</text>'
        f'<text class="until" x="{_LEFT + _WIDTH}" y="{_TOP - 14}" text-anchor="end" '
        f'font-size="11">{format_duration(whole)}</text>'
    )
    for moment in ticks(whole) if whole else ():
        x = _LEFT + _WIDTH * moment / whole
        if _LEFT + _BESIDE_ENDS <= x <= _LEFT + _WIDTH - _BESIDE_ENDS:
            yield (
                f'<text class="tick" x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle" '
                f'font-size="11">{format_duration(moment)}</text>'
            )
    for at, line in enumerate(lines):
        y = _TOP + at * (_TALL + _GAP) + _TALL // 2
        busy = sum(
            sum(_parts(row).values()) * (row.end_seconds - row.begin_seconds) for row in line.rows
        )
        share = min(1.0, busy / seconds) if seconds else 0.0
        fitted = ' textLength="160" lengthAdjust="spacingAndGlyphs"' if len(line.label) > 26 else ""
        yield (
            f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end"{fitted}>{escape(line.label)}</text>'
            f'<text x="{_LEFT + _WIDTH + 8}" y="{y}">{share:.0%}</text>'
        )


def _bars(lines: Sequence[TimelineTrack], seconds: float) -> Iterator[str]:
    tall = len(lines) * (_TALL + _GAP)
    for moment in ticks(seconds):
        x = round(_WIDE * moment / seconds, 1) if seconds else 0
        yield (
            f'<line x1="{x}" x2="{x}" y1="0" y2="{tall}" stroke="currentColor" '
            'stroke-opacity="0.25" vector-effect="non-scaling-stroke"/>'
        )
    for at, line in enumerate(lines):
        y = at * (_TALL + _GAP)
        yield (
            f'<rect x="0" y="{y}" width="{_WIDE}" height="{_TALL}" fill="currentColor" '
            'fill-opacity="0.06"/>'
        )
        for row in line.rows:
            yield from _bar(row, y, _WIDE / seconds if seconds else 0.0)


def _names(lines: Sequence[TimelineTrack], seconds: float) -> Iterator[str]:
    """Yield the names on the bars; outside of the bars' own drawing, which is stretched."""
    wide_per_second = _WIDTH / seconds if seconds else 0.0
    for at, line in enumerate(lines):
        y = _TOP - 8 + at * (_TALL + _GAP)
        for row in line.rows:
            if not row.parts:
                x = _LEFT + row.begin_seconds * wide_per_second
                wide = (row.end_seconds - row.begin_seconds) * wide_per_second
                yield write_bar_name(row.name, x, y, wide, _TALL, _COLOURS[row.kind])


def _bar(row: RowOfStep, y: int, wide_per_second: float) -> Iterator[str]:
    """Yield a row as a bar; a bar for several rows has stacked parts by activity."""
    begin, took = row.begin_seconds, row.end_seconds - row.begin_seconds
    exposed = ", exposed" if row.kind is Activity.EXPOSED else ""
    title = f"{row.name}{exposed}: {format_duration(took)}, starts at {format_duration(begin)}"
    if row.parts:
        title += "; " + ", ".join(f"{part:.0%} {kind}" for kind, part in row.parts.items())
    low = float(y + _TALL)
    name = "" if row.parts else bar_name_attributes(row.name, _COLOURS[row.kind])
    edge = _EDGE if took * wide_per_second * _WIDTH > _NARROW * _WIDE else ""
    yield f'<g class="bar"{name}><title>{escape(title)}</title>'
    for kind, part in _parts(row).items():
        low -= part * _TALL
        yield (
            f'<rect x="{begin * wide_per_second:.1f}" y="{low:.4g}" '
            f'width="{max(1.0, took * wide_per_second):.1f}" height="{part * _TALL:.4g}" '
            f'fill="{_COLOURS[kind]}"{edge}/>'
        )
    yield "</g>"
