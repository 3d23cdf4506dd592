"""NCCL's own two-level kernels: the price of the program of these calls, and never the default."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System, load
from synth.collective.price.defaults import HIERARCHICAL, RuntimeDefaults, defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import total_seconds
from synth.measure.calibration.typical import apply_typical
from synth.verbs import FUNCTIONS

SIZE = 2**24
STEPS = {
    Goal.REDUCE_SCATTER: ("reduce-scatter node inside", "reduce-scatter node parallel(root)"),
    Goal.ALL_GATHER: ("all-gather node parallel(root)", "all-gather node inside"),
}


def options(version: str, goal: Goal, matrix: tuple[tuple[int, ...], ...]) -> RuntimeDefaults:
    system = replace(apply_typical(load("dgx-h100:4")), nccl=version)
    return defaults(Simulator(system), reduction(system, matrix), SIZE, goal)


def reduction(system: System, matrix: tuple[tuple[int, ...], ...]) -> Reduction:
    sizes = [row[0] * row[1] for row in matrix]
    axes = tuple(Axis(name, size) for name, size in zip(("data", "model"), sizes, strict=False))
    return Reduction(Placement(system.hierarchy, axes, matrix), ("data",))


@pytest.mark.parametrize("goal", STEPS)
def test_its_price_is_that_of_the_programs_own_calls(goal: Goal) -> None:
    """Asked as a program of two steps; its copies between the steps do not count."""
    program = "; ".join(STEPS[goal])
    timed = FUNCTIONS["time"](
        program, "dgx-h100:4", axes={"data": 32}, reduce=["data"], request=goal.value, bytes=SIZE
    )
    calls = [step.seconds for step in timed.steps if step.collective == goal.value]
    assert len(calls) == 2
    kernels = options("2.30.7", goal, ((4, 8),)).options[HIERARCHICAL]
    # Each of the two calls is rounded up to a whole picosecond.
    assert total_seconds(kernels) == pytest.approx(sum(calls), abs=2e-12)


@pytest.mark.parametrize("version", ["2.29.3", "2.29.7", "2.30.7", "2.32.6"])
@pytest.mark.parametrize("goal", Goal)
def test_which_version_has_it_and_that_none_chooses_it(version: str, goal: Goal) -> None:
    known = {
        "2.29.3": (),
        "2.29.7": (Goal.ALL_GATHER, Goal.REDUCE_SCATTER),
        "2.30.7": (Goal.ALL_GATHER, Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL),
        "2.32.6": (Goal.ALL_GATHER, Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL),
    }
    found = options(version, goal, ((4, 8),))
    assert (HIERARCHICAL in found.options) == (goal in known[version])
    assert found.chosen != HIERARCHICAL


@pytest.mark.parametrize("matrix", [((1, 8), (4, 1)), ((4, 1), (1, 8))])
def test_groups_on_one_side_of_the_network_have_no_two_levels(
    matrix: tuple[tuple[int, ...], ...],
) -> None:
    assert HIERARCHICAL not in options("2.30.7", Goal.ALL_GATHER, matrix).options


def test_an_all_to_all_sends_the_whole_buffer_at_both_levels() -> None:
    far, near = options("2.30.7", Goal.ALL_TO_ALL, ((4, 8),)).options[HIERARCHICAL]
    assert (far.size_bytes, near.size_bytes) == (SIZE, SIZE)
    assert (far.members[0], near.members[-1]) == (4, 8)
    scatter = options("2.30.7", Goal.REDUCE_SCATTER, ((4, 8),)).options[HIERARCHICAL]
    assert [price.size_bytes for price in scatter] == [SIZE, SIZE / 8]
