"""Compares values on all devices with values on one device, by the largest difference.

An allowed difference follows from rounding. Every part on every device is compared, so replicas are
also compared with each other.
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
"""Tolerances by dtype, as shares of an array's largest element: reordered sums differ by less."""
ROUNDING = 10
"""The allowed difference on several devices, in multiples of the rounding on one device."""


@dataclass(frozen=True)
class StepDifference:
    """One step: losses, and the largest difference of a parameter, as a share of its array's size.

    For a step that changes no parameters, the largest difference of any output. ``rounding``: the
    difference to the same step on one device in wider numbers. Losses are None if the step has
    none.
    """

    loss_alone: float | None
    loss_sharded: float | None
    difference: float
    rounding: float


@dataclass(frozen=True)
class TrialComparison:
    """All steps, and the names of arrays that are not equal, worst first."""

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
    """Compares runs, and lists the arrays that differ by more than rounding explains.

    ``sizes``: of all axes of devices. Along the pipeline axis a value is on some ranks only, and
    is compared there.
    """
    whole = (replace(sharding, partial=()) for sharding in program.outputs)
    shardings = dict(zip(output_names(step), whole, strict=True))
    compared = [
        step.graph.inputs[place].name
        for out, place in step.updates
        if step.roles[place] == "parameter" and step.graph.outputs[out] != step.graph.inputs[place]
    ] or list(alone.values)
    differences = {
        name: _max_difference(name, shardings[name], sizes, array, sharded)
        for name, array in alone.values.items()
    }
    tolerance = next(
        share for dtype, share in TOLERANCES.items() if dtype in _dtypes(step) or dtype == "f32"
    )
    rounding = {name: _rounding(name, alone) for name in alone.values}
    excess = {
        name: float(np.max(difference / (tolerance + ROUNDING * rounding[name])))
        for name, difference in differences.items()
    }
    # ``not <= 1`` rather than ``> 1``, so that NaN counts as different.
    unlike = sorted((name for name in excess if not excess[name] <= 1), key=lambda n: -excess[n])
    steps = len(next(iter(differences.values())))
    losses = next((part for (_, name), part in sharded.parts.items() if name == "loss"), None)
    rows = tuple(
        StepDifference(
            loss_alone=float(alone.values["loss"][turn]) if "loss" in alone.values else None,
            loss_sharded=None if losses is None else float(losses[turn]),
            difference=max(float(differences[name][turn]) for name in compared),
            rounding=max(float(rounding[name][turn]) for name in compared),
        )
        for turn in range(steps)
    )
    return TrialComparison(rows, tuple(unlike))


def _dtypes(step: Step) -> set[str]:
    """Returns all dtypes in which a value is computed."""
    values = (value for graph in step.graph.graphs() for value in graph.values.values())
    return {value.type.dtype for value in values}


def _max_difference(
    name: str, sharding: Sharding, sizes: Mapping[str, int], whole: Array, sharded: RankOutputs
) -> Array:
    """Returns the largest difference on any device in each step; infinite if a value is NaN."""
    size = _largest_element(whole)
    devices = product(*(range(size) for size in sizes.values()))
    positions = [dict(zip(sizes, at, strict=True)) for at in devices]
    ranks = {positions[rank].get(PIPE) for rank, part in sharded.parts if part == name}
    worst = np.full(len(whole), 0.0 if ranks else np.inf)
    for rank, at in enumerate(positions):
        if at.get(PIPE) not in ranks:
            continue
        expected = _block(whole, sharding, sizes, at)
        part = sharded.parts[rank, name].astype(np.float64)
        if sharding.flat:
            part = part[..., : expected.shape[-1]]
        gap = np.abs(part - expected.astype(np.float64)).reshape(len(whole), -1)
        worst = np.maximum(worst, np.max(gap, axis=1, initial=0.0))
    return np.where(np.isnan(worst), np.inf, worst / size)


def _largest_element(whole: Array) -> Array:
    """Returns the largest element in each step, 1 if all are zero."""
    largest = np.max(np.abs(whole.astype(np.float64)).reshape(len(whole), -1), axis=1, initial=0.0)
    return np.where(largest == 0, 1.0, largest)


def _rounding(name: str, alone: SingleDeviceRun) -> Array:
    values, wider = alone.values[name].astype(np.float64), alone.wider[name]
    gap = np.abs(values - wider).reshape(len(values), -1)
    return np.asarray(np.max(gap, axis=1, initial=0.0) / _largest_element(alone.values[name]))


def _block(
    whole: Array, sharding: Sharding, sizes: Mapping[str, int], at: Mapping[str, int]
) -> Array:
    """Returns a device's block of an array whose first dimension is steps."""
    numbers = block(sharding, sizes, at)
    for dimension, (number, parts) in enumerate(
        zip(numbers, sharding.parts(sizes), strict=True), 1
    ):
        whole = np.split(whole, parts, axis=dimension)[number]
    if sharding.flat:
        return _piece(whole, sharding, sizes, at)
    return whole


def _piece(
    block: Array, sharding: Sharding, sizes: Mapping[str, int], at: Mapping[str, int]
) -> Array:
    """Returns a device's elements of a flattened block, unpadded: the last devices have fewer."""
    [number] = numbers_of([sharding.flat], sizes, at)
    rows = block.reshape(*block.shape[: sharding.lead + 1], -1)
    piece = -(-rows.shape[-1] // prod(sizes[axis] for axis in sharding.flat))
    return rows[..., number * piece : (number + 1) * piece]
