"""The table of each verb's answer, made from the same JSON that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from rich.console import RenderableType

from synth.ask.answers.parts import Json
from synth.ask.table import judge

_RENDERERS: Mapping[str, tuple[str, str]] = {
    "systems": ("machines", "render_systems"),
    "import": ("machines", "render_draft"),
    "graph": ("machines", "render_graph"),
    "place": ("machines", "render_place"),
    "count": ("programs", "render_count"),
    "top": ("rankings", "render_top"),
    "sweep": ("rankings", "render_ranked_systems"),
    "cost": ("degraded", "render_cost"),
    "plan": ("training.planned", "render_plan_answer"),
    "order": ("training.orders", "render_schedule"),
    "diff": ("comparing", "render_diff"),
    "check": ("programs", "render_check"),
    "lower": ("programs", "render_lower"),
    "time": ("programs", "render_time"),
    "run": ("programs", "render_run"),
    "calibrate": ("measured", "render_calibration"),
    "doctor": ("measured", "render_doctor"),
    "trace": ("training.traces", "render_trace"),
    "shard": ("training.shards", "render_shard"),
    "simulate": ("training.simulated", "render_simulation"),
    "buckets": ("training.bucketed", "render_buckets"),
    "train": ("training.trained", "render_train"),
    "profile": ("training.profiles", "render_profile"),
}
"""Modules of this package, each imported when its table is made, and their functions."""


def _render(verb: str, body: Json) -> RenderableType:
    """Return the table of an answer as JSON."""
    module, name = _RENDERERS[verb]
    render: Callable[[object], RenderableType] = getattr(
        import_module(f"{__package__}.{module}"), name
    )
    return render(judge(verb).validate_python(body))


TABLES: Mapping[str, Callable[[Json], RenderableType]] = {
    verb: partial(_render, verb) for verb in _RENDERERS
}
