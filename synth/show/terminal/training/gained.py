"""What of a plan gains by programs of ours, how that is had, and what is worth measuring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from hierarchies.units import format_bytes, format_duration
from synth.ask.answers.parts import GoalName
from synth.ask.answers.training.gained import ProgramOfPlan
from synth.ask.answers.training.planned import StepPlanReply
from synth.collective.ranking.settings import explain_scope
from synth.show.terminal.style import Columns, table_of
from synth.step.search.gaining import LEAST_GAIN


def render_program_gains(answer: StepPlanReply) -> Iterator[RenderableType]:
    """Which collectives of the best plan gain by programs of ours, and what that is of its step."""
    best = answer.best
    yield ""
    if answer.programs:
        saved = sum(one.saved_seconds for one in answer.programs) / best.seconds
        yield (
            "its time assumes these programs, and the runtime's defaults elsewhere; without them a"
            f" step takes at least {saved:.1%} longer:"
        )
    yield from render_programs(answer.programs)
    yield from _side_effect_lines(answer)
    if (perhaps := answer.perhaps_saved_seconds / best.seconds) >= LEAST_GAIN:
        yield (
            "worth measuring: other programs, if they are as fast as predicted, would save"
            f" {perhaps:.1%} of a step"
        )


def _side_effect_lines(answer: StepPlanReply) -> Iterator[str]:
    """What lines of the environment hold for, beside the collectives that they are meant for."""
    meant: dict[tuple[str, GoalName], set[tuple[str, int]]] = {}
    for one in answer.programs:
        if one.environment:
            calls = meant.setdefault((one.environment, one.request), set())
            calls.add((", ".join(one.over), one.bytes))
    for (line, request), calls in meant.items():
        others = sum(
            one.times
            for one in answer.sent
            if one.request is request and (", ".join(one.over), one.bytes) not in calls
        )
        here = f"; here also for {others} other calls" if others else ""
        yield f"{line}: {explain_scope(request.value)}{here}"
    lines = Counter(request for _, request in meant)
    for request in (one for one, count in lines.items() if count > 1):
        yield f"only one of these lines can be set for {request.value}: the first saves the most"


def render_programs(programs: Sequence[ProgramOfPlan]) -> Iterator[RenderableType]:
    """Collectives that gain by a program of ours, and how that is had."""
    if programs:
        yield table_of(programs, _PROGRAMS, right="times,per call,default,saved a step", wraps="by")
        yield from _mscclpp_lines([one for one in programs if one.files])
    else:
        yield (
            "no program gains 0.1% of a step over the runtime's defaults within the prediction's"
            " uncertainty"
        )


def _mscclpp_lines(programs: Sequence[ProgramOfPlan]) -> Iterator[str]:
    """Which of what is written is for MSCCL++, too, and why others are not."""
    several = [one for one in programs if not one.no_plan]
    if several:
        yield f"-o FOLDER writes {len(several)} of {len(programs)} for MSCCL++, too, in one segment"
    for because in dict.fromkeys(one.no_plan for one in programs if one.no_plan):
        yield f"not for MSCCL++: {because}"


_PROGRAMS: Columns[ProgramOfPlan] = {
    "request": lambda one: (
        f"{one.request.value} of {format_bytes(one.bytes)} over {', '.join(one.over)}"
    ),
    "times": lambda one: str(one.times),
    "per call": lambda one: format_duration(one.seconds),
    "default": lambda one: format_duration(one.default_seconds),
    "saved a step": lambda one: format_duration(one.saved_seconds),
    "by": lambda one: one.environment or one.program,
}
