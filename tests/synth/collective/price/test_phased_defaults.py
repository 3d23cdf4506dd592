"""Calls in several phases: NCCL's two-level kernels, never the default; XLA's over slices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from grammar import Goal
from hierarchies import Axis, Placement, Reduction, System, load
from price_oracle import Machine
from synth.collective.algorithms.runtimes import CollectiveRuntime
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


FAR = {
    Goal.ALL_REDUCE: (2, 2),
    Goal.REDUCE_SCATTER: (2, 1),
    Goal.ALL_GATHER: (0, 1),
    Goal.ALL_TO_ALL: (0, 1),
}
"""The place of the phase between slices, and how often a ring passes on a share of the buffer."""


def over_slices(goal: Goal, name: str, matrix: tuple[tuple[int, ...], ...]) -> RuntimeDefaults:
    system = load(name)
    axes = tuple(Axis(axis, prod(row)) for axis, row in zip("abc", matrix, strict=False))
    reduction = Reduction(Placement(system.hierarchy, axes, matrix), ("a",))
    return defaults(Simulator(system), reduction, SIZE, goal)


@pytest.mark.parametrize("goal", FAR)
def test_chips_reach_their_peers_in_other_slices_all_at_once(goal: Goal) -> None:
    """Between slices of 2 x 4 chips: all that the chips of a host send is on the host's port."""
    found = over_slices(goal, "tpu-v5e-multislice:2x4x2", ((2, 2, 4),))
    system = load("tpu-v5e-multislice:2x4x2")
    place, rounds = FAR[goal]
    assert found.chosen == "xla"
    assert found.runtime is CollectiveRuntime.XLA
    phases = found.baseline
    assert [p.busiest == "slice" for p in phases] == [at == place for at in range(len(phases))]
    machine, far = Machine(system), phases[place]
    share = SIZE if goal is Goal.ALL_TO_ALL else SIZE / 8
    assert far.size_bytes == share
    pairs = [(chip, chip + 8) for chip in range(8)]
    exchange = machine.direct if goal is Goal.ALL_TO_ALL else machine.ring
    messages = [message for pair in pairs for message in exchange(pair, rounds)]
    busy = machine.slowest(machine.loads(messages))
    assert dict(far.busy_seconds)["slice"] == pytest.approx(share * busy["slice"])
    inside = over_slices(goal, "tpu-v5e-multislice:2x4x2", ((1, 2, 4), (2, 1, 1)))
    rest = [phase for at, phase in enumerate(phases) if at != place]
    assert [phase.seconds for phase in rest] == [phase.seconds for phase in inside.baseline]


def test_slices_of_one_dimension_and_machines_of_others() -> None:
    """A line of chips has phases, too; chains of a reduce have none, nor has Neuron."""
    line = over_slices(Goal.ALL_REDUCE, "tpu-v5e-multislice:2x4x2", ((2, 1, 4), (1, 2, 1)))
    assert [phase.busiest for phase in line.baseline] == ["x", "slice", "x"]
    assert over_slices(Goal.REDUCE, "tpu-v5e-multislice:2x4x2", ((2, 2, 4),)).chosen == "ring"
    assert over_slices(Goal.ALL_REDUCE, "aws-trn2:2", ((2, 4, 4),)).chosen != "xla"
