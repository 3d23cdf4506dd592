"""The table of each verb's answer, made from the same JSON that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pkgutil import resolve_name

from rich.console import RenderableType

from synth.ask.answers.parts import Json
from synth.ask.table import judge

_RENDERERS: Mapping[str, str] = {
    "systems": "synth.show.terminal.machines.render_systems",
    "import": "synth.show.terminal.machines.render_draft",
    "graph": "synth.show.terminal.machines.render_graph",
    "place": "synth.show.terminal.machines.render_place",
    "count": "synth.show.terminal.programs.render_count",
    "top": "synth.show.terminal.rankings.render_top",
    "sweep": "synth.show.terminal.rankings.render_ranked_systems",
    "cost": "synth.show.terminal.degraded.render_cost",
    "plan": "synth.show.terminal.training.planned.render_plan_answer",
    "order": "synth.show.terminal.training.orders.render_schedule",
    "diff": "synth.show.terminal.comparing.render_diff",
    "check": "synth.show.terminal.programs.render_check",
    "lower": "synth.show.terminal.programs.render_lower",
    "time": "synth.show.terminal.programs.render_time",
    "run": "synth.show.terminal.programs.render_run",
    "calibrate": "synth.show.terminal.measured.render_calibration",
    "doctor": "synth.show.terminal.measured.render_doctor",
    "trace": "synth.show.terminal.training.traces.render_trace",
    "shard": "synth.show.terminal.training.shards.render_shard",
    "simulate": "synth.show.terminal.training.simulated.render_simulation",
    "buckets": "synth.show.terminal.training.bucketed.render_buckets",
    "train": "synth.show.terminal.training.trained.render_train",
    "profile": "synth.show.terminal.training.profiles.render_profile",
}
"""Functions, whose modules are imported when a table is made."""


def _render(verb: str, body: Json) -> RenderableType:
    """Return the table of an answer as JSON."""
    render: Callable[[object], RenderableType] = resolve_name(_RENDERERS[verb])
    return render(judge(verb).validate_python(body))


TABLES: Mapping[str, Callable[[Json], RenderableType]] = {
    verb: partial(_render, verb) for verb in _RENDERERS
}
