"""The step that a plan cuts: with layers done again, and apart for stages, where it says so."""

from __future__ import annotations

from grammar.tensors.operations import Step
from synth.train.plans.layers.apart import apart
from synth.train.plans.layers.remat import rematerialised
from synth.train.plans.plan import Plan


def prepared(step: Step, plan: Plan) -> Step:
    """The step as ``apply`` does it. Raises InputError where it has no layers for that."""
    return _prepared(step, plan)[0]


def stage_hints(step: Step, plan: Plan) -> dict[str, int]:
    """The stages of what belongs to layers, by the names of values of the prepared step."""
    return _prepared(step, plan)[1]


def _prepared(step: Step, plan: Plan) -> tuple[Step, dict[str, int]]:
    if plan.remat:
        step = rematerialised(step)
    if plan.order is not None and plan.order.stages > 1:
        return apart(step, plan.order.stages)
    return step, {}
