"""The table of plans for all combinations of several values."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.training.swept import PlanSweepReply, SweptPlan
from synth.show.terminal.style import Columns, paragraphs, stopped_warning, table_of

_FIGURES: Columns[SweptPlan] = {
    "step time": lambda row: "-" if row.seconds is None else format_duration(row.seconds),
    "tokens/s": lambda row: f"{row.tokens_per_second:,.0f}" if row.tokens_per_second else "-",
    "per device": lambda row: (
        f"{row.tokens_per_second / row.devices:,.0f}"
        if row.tokens_per_second and row.devices
        else "-"
    ),
    "MFU": lambda row: "-" if row.utilisation is None else f"{row.utilisation:.1%}",
    "memory": lambda row: "-" if row.bytes is None else format_bytes(row.bytes),
    "gap": lambda row: "-" if row.gap is None else f"{row.gap:.0%}",
    "plan": lambda row: row.problem or row.plan or "",
}


def render_swept(answer: PlanSweepReply) -> RenderableType:
    """Returns the table of the advised plans, a row for each combination of values."""
    swept: Columns[SweptPlan] = {key: _column_of(key) for key in answer.swept}
    figures = ",".join(name for name in _FIGURES if name != "plan")
    return paragraphs(
        table_of(answer.rows, {**swept, **_FIGURES}, right=figures, wraps="plan"),
        "",
        "each row is the plan that 'collsynth plan' advises for these values; MFU: model FLOP "
        "utilisation; gap: distance to the time in which all devices compute all the time",
        stopped_warning(answer.complete),
    )


def _column_of(key: str) -> Callable[[SweptPlan], str]:
    return lambda row: row.values[key]
