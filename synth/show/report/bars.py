"""What things are made of, as SVG: a bar for each, with a part for each kind, on one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from synth.show.report.colours import FEW_COLOURS
from synth.show.report.curves import RIGHT, WIDTH, frame_drawing

_LEFT, _TOP, _TALL, _GAP, _LEGEND = 150, 30, 20, 7, 22
_COLOURS = (*FEW_COLOURS, "#a6a6a6")


@dataclass(frozen=True)
class StackedBar:
    """A bar: what it is called, and how much there is of each kind."""

    label: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Limit:
    """How much there may be, and what that is."""

    value: float
    label: str


def draw_bars(
    heading: str,
    kinds: Sequence[str],
    several: Sequence[StackedBar],
    text: Callable[[float], str],
    limit: Limit | None = None,
) -> Markup:
    """The bars from the top, their parts in the order of the ``kinds``: at most nine, of a colour
    each, whichever of them there are.
    """
    met = {kind for one in several for kind, value in one.parts.items() if value}
    every = zip(kinds, _COLOURS, strict=False)
    colours = {kind: colour for kind, colour in every if kind in met}
    most = max([sum(one.parts.values()) for one in several] + [limit.value if limit else 0.0])
    legend = list(_legend(colours))
    top = _TOP + _LEGEND * (1 + max((row for row, _ in legend), default=0)) + 20 * bool(limit)
    height = top + len(several) * (_TALL + _GAP) + 12
    left = min(max([_LEFT, *(8 + 7 * len(one.label) for one in several)]), WIDTH // 2)
    per = (WIDTH - left - RIGHT - 80) / most if most else 0.0
    parts = [f'<text x="0" y="14" font-weight="600">{escape(heading)}</text>']
    parts += [drawn for _, drawn in legend]
    if limit:
        parts.append(_limit(limit, left + limit.value * per, top - 6, height - 10))
    for number, one in enumerate(several):
        y = top + number * (_TALL + _GAP)
        parts += _bar(one, colours, (left, per), y, text)
        parts.append(
            f'<text x="{left + most * per + 8:.1f}" y="{y + 14}">{_total_text(one, text)}</text>'
        )
    return Markup(frame_drawing(heading, parts, height))


def _legend(colours: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """What each colour is, in rows, and in which."""
    x, row = 0, 0
    for kind, colour in colours.items():
        wide = 34 + 7 * len(kind)
        if x and x + wide > WIDTH:
            x, row = 0, row + 1
        y = _TOP + row * _LEGEND
        box = f'<rect x="{x}" y="{y - 2}" width="12" height="12" fill="{colour}"/>'
        yield row, f'{box}<text x="{x + 17}" y="{y + 8}">{escape(kind)}</text>'
        x += wide


def _limit(one: Limit, x: float, above: int, below: int) -> str:
    return (
        f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{above}" y2="{below}" '
        'stroke="currentColor" stroke-width="2" stroke-dasharray="6 4"/>'
        f'<text x="{x:.1f}" y="{above - 6}" text-anchor="end" font-size="11">'
        f"{escape(one.label)}</text>"
    )


def _bar(
    one: StackedBar,
    colours: Mapping[str, str],
    scale: tuple[int, float],
    y: int,
    text: Callable[[float], str],
) -> Iterator[str]:
    """A bar from where 0 lies on, so many pixels long for each of its unit."""
    left, per = scale
    x = float(left)
    yield f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(one.label)}</text>'
    for kind, colour in colours.items():
        value = one.parts.get(kind, 0.0)
        yield (
            f'<rect class="part" x="{x:.1f}" y="{y}" width="{value * per:.1f}" height="{_TALL}" '
            f'fill="{colour}"><title>{escape(one.label)}, {escape(kind)}: '
            f"{escape(text(value))}</title></rect>"
        )
        x += value * per


def _total_text(one: StackedBar, text: Callable[[float], str]) -> str:
    return escape(text(sum(one.parts.values())))
