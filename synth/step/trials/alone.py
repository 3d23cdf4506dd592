"""Runs the steps on one device, as the reference for runs on several devices.

The steps run twice, the second time in wider numbers. The difference shows the effect of rounding.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from synth.step.emit import output_names, write
from synth.step.models import ModelSettings, zoo_function
from synth.step.sharding import Plan, apply
from synth.step.sharding.plan import replicate_all
from synth.step.trials.inputs import Array, Values, split_stacks
from synth.step.trials.processes import TrialSettings, run_trial
from synth.step.zoo.sizes import ModelSource

Function = tuple[Callable[..., Any], tuple[Any, Any, Any]]
"""A whole step as a function, and the shapes of its arguments."""

WIDER_DTYPES = {"bfloat16": "float32", "float32": "float64"}


@dataclass(frozen=True)
class SingleDeviceRun:
    """All outputs after each step, stacked in the first dimension; ``what`` computed them."""

    what: str
    values: Values
    wider: Values

    def of(self, step: Step) -> SingleDeviceRun:
        """Returns the same for a step prepared for stages, whose stacks of layers are split."""
        values = split_stacks(step, self.values, 1)
        wider = split_stacks(step, self.wider, 1)
        return replace(self, values=values, wider=wider)


def run_in_jax(
    step: Step,
    model: tuple[ModelSource, Mapping[str, int], ModelSettings],
    inputs: Values,
    steps: int,
) -> SingleDeviceRun:
    """Runs the function of a model of the zoo in JAX."""
    name, changes, spelling = model
    wide = replace(spelling, dtype=WIDER_DTYPES[spelling.dtype])
    function = zoo_function(name, changes, spelling)
    values = _run_function(step, function, inputs, steps, wide=False)
    function = zoo_function(name, changes, wide)
    wider = _run_function(step, function, inputs, steps, wide=wide.dtype == "float64")
    return SingleDeviceRun("the model's own function in JAX", values, wider)


def run_own_function(
    step: Step, function: Function, inputs: Values, trial: TrialSettings
) -> SingleDeviceRun:
    """Runs the function of a user's model in JAX, independently of its trace.

    It may not support wider numbers, so the effect of rounding is measured on the step's text.
    """
    values = _run_function(step, function, inputs, trial.steps, wide=False)
    emitted = run_text(step, inputs, trial)
    wider = {name: values[name] + (emitted.wider[name] - emitted.values[name]) for name in values}
    return SingleDeviceRun("the model's own function in JAX", values, wider)


def _run_function(
    step: Step,
    function: Function,
    inputs: Values,
    steps: int,
    *,
    wide: bool,
) -> Values:
    import jax  # Not at the top of the file: the core runs without it.

    called, shapes = function
    roles = {value.name: role for value, role in zip(step.graph.inputs, step.roles, strict=True)}
    names = [name for name in roles if name not in dict(step.constants)]
    batches = [name for name in names if roles[name] == "batch"]
    kinds = zip(names, jax.tree.leaves(shapes), strict=True)
    inputs_held = {
        name: _widen(inputs[name]) if wide else inputs[name].astype(shape.dtype)
        for name, shape in kinds
    }
    outputs: dict[str, list[Array]] = {}
    with jax.enable_x64(wide):
        # Only a few steps run, so compile time dominates.
        jitted = jax.jit(called, compiler_options={"xla_backend_optimization_level": 0})
        for turn in range(steps):
            now = {**inputs_held, **{name: inputs_held[name][turn] for name in batches}}
            tree = jax.tree.unflatten(jax.tree.structure(shapes), [now[name] for name in names])
            results = [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(*tree))]
            inputs_held |= {names[place]: results[out] for out, place in step.updates}
            for name, array in zip(output_names(step), results, strict=True):
                # NumPy lists bfloat16 as kind V (void), as it is no type of its own.
                widened = array.astype(np.float32) if array.dtype.kind == "V" else array
                outputs.setdefault(name, []).append(widened)
    return {name: np.stack(arrays) for name, arrays in outputs.items()}


def _widen(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def run_text(step: Step, inputs: Values, trial: TrialSettings) -> SingleDeviceRun:
    """Runs the step's own text, emitted for one device; used if there is no function to run."""
    wide = _widen_step(step)
    return SingleDeviceRun(
        "the step's text on one device",
        _run_text(step, inputs, trial),
        _run_text(wide, {name: _widen(array) for name, array in inputs.items()}, trial),
    )


_FROM_BITS = re.compile(r"^( *)(\S+): f32(\S*) = (bitcast_\S+) new_dtype=f32(.*)$", re.MULTILINE)


def _widen_step(step: Step) -> Step:
    """Returns the step in float64; values built from bits, such as random numbers, stay float32."""
    names = tuple(value.name for value in step.graph.inputs)
    text = str(replace(step, labels=names, constants=()))
    from_bits = r"\1\2.bits: F32\3 = \4 new_dtype=F32\5"
    widened = r"\1\2: f32\3 = convert_element_type(\2.bits) new_dtype=f32\5"
    separated = _FROM_BITS.sub(f"{from_bits}\n{widened}", text)
    parsed = parse_step(separated.replace("f32", "f64").replace("F32", "f32"))
    constants = [
        (name, _wider_bytes(data) if step.graph.values[name].type.dtype == "f32" else data)
        for name, data in step.constants
    ]
    return replace(parsed, labels=step.labels, constants=tuple(constants))


def _wider_bytes(data: bytes) -> bytes:
    return np.frombuffer(data, "<f4").astype("<f8").tobytes()


def _run_text(step: Step, inputs: Values, trial: TrialSettings) -> Values:
    plan = Plan((("one", 1),), replicate_all(step.graph))
    text = write(trial.runtime, step, apply(step, plan), plan.sizes)
    with tempfile.TemporaryDirectory(prefix="collsynth-") as folder:
        outputs = run_trial({"step.py": text}, 1, inputs, replace(trial, processes=1), Path(folder))
    return {name: array for (_, name), array in outputs.parts.items()}
