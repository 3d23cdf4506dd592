"""The verb that shards a training step: by a plan, on axes, on a machine if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_either
from hierarchies import InputError, Placement, System, count_placements, placements, row_major
from synth.plan.request import Watcher
from synth.train.resharding.seconds import Redistributor
from synth.train.sharded import check, sharded_step
from synth.train.sharded.machine import on_machine
from synth.verbs.answers.training.shards import Machine, ShardReply
from synth.verbs.questions.fields import Flag
from synth.verbs.questions.flags import OnePlacement, PerhapsMachine
from synth.verbs.questions.named_texts import system_of
from synth.verbs.questions.question import PricedQuestion, axes_of, matrix_of
from synth.verbs.reply import Reply, reply
from synth.verbs.training.plans import PlannedQuestion, check_axes


class ShardQuestion(PlannedQuestion, PricedQuestion):
    """Shard a training step by a plan: its types, what it sends, bytes and operations a device."""

    system: Annotated[PerhapsMachine, Flag("Where it runs", ", to have seconds, too")] = None
    placement: OnePlacement = None


def shard(question: ShardQuestion, watcher: Watcher) -> Reply:
    """A step cut by a plan; or one that was sharded before, which is checked."""
    given = question.read(parse_either)
    if isinstance(given, ShardedStep):
        for flag, value in (("--plan", question.plan), ("--axes", question.axes)):
            if value is not None:
                hint = "it says its axes and how all values lie: change its text"
                raise InputError("this step is sharded already", where=flag, hint=hint)
        check_axes(given.sizes)
        check(given)
        machine = _machine(question, given.sizes)
        return reply(ShardReply.of(given, None, machine))
    return _planned(question, given)


def _planned(question: ShardQuestion, step: Step) -> Reply:
    """By its plan, with the redistributions that are fastest on the machine."""
    found = question.planned(step)
    program, machine = found.program, _machine(question, dict(found.plan.axes))
    if machine is not None:
        program = on_machine(program, machine.redistributor)
    sharded = sharded_step(found.step, found.plan, program)
    return reply(ShardReply.of(sharded, found.text, machine))


def _machine(question: ShardQuestion, axes: Mapping[str, int]) -> Machine | None:
    """The machine, with the placement that is given, the only one, or that of frameworks."""
    if question.system is None:
        if question.placement is not None:
            raise InputError("a placement on no machine", where="--placement", hint="give SYSTEM")
        return None
    system = question.priced(system_of(question.system)).check_even()
    placement, by_framework = _placed(question, system, axes)
    return Machine(Redistributor(system, placement), by_framework)


def _placed(
    question: ShardQuestion, system: System, axes: Mapping[str, int]
) -> tuple[Placement, bool]:
    """The placement, and whether nobody asked for it."""
    named = axes_of(dict(axes))
    if question.placement is not None:
        return Placement(system.hierarchy, named, matrix_of(question.placement)), False
    if count_placements(system.hierarchy, named) == 1:
        return next(placements(system.hierarchy, named)), False
    found = row_major(system.hierarchy, named)
    if found is None:
        raise InputError(
            f"laid out with the last axis innermost they cut a level of {system.hierarchy} in the"
            " middle",
            where="--placement",
            hint="choose one: 'collsynth place' lists them",
        )
    return found, True
