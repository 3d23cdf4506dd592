"""What a plan of a step sends, as a table whose sums are seen: times by seconds of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.gained import CollectiveOfStep
from synth.show.terminal.style import pluralize, table

_LEAST_SHARE = 0.01
"""What takes less than this share of all seconds is put together."""


def render_collectives(sent: Sequence[CollectiveOfStep]) -> Iterator[RenderableType]:
    """A row for each collective, those that take least in one, and the sums."""
    if not sent:
        return
    right = "times,each,times x each,hidden,exposed"
    made = table("sent in a step", *right.split(","), right=right, wraps="sent in a step")
    least = _LEAST_SHARE * sum(one.all_seconds for one in sent)
    shown = [one for one in sent if one.all_seconds >= least]
    rest = [one for one in sent if one.all_seconds < least]
    for one in shown:
        what = f"{one.request.value} of {format_bytes(one.bytes)} over {', '.join(one.over)}"
        made.add_row(what, str(one.times), format_duration(one.seconds), *_sums([one]))
    if rest:
        made.add_row(pluralize(len(rest), "other"), str(sum(one.times for one in rest)), "",
                     *_sums(rest))  # fmt: skip
    if len(sent) > 1:
        made.add_row("in all", str(sum(one.times for one in sent)), "", *_sums(sent))
    yield ""
    yield made


def _sums(sent: Sequence[CollectiveOfStep]) -> tuple[str, str, str]:
    """Seconds of all of some, the share that is hidden, and the rest."""
    together = sum(one.all_seconds for one in sent)
    exposed = sum(one.exposed_seconds for one in sent)
    return format_duration(together), hidden_share(exposed, together), format_duration(exposed)


def hidden_share(exposed_seconds: float, all_seconds: float) -> str:
    """The share that is hidden; not ``100%`` of what has something exposed.

    >>> hidden_share(0.0, 0.05), hidden_share(106e-6, 54.2e-3), hidden_share(85.5e-3, 96.7e-3)
    ('100%', '99.8%', '12%')
    >>> hidden_share(1e-9, 1.0)
    'over 99.9%'
    """
    hidden = 1 - exposed_seconds / all_seconds if all_seconds else 0.0
    if not exposed_seconds or f"{hidden:.0%}" != "100%":
        return f"{hidden:.0%}"
    return "over 99.9%" if f"{hidden:.1%}" == "100.0%" else f"{hidden:.1%}"
