"""A training step sharded by a plan, and its comparison with one device."""

from __future__ import annotations

from rich.console import RenderableType

from hierarchies.units import format_bytes
from synth.ask.training.configured import ConfiguredReply
from synth.ask.training.redistributions import Redistributions
from synth.ask.training.trained import TrainReply, TrialReport
from synth.show.terminal.style import Columns, paragraphs, pluralize, table, table_of
from synth.show.terminal.training.collectives import render_programs

MOST_UNLIKE = 5
"""The number of unequal arrays that are named."""


def render_train(answer: TrainReply | ConfiguredReply) -> RenderableType:
    """Return the plan, a device's memory and communication, and the comparison with one device."""
    if isinstance(answer, ConfiguredReply):
        return _render_configured(answer)
    held = answer.held
    holds = f"{format_bytes(held.parameter)} of parameters, {format_bytes(held.moment)} of moments"
    return paragraphs(
        f"{answer.name} over {pluralize(answer.devices, 'device')}: {answer.plan}",
        _placement(answer),
        f"a device holds {holds}\n",
        table_of(answer.redistributions, _REDISTRIBUTION_CELLS, right="times,bytes")
        if answer.redistributions
        else "no communication",
        "\n" + "\n".join(f"{name}: {text}" for name, text in answer.programs.items())
        if answer.programs
        else None,
        None if answer.check is None else _render_trial(answer.check, answer.runtime),
        None
        if answer.check
        else f"\n-o FILE writes the step for {_NAMES[answer.runtime]}; --check executes it.",
    )


def _render_configured(answer: ConfiguredReply) -> RenderableType:
    """Return the configuration of a framework, and the programs that make collectives faster."""
    return paragraphs(
        f"{answer.model} on {answer.system}, for {answer.framework}: {answer.plan}",
        f"placement {answer.placement}: rows {', '.join(answer.axes)}",
        *(f"differs: {note}" for note in answer.notes),
        f"resulting plan: {answer.recipe}" if answer.recipe != answer.plan else None,
        "",
        *render_programs(answer.programs),
        f"\n-o FOLDER writes {', '.join(file.name for file in answer.files)}.",
    )


def _placement(answer: TrainReply) -> str | None:
    if answer.placement is None:
        return None
    note = "; the launcher must number ranks along the axes" if answer.ranks_by_axes else ""
    return f"placement {answer.placement}: rows {', '.join(answer.axes)}{note}"


def _render_trial(tried: TrialReport, runtime: str) -> RenderableType:
    heads = ("step", "loss alone", "loss sharded", "difference", "rounding")
    steps = table(*heads, right=",".join(heads))
    for number, row in enumerate(tried.steps, 1):
        losses = map(_loss, (row.loss_alone, row.loss_sharded))
        steps.add_row(str(number), *losses, *map(_share, (row.difference, row.rounding)))
    more = ", ..." if len(tried.unlike) > MOST_UNLIKE else ""
    return paragraphs(
        f"\nin {pluralize(tried.processes, 'process')} of "
        f"{_NAMES[runtime]}, compared with {tried.alone}:\n",
        steps,
        "difference: the largest of all parameters, relative to the largest element of the array\n"
        "rounding: the same for one device against itself in higher precision\n",
        "equal within rounding"
        if tried.equal
        else f"NOT equal: {', '.join(tried.unlike[:MOST_UNLIKE])}{more}",
    )


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"


def _share(value: float | None) -> str:
    return "no number" if value is None else f"{value:.1e}"


_NAMES = {"jax": "JAX", "torch": "PyTorch"}
_REDISTRIBUTION_CELLS: Columns[Redistributions] = {
    "redistribution": lambda redistribution: redistribution.what,
    "times": lambda redistribution: f"{redistribution.times:,}",
    "bytes": lambda redistribution: format_bytes(redistribution.bytes),
}
