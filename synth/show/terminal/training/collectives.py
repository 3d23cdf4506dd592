"""The collectives of a plan, and the programs that make some of them faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import format_duration
from synth.ask.answers.parts import GoalName, explain_scope
from synth.ask.answers.training.gained import CollectiveOfStep, ProgramOfPlan
from synth.ask.answers.training.planned import StepPlanReply
from synth.show.terminal.style import Columns, pluralize, request_text, table, table_of
from synth.step.search.resolution import LEAST_GAIN

_LEAST_SHARE = 0.01
_HEADING = "communication of a step"
"""Collectives with less than this share of all seconds are put together."""


def render_collectives(sent: Sequence[CollectiveOfStep]) -> Iterator[RenderableType]:
    """Yield a row for each collective, one for those that take least, and the sums."""
    if not sent:
        return
    right = "times,per call,total,hidden,exposed"
    rows = table(_HEADING, *right.split(","), right=right, wraps=_HEADING)
    least = _LEAST_SHARE * sum(call.all_seconds for call in sent)
    for call in sent:
        if call.all_seconds >= least:
            name = request_text(call.request, call.over, call.bytes)
            rows.add_row(name, *_figures([call], format_duration(call.seconds)))
    if rest := [call for call in sent if call.all_seconds < least]:
        rows.add_row(pluralize(len(rest), "other"), *_figures(rest))
    if len(sent) > 1:
        rows.add_row("total", *_figures(sent))
    yield ""
    yield rows


def _figures(calls: Sequence[CollectiveOfStep], each: str = "") -> tuple[str, ...]:
    total = sum(call.all_seconds for call in calls)
    exposed = sum(call.exposed_seconds for call in calls)
    return (
        str(sum(call.times for call in calls)),
        each,
        format_duration(total),
        hidden_share(exposed, total),
        format_duration(exposed),
    )


def hidden_share(exposed_seconds: float, all_seconds: float) -> str:
    """Return the hidden share as text; below ``100%`` where anything is exposed.

    >>> hidden_share(0.0, 0.05), hidden_share(106e-6, 54.2e-3), hidden_share(85.5e-3, 96.7e-3)
    ('100%', '99.8%', '12%')
    >>> hidden_share(1e-9, 1.0)
    'over 99.9%'
    """
    hidden = 1 - exposed_seconds / all_seconds if all_seconds else 0.0
    if not exposed_seconds or f"{hidden:.0%}" != "100%":
        return f"{hidden:.0%}"
    return "over 99.9%" if f"{hidden:.1%}" == "100.0%" else f"{hidden:.1%}"


def render_program_gains(answer: StepPlanReply) -> Iterator[RenderableType]:
    """Yield the best plan's collectives that other programs make faster, and the time saved."""
    step_seconds = answer.best.seconds
    yield ""
    if answer.programs:
        saved = sum(program.saved_seconds for program in answer.programs) / step_seconds
        yield (
            "its time assumes these programs, and the runtime's defaults elsewhere; without them a"
            f" step takes at least {saved:.1%} longer:"
        )
    yield from render_programs(answer.programs)
    yield from _side_effect_lines(answer)
    if (perhaps := answer.perhaps_saved_seconds / step_seconds) >= LEAST_GAIN:
        yield (
            "worth measuring: other programs, if they are as fast as predicted, would save"
            f" {perhaps:.1%} of a step"
        )


def _side_effect_lines(answer: StepPlanReply) -> Iterator[str]:
    """Yield the calls that an environment variable affects besides those that it is meant for."""
    meant: dict[tuple[str, GoalName], set[tuple[str, int]]] = {}
    for program in answer.programs:
        if program.environment:
            calls = meant.setdefault((program.environment, program.request), set())
            calls.add((", ".join(program.over), program.bytes))
    for (line, request), calls in meant.items():
        others = sum(
            call.times
            for call in answer.sent
            if call.request is request and (", ".join(call.over), call.bytes) not in calls
        )
        here = f"; here also for {others} other calls" if others else ""
        yield f"{line}: {explain_scope(request.value)}{here}"
    for request, lines in Counter(request for _, request in meant).items():
        if lines > 1:
            name = request.value
            yield f"only one of these lines can be set for {name}: the first saves the most"


def render_programs(programs: Sequence[ProgramOfPlan]) -> Iterator[RenderableType]:
    """Yield the collectives that are faster by another program, and how to use it."""
    if not programs:
        yield (
            "no program gains 0.1% of a step over the runtime's defaults within the prediction's"
            " uncertainty"
        )
        return
    yield table_of(
        programs, _PROGRAMS, right="times,per call,default,saved a step", wraps="program"
    )
    filed = [program for program in programs if program.files]
    if many := sum(not program.no_plan for program in filed):
        yield f"-o FOLDER writes {many} of {len(filed)} for MSCCL++ as well, in one segment"
    for because in dict.fromkeys(program.no_plan for program in filed if program.no_plan):
        yield f"not for MSCCL++: {because}"


_PROGRAMS: Columns[ProgramOfPlan] = {
    "request": lambda program: request_text(program.request, program.over, program.bytes),
    "times": lambda program: str(program.times),
    "per call": lambda program: format_duration(program.seconds),
    "default": lambda program: format_duration(program.default_seconds),
    "saved a step": lambda program: format_duration(program.saved_seconds),
    "program": lambda program: program.environment or program.program,
}
