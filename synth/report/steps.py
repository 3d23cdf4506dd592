"""The timeline of a simulated step as SVG: a row for each stream, of a pipeline for each rank.

Bars stand in a drawing of their own, whose view of the time a page may change: what is at its left
stays. Looks are presentation attributes, so that the file stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from hierarchies.units import duration
from synth.emit.timeline.svg import ticks
from synth.verbs.answers.training.simulated import RowOfStep, SimulateReply

_LEFT, _WIDTH, _RIGHT, _TOP = 170, 760, 70, 46
_TALL, _GAP = 18, 6
_WIDE = 100_000
"""The width of the bars' own drawing: fine enough that short ones are still there if enlarged."""

MOST_RANKS = 32
_COLOURS = {
    "computing": "#0072b2",
    "communication": "#e69f00",
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "once": "#009e73",
}
"""Of Okabe and Ito's, which people see apart whatever kind of colour blindness they have."""


@dataclass(frozen=True)
class Line:
    """A row of the drawing."""

    label: str
    rows: Sequence[RowOfStep]


def timeline(answer: SimulateReply) -> Markup:
    """The drawing; bars say what they are when pointed at."""
    lines = list(_lines(answer))
    height = _TOP + len(lines) * (_TALL + _GAP) + 10
    width = _LEFT + _WIDTH + _RIGHT
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline step" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="currentColor" '
        f'data-seconds="{answer.seconds!r}">'
        f"<title>Timeline of {escape(answer.name)}: {duration(answer.seconds)}</title>"
        f"{''.join(_legend(lines))}{''.join(_labels(lines, answer.seconds))}"
        f'<svg class="bars" x="{_LEFT}" y="{_TOP - 8}" width="{_WIDTH}" height="{height - _TOP}" '
        f'viewBox="0 0 {_WIDE} {height - _TOP}" preserveAspectRatio="none">'
        f"{''.join(_bars(lines, answer.seconds))}</svg></svg>"
    )


def _lines(answer: SimulateReply) -> Iterator[Line]:
    """Passes of the ranks; then what the busiest rank is made of, stream by stream."""
    for number, rank in enumerate(answer.ranks[:MOST_RANKS]):
        passes = [row for row in rank.rows if row.stream == "passes"]
        if passes:
            yield Line(f"rank {number}", passes)
    busiest = answer.ranks[answer.busiest]
    before = f"rank {answer.busiest}, " if len(answer.ranks) > 1 else ""
    streams = dict.fromkeys(row.stream for row in busiest.rows if row.stream != "passes")
    for stream in streams:
        yield Line(f"{before}{stream}", [row for row in busiest.rows if row.stream == stream])


def _kind(row: RowOfStep) -> str:
    if row.stream == "passes":
        word = row.name.lstrip("0123456789")[:1]
        return {"F": "forward", "B": "backward"}.get(word, "once")
    sends = ": " in row.name and " over " in row.name
    return "communication" if sends else "computing"


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    x = _LEFT
    for kind in dict.fromkeys(_kind(row) for line in lines for row in line.rows):
        yield (
            f'<rect x="{x}" y="4" width="12" height="12" fill="{_COLOURS[kind]}"/>'
            f'<text x="{x + 17}" y="14">{kind}</text>'
        )
        x += 34 + 7 * len(kind)


def _labels(lines: Sequence[Line], seconds: float) -> Iterator[str]:
    """What stands beside the bars: names, shares of the time, and the ends of the view."""
    yield (
        f'<text class="from" x="{_LEFT}" y="{_TOP - 14}" font-size="11">0 s</text>'
        f'<text class="until" x="{_LEFT + _WIDTH}" y="{_TOP - 14}" text-anchor="end" '
        f'font-size="11">{duration(seconds)}</text>'
    )
    for at, line in enumerate(lines):
        y = _TOP + at * (_TALL + _GAP) + _TALL // 2
        busy = sum(row.end_seconds - row.begin_seconds for row in line.rows)
        share = min(1.0, busy / seconds) if seconds else 0.0
        fitted = ' textLength="160" lengthAdjust="spacingAndGlyphs"' if len(line.label) > 26 else ""
        yield (
            f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end"{fitted}>{escape(line.label)}</text>'
            f'<text x="{_LEFT + _WIDTH + 8}" y="{y}">{share:.0%}</text>'
        )


def _bars(lines: Sequence[Line], seconds: float) -> Iterator[str]:
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
            begin = _WIDE * row.begin_seconds / seconds if seconds else 0.0
            wide = _WIDE * (row.end_seconds - row.begin_seconds) / seconds if seconds else 0.0
            took = duration(row.end_seconds - row.begin_seconds)
            yield (
                f'<rect class="bar" x="{begin:.1f}" y="{y}" width="{max(1.0, wide):.1f}" '
                f'height="{_TALL}" fill="{_COLOURS[_kind(row)]}" stroke="currentColor" '
                'stroke-opacity="0.25" stroke-width="0.5" vector-effect="non-scaling-stroke">'
                f"<title>{escape(row.name)}: {took}, from {duration(row.begin_seconds)} on"
                "</title></rect>"
            )
