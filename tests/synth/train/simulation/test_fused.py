"""Kernels on the clock: what is fused moves fewer bytes, what is done again computes no less."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import pytest

from bucketed_steps import step
from hierarchies import InputError
from hierarchies.devices import device_named
from synth.compute import Section
from synth.compute.section import section_estimate
from synth.train.plans import Fused, Plan, apply, parse_recipe, plan_of
from synth.train.simulation.groups import Group
from synth.train.simulation.predicting import Runtime, grouped

STEP = step()
PLAN = plan_of(STEP, parse_recipe("data=2; batch over data"))
BARE = replace(device_named("H100 SXM5 80 GB"), launch_seconds=0.0)
ALONE = Fused(("v81",))
"""A group of one: so that all others are kernels by themselves, too."""


def kernels(plan: Plan) -> list[Section]:
    program = apply(STEP, plan)
    outputs = [
        (str(one), lies) for one, lies in zip(STEP.graph.outputs, program.outputs, strict=True)
    ]
    items = grouped(plan, program, Runtime()).of(STEP.graph, program, outputs)
    return [one.section for one, _ in items if isinstance(one, Group)]


def moved(plan: Plan) -> float:
    """Seconds of all kernels where a launch takes none: the bytes that they read and write."""
    return sum(section_estimate(one, BARE).seconds for one in kernels(plan))


def test_what_is_in_no_group_is_a_kernel_of_its_own() -> None:
    apart = kernels(replace(PLAN, fused=(ALONE,)))
    assert {len(one.operations) for one in apart} == {1}
    fused = kernels(replace(PLAN, fused=(Fused(("v2", "v3")), ALONE)))
    assert sorted(len(one.operations) for one in fused)[-2:] == [1, 2]
    assert len(fused) == len(apart) - 1
    assert len(kernels(PLAN)) < len(apart)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_fusing_two_kernels_never_adds_bytes(every: int) -> None:
    apart = moved(replace(PLAN, fused=(ALONE,)))
    names = [one.results[0].name for one in STEP.graph.operations if one.body is None]
    less = 0
    following = pairwise(one for one in names if one != "v81")
    for first, second in islice(following, 0, None, every):
        try:
            both = moved(replace(PLAN, fused=(Fused((first, second)), ALONE)))
        except InputError:
            continue
        assert both <= apart * (1 + 1e-12)
        less += both < apart * (1 - 1e-6)
    assert less > 10 / every


def test_what_is_done_again_computes_no_less() -> None:
    once = replace(PLAN, fused=(Fused(("v36", "v37")), ALONE))
    again = replace(PLAN, fused=(Fused(("v36", "v37"), ("v28",)), ALONE))
    both = [sum(len(one.operations) for one in kernels(plan)) for plan in (once, again)]
    assert both[1] == both[0] + 1
