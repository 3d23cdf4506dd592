"""Prepares the step that a plan shards: recomputes layers, and splits backward loops and stages."""

from __future__ import annotations

from functools import lru_cache

from grammar.tensors.operations import Step
from synth.step.same import IdentityKey
from synth.step.sharding.layers.apart import split_layers
from synth.step.sharding.layers.halved import split_backward
from synth.step.sharding.layers.remat import rematerialise
from synth.step.sharding.plan import Plan


def prepare_step(step: Step, plan: Plan) -> Step:
    """Returns the step as ``apply`` shards it. Raises InputError if it lacks the layers for it."""
    return _prepare_for_plan(step, plan)[0]


def stage_hints(step: Step, plan: Plan) -> dict[str, int]:
    """Returns the stages of values that belong to layers, by their names in the prepared step."""
    return _prepare_for_plan(step, plan)[1]


def _prepare_for_plan(step: Step, plan: Plan) -> tuple[Step, dict[str, int]]:
    stages = plan.order.stages if plan.order is not None else 1
    halves = plan.order is not None and plan.order.halves
    return _prepare_cached(IdentityKey(step), plan.remat, halves, stages, plan.layers)


@lru_cache(maxsize=8)
def _prepare_cached(
    step: IdentityKey[Step], remat: bool, halves: bool, stages: int, layers: tuple[int, ...]
) -> tuple[Step, dict[str, int]]:
    # Plans that differ only in sizes or microbatches share a prepared step.
    prepared = rematerialise(step.one) if remat else step.one
    prepared = split_backward(prepared) if halves else prepared
    return split_layers(prepared, stages, layers) if stages > 1 else (prepared, {})
