"""The programs of a plan's collectives that gain, in the words of the frameworks that run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from hierarchies import Placement, Reduction, System
from hierarchies.units import format_duration
from synth.ask.answers.given import AnswerStripe, EarlierAnswer
from synth.ask.answers.training.gained import ProgramOfPlan
from synth.ask.export import prepare_emit_input
from synth.collective.algorithms.algorithms import Choice
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import CannotExpressError, EmitOptions
from synth.collective.price.steps import total_seconds
from synth.collective.ranking.how_to_get import AdviceKind, advise
from synth.step.frameworks import Configurations
from synth.step.search.gaining import CollectiveGain


def programs_of(
    system: System, placement: Placement, gains: Sequence[CollectiveGain], written: Configurations
) -> tuple[list[ProgramOfPlan], dict[str, str]]:
    """Each that can be had, and its files beside the configurations of all that run the plan.

    As an execution plan for MSCCL++, too, where that has words for what gains.
    """
    found: list[ProgramOfPlan] = []
    files: dict[str, str] = {}
    for gain in gains:
        how = advise(gain.answer)
        if how.by is AdviceKind.FILE:
            own = _files(system, placement, gain, written)
            if own:
                plan = execution_plans_of(system, placement, gain)
                because = plan if isinstance(plan, str) else ""
                own |= {} if isinstance(plan, str) else plan
                files |= own
                found.append(ProgramOfPlan.of(gain, "", list(own), because))
        elif how.by is AdviceKind.ENVIRONMENT:
            found.append(ProgramOfPlan.of(gain, how.text, []))
    return found, files


def _files(
    system: System, placement: Placement, gain: CollectiveGain, written: Configurations
) -> dict[str, str]:
    """In the order of ranks in which each framework is started."""
    return {
        f"{framework}/programs/{name}": text
        for framework, found in written.written.items()
        for name, text in emit_files(
            earlier_answer_of(system, placement, gain),
            "jax" if framework == "jax" else "torch",
            found.order,
            _name(gain),
        )
    }


def execution_plans_of(
    system: System, placement: Placement, gain: CollectiveGain
) -> dict[str, str] | str:
    """The program as an execution plan for MSCCL++, device by device; or why there is none.

    Such a plan has no segments, without which a program may take longer than the runtime's own.
    """
    chosen = earlier_answer_of(system, placement, gain)
    if chosen.beside:
        return f"it is split over {len(chosen.beside)} programs side by side"
    found = prepare_emit_input(replace(chosen, segments=1), _options(RankOrder.MACHINE))
    seconds = total_seconds(found.source.prices)
    if seconds >= found.plain_seconds:
        own = (
            f"{format_duration(seconds)}, and the runtime's own choice "
            f"{format_duration(found.plain_seconds)}"
        )
        return f"in one segment it takes {own}"
    from synth.collective.emit.targets import emit  # slow to import, and seldom needed

    try:
        files = emit("mscclpp", found.source)
    except CannotExpressError as error:
        return error.problem
    return {f"mscclpp/programs/{_name(gain)}/{file}": str(text) for file, text in files.items()}


def _options(order: RankOrder) -> EmitOptions:
    return EmitOptions(rank_order=order, made_by=f"collsynth {version('collsynth')}")


def emit_files(
    chosen: EarlierAnswer, target: str, order: RankOrder, name: str
) -> Iterator[tuple[str, str]]:
    """Files of a program, in a folder; none where the target has no words for it."""
    from synth.collective.emit.targets import emit  # as above

    try:
        files = emit(target, prepare_emit_input(chosen, _options(order)).source)
    except CannotExpressError:
        return
    for file, text in files.items():
        yield f"{name}/{file}", str(text)


def _name(gain: CollectiveGain) -> str:
    """``reduce_scatter_data_16384``: the goal, its axes, and bytes of the largest buffer."""
    goal = gain.sent.goal.value.replace("-", "_")
    return "_".join([goal, *gain.sent.over, str(gain.sent.size_bytes)])


def earlier_answer_of(system: System, placement: Placement, gain: CollectiveGain) -> EarlierAnswer:
    """Its programs on the plan's own placement, whose axes the answer may call otherwise."""
    parts = [stripe.part for stripe in gain.answer.stripes]
    several = tuple(
        AnswerStripe(str(part.program), part.size_bytes, part.segments) for part in parts
    )
    return EarlierAnswer(
        system,
        Reduction(placement, gain.sent.over),
        several[0].program,
        gain.sent.size_bytes,
        Choice.AUTO,
        several[0].segments,
        gain.sent.goal,
        several if len(several) > 1 else (),
    )
