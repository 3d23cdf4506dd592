"""A sweep of plans: its verdict in words, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.swept import PlanSweepReply, SweptPlan
from synth.show.terminal.style import Columns, paragraphs, pluralize, stopped_warning, table_of

MOST_STATED = 6
"""With more values of a key, only the first, the best and the last are stated."""
LEGEND = (
    "each row is the plan that 'collsynth plan' advises for these values; MFU: model FLOP "
    "utilisation; gap: distance to the time in which all devices compute all the time"
)

_FIGURES: Columns[SweptPlan] = {
    "MFU": lambda row: "-" if row.utilisation is None else f"{row.utilisation:.1%}",
    "memory": lambda row: "-" if row.bytes is None else format_bytes(row.bytes),
    "gap": lambda row: "-" if row.gap is None else f"{row.gap:.0%}",
    "plan": lambda row: row.problem or row.plan or "",
}


@dataclass(frozen=True)
class Throughput:
    """Tokens or samples a second of a combination that has a plan, on all of its devices."""

    row: SweptPlan
    rate: float
    devices: int

    @property
    def per_device(self) -> float:
        """Tokens or samples a second of each device."""
        return self.rate / self.devices


@dataclass(frozen=True)
class SweepSummary:
    """The verdict on a sweep: a headline, and lines on what changes between its rows.

    ``unit`` is that of all throughputs: tokens, or samples where they are not text.
    """

    headline: str
    lines: Sequence[str]
    unit: str
    throughputs: Sequence[Throughput]


def summarize_sweep(answer: PlanSweepReply) -> SweepSummary:
    """Returns the combination with the highest throughput per device, and how others compare."""
    planned = [row for row in answer.rows if row.plan is not None]
    unit = "tokens" if all(row.tokens_per_second for row in planned) else "samples"
    throughputs = [
        Throughput(row, (row.tokens_per_second or 0.0) if unit == "tokens" else made, devices)
        for row in planned
        if (made := (row.samples or 0) / (row.seconds or 1.0)) and (devices := row.devices or 0)
    ]
    lines = [*_problem_lines(answer)]
    if not throughputs:
        none = f"None of {pluralize(len(answer.rows), 'combination')} has a plan"
        return SweepSummary(none, lines, unit, ())
    best = max(throughputs, key=lambda made: made.per_device)
    headline = f"{_values(best.row)}: {rate_text(best.per_device)} {unit}/s per device"
    if len(throughputs) > 1:
        headline = f"Fastest per device: {headline.removesuffix(' per device')}"
        lines = [*_change_lines(answer, throughputs, best, unit), *lines]
    return SweepSummary(headline, lines, unit, throughputs)


def _change_lines(
    answer: PlanSweepReply, throughputs: Sequence[Throughput], best: Throughput, unit: str
) -> Iterator[str]:
    """Yields the row with the highest total throughput, and rows that differ in one key."""
    most = max(throughputs, key=lambda made: made.rate)
    if most.rate > best.rate:
        yield (
            f"{_values(most.row)} makes the most in all: {rate_text(most.rate)} {unit}/s on "
            f"{most.devices} devices ({_change(most, best)} per device)"
        )
    for key, values in answer.swept.items():
        others = {name: value for name, value in best.row.values.items() if name != key}
        line = [made for made in throughputs if {**made.row.values, **others} == made.row.values]
        if len(values) > 1 and len(line) > 1:
            stated = line if len(line) <= MOST_STATED else _ends_and_best(line, best)
            figures = ", ".join(
                f"{key} {made.row.values[key]} {_change(made, best)}" for made in stated
            )
            more = f" ({len(line)} in all)" if len(stated) < len(line) else ""
            yield f"per device{_with(others)}: {figures}{more}"
    plans = len({made.row.plan for made in throughputs})
    yield "the plan is the same in all rows" if plans == 1 else f"{plans} different plans"


def _ends_and_best(line: Sequence[Throughput], best: Throughput) -> Sequence[Throughput]:
    return [made for made in line if made in (line[0], best, line[-1])]


def _problem_lines(answer: PlanSweepReply) -> Iterator[str]:
    lacking = sum(row.plan is None for row in answer.rows)
    if lacking and lacking < len(answer.rows):
        have = "has" if lacking == 1 else "have"
        yield f"{lacking} of {len(answer.rows)} combinations {have} no plan, with the reason below"


def _with(others: dict[str, str]) -> str:
    return f" at {', '.join(f'{key} {value}' for key, value in others.items())}" if others else ""


def _values(row: SweptPlan) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.values.items())


def _change(made: Throughput, best: Throughput) -> str:
    """Returns how far a row is from the best per device, as in ``-6%``."""
    if made is best:
        return "best"
    share = made.per_device / best.per_device - 1
    return f"{share:+.0%}" if share <= -0.005 else "as much"


def rate_text(rate: float) -> str:
    """Returns a number of tokens or samples a second."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def table_of_sweep(answer: PlanSweepReply, summary: SweepSummary) -> Table:
    """Returns the advised plans, a row for each combination of values."""
    of_row = {tuple(made.row.values.values()): made for made in summary.throughputs}

    def rate(row: SweptPlan, per_device: bool = False) -> str:
        made = of_row.get(tuple(row.values.values()))
        return rate_text(made.per_device if per_device else made.rate) if made else "-"

    columns: Columns[SweptPlan] = {
        **{key: _column_of(key) for key in answer.swept},
        "step time": lambda row: "-" if row.seconds is None else format_duration(row.seconds),
        f"{summary.unit}/s": rate,
        "per device": lambda row: rate(row, per_device=True),
        **_FIGURES,
    }
    figures = ",".join(name for name in columns if name not in (*answer.swept, "plan"))
    return table_of(answer.rows, columns, right=figures, wraps="plan")


def render_swept(answer: PlanSweepReply) -> RenderableType:
    """Returns the verdict on a sweep, and the table of the advised plans."""
    summary = summarize_sweep(answer)
    return paragraphs(
        summary.headline,
        *(f"  {line}" for line in summary.lines),
        "",
        table_of_sweep(answer, summary),
        "",
        LEGEND,
        stopped_warning(answer.complete),
    )


def _column_of(key: str) -> Callable[[SweptPlan], str]:
    return lambda row: row.values[key]
