"""A training step and the plan that shards it, as in the questions of several verbs.

A plan is a recipe, whose axes may be given separately (``--axes``), or a plan in full, which begins
with the word ``plan``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Annotated

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step
from hierarchies import InputError
from synth.ask.questions.fields import File, Flag
from synth.ask.questions.flags import OptionalAxes
from synth.ask.questions.question import axes_of
from synth.ask.training.traces import MOST_READ, ModelQuestion
from synth.step.sharded_step import check_known
from synth.step.sharding import (
    Plan,
    Recipe,
    StepProgram,
    apply,
    check,
    parse_plan,
    parse_recipe,
    plan_of,
    plan_text,
    prepare_step,
)
from synth.step.sharding.plan import MOST_PASSES

MOST_AXES = 4
"""Over more axes cheapest redistributions take minutes: GPT-2 over four takes 16 seconds."""

MOST_DEVICES = 2**20
_AXES = re.compile(r"(?!zero=)[A-Za-z_]\w*=\d+(\s+[A-Za-z_]\w*=\d+)*")
"""How a recipe begins that says its axes; ``zero=1`` is none."""

_FULL_PLAN = re.compile(r"\s*(#.*\n\s*)*plan\s")


@dataclass(frozen=True)
class StepWithPlan:
    """A step as its plan has it, what every device does, and the plan as it was said."""

    step: Step
    plan: Plan
    program: StepProgram
    text: str


class PlannedQuestion(ModelQuestion):
    """A training step, and the plan that cuts it."""

    plan: Annotated[
        str | None,
        Field(max_length=2**20),
        Flag(
            "Plan of the step",
            ', a file or -: "data=8 tensor=4; batch over data; weights over tensor as Megatron;'
            ' zero=1"',
            file=File.PLAN,
        ),
    ] = None
    axes: Annotated[OptionalAxes, Flag("Names and sizes of axes, unless the plan has them")] = None

    def planned(self, step: Step) -> StepWithPlan:
        """The step cut by the plan.

        Raises InputError as ``cut``, and for a plan that the step cannot follow to its end.
        """
        plan, text = self.cut(step)
        return StepWithPlan(prepare_step(step, plan), plan, apply(step, plan), text)

    def cut(self, step: Step) -> tuple[Plan, str]:
        """The plan of the step, and how it is said.

        Raises InputError for a plan that is not understood or not one of the step, and where plan
        and axes say different axes.
        """
        text = self.text()
        check_known(step)
        if _FULL_PLAN.match(text):
            plan = parse_plan(text, step)
            check_axes(dict(plan.axes))
            check_passes(plan.order.stages if plan.order else 1, plan.microbatches)
            return plan, plan_text(step, plan)
        recipe = parse_recipe(text)
        check_axes(dict(recipe.axes))
        check_passes(recipe.stages, recipe.microbatches)
        return plan_of(step, recipe), str(recipe)

    def recipe(self) -> Recipe | None:
        """The plan as a recipe, None where it is in full. Raises InputError as ``planned``."""
        text = self.text()
        return None if _FULL_PLAN.match(text) else parse_recipe(text)

    def check_step(self, step: Step | ShardedStep | None) -> None:
        if recipe := self.check_recipe():
            self._check_samples(recipe)
        if isinstance(step, Step) and len(self.text()) <= MOST_READ:
            check(step, self.cut(step)[0])

    def check_recipe(self) -> Recipe | None:
        """The recipe, None for a plan in full: that is read together with the step.

        Raises InputError for one that is none, or too large.
        """
        recipe = self.recipe()
        if recipe is not None:
            check_axes(dict(recipe.axes))
            check_passes(recipe.stages, recipe.microbatches)
        return recipe

    def _check_samples(self, recipe: Recipe) -> None:
        """Raises InputError where a model's samples are not as many in each part.

        The verb says so of an input of the step, which is not traced here.
        """
        parts = recipe.microbatches * recipe.replicas
        if self.source() is not None and self.batch % parts:
            problem = f"{self.batch} samples in {parts} parts"
            hint = f"as many in each: --batch {parts * max(1, round(self.batch / parts))}"
            raise InputError(problem, where="--batch", hint=hint)

    def text(self) -> str:
        """The plan with its axes. Raises InputError as ``planned``."""
        if self.plan is None:
            hint = 'as in --plan "data=8; batch over data"'
            raise InputError("which plan? a step is sharded by one", where="--plan", hint=hint)
        if re.search(r"\d{19}", self.plan):
            raise InputError("a number of more than 18 digits", where="plan")
        if self.axes is None:
            return self.plan
        if _FULL_PLAN.match(self.plan):
            raise InputError("a plan in full says its axes", where="--axes", hint="leave them out")
        given = " ".join(f"{axis.name}={axis.size}" for axis in axes_of(self.axes))
        first = self.plan.partition(";")[0].strip()
        if not _AXES.fullmatch(first):
            return f"{given}; {self.plan}" if self.plan.strip() else given
        if first.split() != given.split():
            hint = "say the axes in one of the two, or the same in both"
            raise InputError(f"{given}, and the plan has {first}", where="--axes", hint=hint)
        return self.plan


def check_passes(stages: int, microbatches: int) -> None:
    """Raise InputError for more passes than can be put in an order."""
    if stages * microbatches > MOST_PASSES:
        problem = f"{stages} stages and {microbatches} microbatches are too many"
        raise InputError(problem, where="plan", hint=f"one times the other at most {MOST_PASSES}")


def check_axes(axes: Mapping[str, int]) -> None:
    """Raise InputError for more axes, or more devices, than can be."""
    if prod(axes.values()) > MOST_DEVICES:
        problem = f"{prod(axes.values())} devices"
        raise InputError(problem, where="plan", hint=f"at most {MOST_DEVICES}")
    if len(axes) > MOST_AXES:
        problem = f"{len(axes)} axes that cut values"
        raise InputError(problem, where="plan", hint=f"at most {MOST_AXES}")
