"""Small models under plans drawn by lot, as emitted files that run on several devices.

The file is that of the step itself, but that inputs and outputs may be partial: every output, put
together from what all devices hold, is compared with the unsharded step, and that with JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equations.executed import DTYPES
from grammar.tensors.operations import Literal, Step, Value
from grammar.tensors.parser import parse_type
from moved_parts import RUNNERS
from replicas import cut
from sharded_steps import NEAR, WrongError, check, drawn_inputs, in_float64, random_plan, run_whole
from small_models import MODELS
from synth.step.emit import ProgramSection, write_operations
from synth.step.sharding import Plan, apply
from synth.step.trace.pruning import prune
from synth.step.trace.reading import read_jaxpr

Array = Any
ROUNDED = 1e-4
"""Of the largest element: constants that JAX writes in float32, or all numbers in that."""


@dataclass(frozen=True)
class Computed:
    """A model as a step, its inputs, and what the step makes of them on one device."""

    step: Step
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


@cache
def computed(name: str) -> Computed:
    """A small model in float64 where that may be. Raises AssertionError unless JAX agrees."""
    model = MODELS[name]

    def function(*given: Any) -> Any:
        return jax.tree.leaves(model.function(*given))

    types = [parse_type(one)[0] for one in model.types]
    names = tuple(f"input{at}" for at in range(len(types)))
    abstract = [jax.ShapeDtypeStruct(one.shape, DTYPES[one.dtype]) for one in types]
    graph, captured = read_jaxpr(jax.make_jaxpr(function)(*abstract), names)
    labels = tuple(value.name for value in graph.inputs)
    step = Step(name, prune(graph), ("batch",) * len(labels), labels)
    step = in_float64(step) if model.widens else step
    own = drawn_inputs(step)[: len(types)]
    kinds = [DTYPES[value.type.dtype] for value in step.graph.inputs[len(types) :]]
    inputs = (*own, *(np.asarray(one, kind) for one, kind in zip(captured, kinds, strict=True)))
    whole = run_whole(step.graph, inputs)
    outputs = tuple(whole.of(one) for one in step.graph.outputs)
    with jax.enable_x64(model.widens):
        wanted = jax.jit(function)(*own)
    for found, one in zip(outputs, wanted, strict=True):
        assert is_near(found, np.asarray(one)), (name, found, one)
    return Computed(step, inputs, outputs)


def is_near(found: Array, wanted: Array) -> bool:
    """Equal but for rounding; whole numbers and booleans are equal."""
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind not in "fV":
        return bool(np.array_equal(found, wanted))
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    return bool(np.allclose(one, other, ROUNDED, ROUNDED * np.max(np.abs(other), initial=1e-3)))


def wrong_outputs(
    runtime: str, name: str, sizes: Mapping[str, int], seed: int, folder: Path
) -> list[str]:
    """What devices hold of the outputs that is not what one device makes, in words."""
    model = computed(name)
    plan = random_plan(model.step, sizes, seed)
    return wrong_under(runtime, model, plan, folder)


def wrong_under(runtime: str, model: Computed, plan: Plan, folder: Path) -> list[str]:
    """The same under a plan that is given."""
    step, sizes = model.step, plan.sizes
    near = NEAR if MODELS[step.name].widens else ROUNDED
    program, draw = apply(step, plan), np.random.default_rng(7)
    inputs = tuple(zip(step.graph.inputs, program.inputs, strict=True))
    outputs = tuple(zip(step.graph.outputs, program.outputs, strict=True))
    section = ProgramSection(None, program.instructions, inputs, outputs)
    given = [
        cut(whole, lies, sizes, draw) for whole, (_, lies) in zip(model.inputs, inputs, strict=True)
    ]
    made = RUNNERS[runtime](write_operations(runtime, section, sizes), given, sizes, folder)
    found = []
    for parts, (value, lies), whole in zip(made, outputs, model.outputs, strict=True):
        if isinstance(value, Literal):
            continue
        try:
            check(value.name, _as_kept(parts, value), np.asarray(whole), lies, sizes, near)
        except WrongError as error:
            found.append(str(error))
    return found


def _as_kept(parts: Mapping[tuple[int, ...], Array], value: Value) -> Any:
    """PyTorch keeps words of 32 bits in 64."""
    kind = DTYPES[value.type.dtype]
    words = value.type.dtype == "u32"
    return {at: part.astype(kind) if words else part for at, part in parts.items()}
