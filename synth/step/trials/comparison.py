"""What all devices held beside what one device did: the largest differences, and what is allowed.

Every part of every device is compared, so also replicas with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from grammar.tensors.operations import Step
from grammar.tensors.sharding import Sharding, block, numbers_of
from synth.step.emit import output_names
from synth.step.sharding import StepProgram
from synth.step.sharding.plan import PIPE
from synth.step.trials.alone import SingleDeviceRun
from synth.step.trials.inputs import Array
from synth.step.trials.processes import RankOutputs

TOLERANCES = {"bf16": 2e-2, "f16": 2e-3, "f32": 1e-5}
"""Of an array's largest element: sums in another order differ by less, in such numbers."""
ROUNDING = 10
"""So many times what rounding does to an array on one device it may do on several."""


@dataclass(frozen=True)
class StepDifference:
    """One step: losses, and the largest difference of a parameter, as a share of its array's size.

    Of a step that changes no parameters, of all that it gives. ``rounding`` is what the same step
    on one device differs by in wider numbers. Without a loss there is none to compare.
    """

    loss_alone: float | None
    loss_sharded: float | None
    difference: float
    rounding: float


@dataclass(frozen=True)
class TrialComparison:
    """All steps, and the names of what is not equal, the worst first."""

    rows: tuple[StepDifference, ...]
    unlike: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.unlike


def compare_runs(
    step: Step,
    program: StepProgram,
    sizes: Mapping[str, int],
    alone: SingleDeviceRun,
    sharded: RankOutputs,
) -> TrialComparison:
    """How far apart they are, and which arrays further than rounding explains.

    ``sizes`` are of all axes of devices. Along the axis of stages a value is where it is held, and
    there all that belong to it are compared.
    """
    whole = (replace(one, partial=()) for one in program.outputs)
    lies = dict(zip(output_names(step), whole, strict=True))
    held = [
        step.graph.inputs[place].name
        for out, place in step.updates
        if step.roles[place] == "parameter" and step.graph.outputs[out] != step.graph.inputs[place]
    ] or list(alone.values)
    apart = {
        name: _max_difference(name, lies[name], sizes, array, sharded)
        for name, array in alone.values.items()
    }
    near = next(
        one for dtype, one in TOLERANCES.items() if dtype in _dtypes(step) or dtype == "f32"
    )
    rounding = {name: _rounding(name, alone) for name in alone.values}
    beyond = {
        name: float(np.max(one / (near + ROUNDING * rounding[name]))) for name, one in apart.items()
    }
    unlike = sorted((name for name in beyond if not beyond[name] <= 1), key=lambda n: -beyond[n])
    steps = len(next(iter(apart.values())))
    losses = next((part for (_, name), part in sharded.parts.items() if name == "loss"), None)
    rows = tuple(
        StepDifference(
            loss_alone=float(alone.values["loss"][turn]) if "loss" in alone.values else None,
            loss_sharded=None if losses is None else float(losses[turn]),
            difference=max(float(apart[name][turn]) for name in held),
            rounding=max(float(rounding[name][turn]) for name in held),
        )
        for turn in range(steps)
    )
    return TrialComparison(rows, tuple(unlike))


def _dtypes(step: Step) -> set[str]:
    """All in which something is computed."""
    graphs = (step.graph, *(one.body for one in step.graph.everywhere() if one.body is not None))
    return {value.type.dtype for graph in graphs for value in graph.values.values()}


def _max_difference(
    name: str, lies: Sharding, sizes: Mapping[str, int], whole: Array, sharded: RankOutputs
) -> Array:
    """Of each step the largest difference on any device; infinite where something is no number."""
    size = _largest_element(whole)
    devices = product(*(range(size) for size in sizes.values()))
    places = [dict(zip(sizes, at, strict=True)) for at in devices]
    held = {places[rank].get(PIPE) for rank, one in sharded.parts if one == name}
    worst = np.full(len(whole), 0.0 if held else np.inf)
    for rank, at in enumerate(places):
        if at.get(PIPE) not in held:
            continue
        wanted = _block(whole, lies, sizes, at)
        part = sharded.parts[rank, name].astype(np.float64)
        if lies.flat:
            part = part[..., : wanted.shape[-1]]
        gap = np.abs(part - wanted.astype(np.float64)).reshape(len(whole), -1)
        worst = np.maximum(worst, np.max(gap, axis=1, initial=0.0))
    return np.where(np.isnan(worst), np.inf, worst / size)


def _largest_element(whole: Array) -> Array:
    """Of each step the largest element, 1 where all are zero."""
    largest = np.max(np.abs(whole.astype(np.float64)).reshape(len(whole), -1), axis=1, initial=0.0)
    return np.where(largest == 0, 1.0, largest)


def _rounding(name: str, alone: SingleDeviceRun) -> Array:
    one, other = alone.values[name].astype(np.float64), alone.wider[name]
    gap = np.abs(one - other).reshape(len(one), -1)
    return np.asarray(np.max(gap, axis=1, initial=0.0) / _largest_element(alone.values[name]))


def _block(whole: Array, lies: Sharding, sizes: Mapping[str, int], at: Mapping[str, int]) -> Array:
    """A device's block of an array whose first dimension is steps."""
    numbers = block(lies, sizes, at)
    for dimension, (number, parts) in enumerate(zip(numbers, lies.parts(sizes), strict=True), 1):
        whole = np.split(whole, parts, axis=dimension)[number]
    if lies.flat:
        return _piece(whole, lies, sizes, at)
    return whole


def _piece(block: Array, lies: Sharding, sizes: Mapping[str, int], at: Mapping[str, int]) -> Array:
    """A device's elements of a block that is cut flat, without padding: the last have fewer."""
    [number] = numbers_of([lies.flat], sizes, at)
    rows = block.reshape(*block.shape[: lies.lead + 1], -1)
    each = -(-rows.shape[-1] // prod(sizes[axis] for axis in lies.flat))
    return rows[..., number * each : (number + 1) * each]
