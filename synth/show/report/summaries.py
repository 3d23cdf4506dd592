"""Answers without a ranking on a page: a headline, explanations, a table, and drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from synth.ask.answers.training.swept import PlanSweepReply
from synth.ask.training.swept import NUMBERS
from synth.show.report.charts import StackedBar, draw_bars
from synth.show.report.curves import Lines, draw_times
from synth.show.report.rendering import Cells, cells_of
from synth.show.terminal.training.swept import (
    LEGEND,
    SweepSummary,
    rate_text,
    summarize_sweep,
    table_of_sweep,
)

_MOST_BARS = 40
_MOST_LINES = 8


@dataclass(frozen=True)
class AnswerView:
    """A headline, the lines below it, and drawings, each under a heading.

    ``onward`` has links to the next questions about the same machine; ``table`` holds the whole
    answer, if it is one table, with its ``legend``.
    """

    headline: str
    lines: Sequence[str]
    drawings: Sequence[tuple[str, Markup]]
    onward: Sequence[tuple[str, str]] = ()
    table: Cells | None = None
    legend: str = ""


def view_sweep(answer: PlanSweepReply) -> AnswerView:
    """Returns the view of plans for several values: verdict, table, bars, seconds by a number."""
    summary = summarize_sweep(answer)
    drawings = [*_draw_throughputs(summary), *_draw_seconds(answer)]
    table = cells_of(table_of_sweep(answer, summary))
    return AnswerView(summary.headline, summary.lines, drawings, table=table, legend=LEGEND)


def _draw_throughputs(summary: SweepSummary) -> Iterator[tuple[str, Markup]]:
    """Yields a bar for each combination with a plan, unless they are too many or one."""
    heading = f"{summary.unit.capitalize()} a second per device"
    if 1 < len(summary.throughputs) <= _MOST_BARS:
        bars = [
            StackedBar(", ".join(made.row.values.values()), {summary.unit: made.per_device})
            for made in summary.throughputs
        ]
        yield heading, draw_bars(heading, [summary.unit], bars, rate_text)


def _draw_seconds(answer: PlanSweepReply) -> Iterator[tuple[str, Markup]]:
    """Yields seconds against each swept number, a line for each choice of the other values."""
    for key in NUMBERS:
        if len(answer.swept.get(key, ())) < 2:
            continue
        lines: Lines = {}
        for row in answer.rows:
            if row.seconds:
                others = [value for name, value in row.values.items() if name != key]
                points = lines.setdefault(", ".join(others) or "step time", [])
                points.append((float(row.values[key]), row.seconds))
        heading = f"Seconds of a step by {key}"
        drawn = {name: sorted(lines[name]) for name in [*lines][:_MOST_LINES]}
        if drawn:
            more = f", the first {_MOST_LINES} of {len(lines)} lines" * (len(lines) > _MOST_LINES)
            yield f"{heading}{more}", draw_times(heading, drawn)
