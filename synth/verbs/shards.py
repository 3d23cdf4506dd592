"""The verb that shards a training step: by a plan, on axes, on a machine if there is one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Annotated

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_either
from hierarchies import InputError, Placement, System, count_placements, placements, row_major
from synth.plan.request import Watcher
from synth.train.plans import apply, parse_recipe, plan_of
from synth.train.resharding.seconds import Redistributor
from synth.train.sharded import check, check_known, sharded_step
from synth.train.sharded.machine import on_machine
from synth.verbs.answers.training.shards import Machine, ShardReply
from synth.verbs.questions.fields import File, Flag
from synth.verbs.questions.flags import OnePlacement, PerhapsAxes, PerhapsMachine
from synth.verbs.questions.named_texts import system_of
from synth.verbs.questions.question import PricedQuestion, axes_of, matrix_of
from synth.verbs.reply import Reply, reply
from synth.verbs.traces import ModelQuestion

MOST_AXES = 4
"""Over more axes cheapest redistributions take minutes: GPT-2 over four takes 16 seconds."""

MOST_DEVICES = 2**20


class ShardQuestion(ModelQuestion, PricedQuestion):
    """Shard a training step by a plan: its types, what it sends, bytes and operations a device."""

    system: Annotated[PerhapsMachine, Flag("Where it runs", ", to have seconds, too")] = None
    plan: Annotated[
        str | None,
        Field(max_length=2**16),
        Flag(
            "How it is cut",
            ', a file or -: "data=8 tensor=4; batch over data; weights over tensor as Megatron;'
            ' zero=1"',
            file=File.PLAN,
        ),
    ] = None
    axes: Annotated[PerhapsAxes, Flag("Names and sizes, unless the plan says them")] = None
    placement: OnePlacement = None

    def recipe(self) -> str:
        """The plan with its axes. Raises InputError where plan and axes say different ones."""
        if self.plan is None:
            hint = 'as in --plan "data=8; batch over data"'
            raise InputError("which plan? a step is sharded by one", where="--plan", hint=hint)
        if re.search(r"\d{19}", self.plan):
            raise InputError("a number of more than 18 digits", where="plan")
        if self.axes is None:
            return self.plan
        given = " ".join(f"{axis.name}={axis.size}" for axis in axes_of(self.axes))
        first = self.plan.partition(";")[0].strip()
        if not _AXES.fullmatch(first):
            return f"{given}; {self.plan}" if self.plan.strip() else given
        if first.split() != given.split():
            hint = "say the axes in one of the two, or the same in both"
            raise InputError(f"{given}, and the plan has {first}", where="--axes", hint=hint)
        return self.plan


_AXES = re.compile(r"(?!zero=)[A-Za-z_]\w*=\d+(\s+[A-Za-z_]\w*=\d+)*")
"""How a plan begins that says its axes; ``zero=1`` is none."""


def shard(question: ShardQuestion, watcher: Watcher) -> Reply:
    """A step cut by a plan; or one that was sharded before, which is checked."""
    given = question.read(parse_either)
    if isinstance(given, ShardedStep):
        for flag, value in (("--plan", question.plan), ("--axes", question.axes)):
            if value is not None:
                hint = "it says its axes and how all values lie: change its text"
                raise InputError("this step is sharded already", where=flag, hint=hint)
        _check_axes(given.sizes)
        check(given)
        machine = _machine(question, given.sizes)
        return reply(ShardReply.of(given, None, machine))
    return _planned(question, given)


def _planned(question: ShardQuestion, step: Step) -> Reply:
    """By its plan, with the redistributions that are fastest on the machine."""
    text = question.recipe()
    recipe = parse_recipe(text)
    _check_axes(dict(recipe.axes))
    check_known(step)
    machine = _machine(question, dict(recipe.axes))
    plan = plan_of(step, recipe)
    program = apply(step, plan)
    if machine is not None:
        program = on_machine(program, machine.redistributor)
    return reply(ShardReply.of(sharded_step(step, plan, program), text, machine))


def _check_axes(axes: Mapping[str, int]) -> None:
    """Raise InputError for more axes, or more devices, than can be."""
    if prod(axes.values()) > MOST_DEVICES:
        problem = f"{prod(axes.values())} devices"
        raise InputError(problem, where="plan", hint=f"at most {MOST_DEVICES}")
    if len(axes) > MOST_AXES:
        problem = f"{len(axes)} axes that cut values"
        raise InputError(problem, where="plan", hint=f"at most {MOST_AXES}")


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
