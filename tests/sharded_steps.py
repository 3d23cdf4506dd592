"""The judge of whole sharded steps: virtual devices that carry out a program, one for each part.

It reads rows' parts and moves as data and knows no factor. Steps are computed in float64, where
the order of sums moves the 15th digit: every value that any device makes, and every one that is
redistributed, is put together again and compared with the step on one device. In float32 the same
plans differ by 1e-5 to 1e-3 of the largest element, as parts of sums are drawn much larger than
the sums: a bound that wide would let small errors pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import prod
from typing import Any

import jax
import numpy as np

from equations.executed import DTYPES, execute, is_key
from equations.laid_out import equal
from equations.parts import execute_part
from grammar.tensors.operations import Graph, Literal, Operand, Operation, Step, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import ReductionKind, Sharding, shardings
from hierarchies import InputError
from places import TESTS
from replicas import REDUCE, Parts, carry_out, cut, devices, number
from synth.step.factors import list_rows, part_of, shard_operation
from synth.step.sharding import (
    Cuts,
    LocalOperation,
    Plan,
    RedistributedValue,
    Rows,
    SentValue,
    StepProgram,
)
from synth.step.sharding.plan import scan_operands_of
from synth.step.zoo.models import ModelOptions
from synth.step.zoo.sizes import ResNet
from synth.step.zoo.table import model_of, step_of
from traced_steps import step

Array = Any
NEAR = 1e-9
"""Of the largest element: sums in another order differ by less, errors by more."""


class WrongError(Exception):
    """Devices do not hold what one device would."""


def in_float64(step: Step) -> Step:
    """The same step in numbers whose rounding does not matter."""
    return parse_step(str(step).replace("f32", "f64"))


def in_double_precision() -> Any:
    """JAX computes in what it is given, which it else rounds to float32."""
    return jax.enable_x64(True)


def drawn_inputs(step: Step, seed: int = 0) -> list[Array]:
    """Numbers with signs and fractions; squares of gradients positive; few classes and tokens."""
    draw = np.random.default_rng(seed)

    def one(label: str, value: Value, role: str) -> Array:
        kind = DTYPES[value.type.dtype]
        if not np.issubdtype(kind, np.floating):
            span = (0, 2) if label in ("follows", "sentences") else (1, 6)
            return draw.integers(*span, value.type.shape).astype(kind)
        found = draw.standard_normal(value.type.shape).astype(kind)
        if label == "masked":
            return (found > 0).astype(kind)
        return found**2 + 0.1 if "square" in label else found if role == "batch" else found * 0.3

    graph = step.graph
    return [one(*each) for each in zip(step.labels, graph.inputs, step.roles, strict=True)]


# -- one device


@dataclass
class Whole:
    """The values of a graph on one device; of a body those of each repetition."""

    values: dict[str, Array] = field(default_factory=dict)
    bodies: dict[str, list[Whole]] = field(default_factory=dict)

    def of(self, operand: Operand) -> Array:
        return constant(operand) if isinstance(operand, Literal) else self.values[operand.name]


def constant(one: Literal) -> Array:
    return np.asarray(one.value, DTYPES[one.dtype])


def run_whole(graph: Graph, inputs: Sequence[Array]) -> Whole:
    """All values."""
    found = Whole(dict(zip((one.name for one in graph.inputs), inputs, strict=True)))
    with in_double_precision():
        for operation in graph.operations:
            operands = [found.of(one) for one in operation.operands]
            if operation.body is None:
                made = execute(operation.primitive, operation.parameter, operands)
            else:
                made = _repeat_whole(operation, operands, found)
            for value, array in zip(operation.results, made, strict=True):
                found.values[value.name] = plain(array)
    return found


def plain(array: Array) -> Array:
    """Of numpy; but a key stays one of jax."""
    return array if is_key(array) else np.asarray(array)


def times(loop: Operation) -> list[int]:
    length = int(str(loop.parameter["length"]))
    return list(range(length))[:: -1 if loop.parameter["reverse"] else 1]


def _repeat_whole(loop: Operation, operands: list[Array], found: Whole) -> list[Array]:
    assert loop.body is not None
    how = scan_operands_of(loop.parameter)
    kept = how.constants + how.carried
    carried = operands[how.constants : kept]
    ran: dict[int, Whole] = {}
    for at in times(loop):
        inputs = [*operands[: how.constants], *carried, *(one[at] for one in operands[kept:])]
        ran[at] = run_whole(loop.body, inputs)
        carried = [ran[at].of(one) for one in loop.body.outputs[: how.carried]]
    found.bodies[loop.results[0].name] = [ran[at] for at in sorted(ran)]
    stacks = [
        np.stack([ran[at].of(one) for at in sorted(ran)])
        for one in loop.body.outputs[how.carried :]
    ]
    return [*carried, *stacks]


@cache
def mlp() -> Step:
    """The smallest step that is kept."""
    return in_float64(parse_step((TESTS / "steps" / "mlp-tiny.step").read_text(encoding="utf-8")))


SMALL: Mapping[str, Callable[[], Step]] = {
    "mlp": lambda: step("mlp-tiny"),
    "gpt2": lambda: step("gpt2-tiny", optimizer="sgd"),
    "llama3": lambda: step("llama3-tiny", optimizer="sgd"),
    "bert": lambda: step("bert-tiny", optimizer="sgd"),
    "experts": lambda: step("mixtral-tiny", optimizer="sgd"),
    "experts, dropless": lambda: step("dropless-tiny", optimizer="sgd"),
    "resnet": lambda: step_of(
        model_of("resnet", ResNet((1,), width=4, image=16, classes=8), ModelOptions(batch=4)), "sgd"
    ),
    "lstm": lambda: step("lstm-tiny", (("sequence", 4),), optimizer="sgd"),
    "vit": lambda: step("vit-tiny", optimizer="sgd"),
}
"""Every kind of model. AdamW does the same with each parameter: one model is enough of it."""


@cache
def small(name: str) -> Step:
    """One of these in float64."""
    return in_float64(SMALL[name]())


@cache
def on_one_device(step: Step) -> Whole:
    return run_whole(step.graph, drawn_inputs(step))


# -- many devices


@dataclass
class Devices:
    """Parts of values by name and sharding."""

    sizes: Mapping[str, int]
    held: dict[tuple[str, Sharding], Parts] = field(default_factory=dict)
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))

    def read(self, operand: Operand, sharding: Sharding) -> Parts:
        if isinstance(operand, Literal):
            return {at: constant(operand) for at in devices(self.sizes)}
        if (operand.name, sharding) not in self.held:
            raise WrongError(f"nobody made {operand} lie as {sharding.spelled()}")
        return self.held[operand.name, sharding]

    def hold(self, value: Value, sharding: Sharding, parts: Parts, whole: Whole) -> None:
        check(value.name, parts, whole.values[value.name], sharding, self.sizes)
        self.held[value.name, sharding] = parts

    def shake(self, value: Value, sharding: Sharding, whole: Whole) -> None:
        """Partial values are given other parts, which mean the same.

        After a mask the first device has all of a sum, or every one has the maximum: a product of
        two such sums, which is wrong of others, would be right.
        """
        if sharding.partial:
            found = cut(whole.values[value.name], sharding, self.sizes, self.draw)
            self.held[value.name, sharding] = found


def check(
    name: str,
    parts: Parts,
    value: Array,
    sharding: Sharding,
    sizes: Mapping[str, int],
    near: float = NEAR,
) -> None:
    """Raise WrongError unless the parts are the value, lying so: also equal bits on replicas."""
    names = list(sizes)
    partial = [names.index(axis) for _, axis in sharding.partial]
    alike = [place for place, axis in enumerate(names) if axis not in sharding.axes]
    kind = sharding.partial[0][0] if partial else ReductionKind.SUM
    if is_key(value):
        if not all(equal(part, value) for part in parts.values()):
            raise WrongError(f"{name}: a device has another key")
        return
    near *= 1 + np.max(np.abs(value.astype(np.float64)), initial=0)
    together: dict[tuple[int, ...], list[Array]] = {}
    for at in devices(sizes):
        block, each = _block(value, sharding, sizes, at)
        if parts[at].shape != each or parts[at].dtype != block.dtype:
            raise WrongError(f"{name}: device {at} holds {parts[at].shape}, not {each}")
        twin = tuple(0 if place in alike else one for place, one in enumerate(at))
        mine, other = (parts[one] for one in (at, twin))
        if sharding.flat:  # what is padding means nothing
            mine, other = (one[..., : block.shape[-1]] for one in (mine, other))
        if mine.tobytes() != other.tobytes():
            raise WrongError(f"{name}: devices {twin} and {at} hold other bits")
        key = tuple(0 if place in partial else one for place, one in enumerate(at))
        together.setdefault(key, []).append(mine)
        if len(together[key]) == len(list(product(*(range(sizes[names[p]]) for p in partial)))):
            found = np.asarray(REDUCE[kind].reduce(together[key]) if partial else mine)
            found = found.astype(block.dtype)  # words wrap around
            wrong = found != block
            if block.dtype != bool:
                gap = found.astype(np.float64) - block.astype(np.float64)
                wrong = ~(np.abs(gap) <= near) & wrong
            if np.any(wrong):
                raise WrongError(f"{name} {sharding.spelled()} around device {at} is another value")


def _block(
    value: Array, sharding: Sharding, sizes: Mapping[str, int], at: tuple[int, ...]
) -> tuple[Array, tuple[int, ...]]:
    """What a device is to hold, without padding, and the shape that it has with it."""
    for dimension, axes in enumerate(sharding.dimensions):
        pieces = np.split(value, sharding.parts(sizes)[dimension], axis=dimension)
        value = pieces[number(at, axes, sizes)]
    if not sharding.flat:
        return value, value.shape
    lead, count = value.shape[: sharding.lead], prod(sizes[axis] for axis in sharding.flat)
    rows = value.reshape(*lead, -1)
    each = -(-rows.shape[-1] // count)
    first = number(at, sharding.flat, sizes) * each
    return rows[..., first : first + each], (*lead, each)


def run_sharded(
    graph: Graph,
    program: StepProgram,
    whole: Whole,
    inputs: Sequence[Parts],
    sizes: Mapping[str, int],
) -> Devices:
    """All parts, each compared with the whole. Raises WrongError."""
    held = Devices(sizes)
    with in_double_precision():
        for value, sharding, parts in zip(graph.inputs, program.inputs, inputs, strict=True):
            held.hold(value, sharding, parts, whole)
        for one in program.instructions:
            carry_on(one, held, whole)
        for output, sharding in zip(graph.outputs, program.outputs, strict=True):
            held.read(output, sharding)
    return held


def carry_on(
    one: LocalOperation | RedistributedValue | SentValue, held: Devices, whole: Whole
) -> None:
    """One more instruction. Raises WrongError."""
    match one:
        case RedistributedValue(value, path):
            before = held.read(value, path.source)
            parts = carry_out(path, before, held.sizes, value.type.shape)
            held.hold(value, path.target, parts, whole)
            held.shake(value, path.target, whole)
        case LocalOperation():
            _do(one, held, whole)
        case SentValue(value, sharding):
            held.read(value, sharding)


def _do(done: LocalOperation, held: Devices, whole: Whole) -> None:
    operation, how = done.operation, done.how
    operands = [held.read(*one) for one in zip(operation.operands, how.operands, strict=True)]
    if done.body is not None:
        made = _repeat(done, operands, whole.bodies[operation.results[0].name], held.sizes)
    else:
        mine = part_of(operation, how, held.sizes)
        ran = {
            at: execute_part(mine, [one[at] for one in operands], held.sizes, at)
            for at in devices(held.sizes)
        }
        made = [
            {at: plain(arrays[i]) for at, arrays in ran.items()}
            for i in range(len(operation.results))
        ]
    for value, sharding, parts in zip(operation.results, how.results, made, strict=True):
        held.hold(value, sharding, parts, whole)


def _repeat(
    done: LocalOperation, operands: list[Parts], bodies: list[Whole], sizes: Mapping[str, int]
) -> list[Parts]:
    loop, program = done.operation, done.body
    assert loop.body is not None
    assert program is not None
    how = scan_operands_of(loop.parameter)
    kept = how.constants + how.carried
    carried = operands[how.constants : kept]
    stacks: dict[int, list[Parts]] = {}
    for time in times(loop):
        slices = [{at: one[time] for at, one in parts.items()} for parts in operands[kept:]]
        inputs = [*operands[: how.constants], *carried, *slices]
        held = run_sharded(loop.body, program, bodies[time], inputs, sizes)
        outputs = [held.read(*one) for one in zip(loop.body.outputs, program.outputs, strict=True)]
        carried, stacks[time] = outputs[: how.carried], outputs[how.carried :]
    count = len(loop.body.outputs) - how.carried
    return [
        *carried,
        *(
            {at: np.stack([stacks[t][i][at] for t in sorted(stacks)]) for at in devices(sizes)}
            for i in range(count)
        ),
    ]


def judge(step: Step, program: StepProgram, sizes: Mapping[str, int], whole: Whole) -> Devices:
    """Raise WrongError where a program of the step computes anything else than the step."""
    draw = np.random.default_rng(7)
    inputs = [
        cut(whole.values[value.name], sharding, sizes, draw)
        for value, sharding in zip(step.graph.inputs, program.inputs, strict=True)
    ]
    held = run_sharded(step.graph, program, whole, inputs, sizes)
    for out, place in step.updates:
        held.read(step.graph.outputs[out], program.inputs[place])
    return held


# -- plans at random


def random_plan(
    step: Step, sizes: Mapping[str, int], seed: int, inputs: Sequence[Sharding] = ()
) -> Plan:
    """A legal row for every operation and axis, and a type for every input not said, by lot."""
    cuts = _random(step.graph, sizes, np.random.default_rng(seed))
    return Plan(tuple(sizes.items()), Cuts(tuple(inputs) or cuts.inputs, cuts.operations))


def _random(graph: Graph, sizes: Mapping[str, int], draw: np.random.Generator) -> Cuts:
    return Cuts(
        tuple(_random_type(one, sizes, draw) for one in graph.inputs),
        tuple(
            _random_rows(one, sizes, draw) if one.body is None else _random(one.body, sizes, draw)
            for one in graph.operations
        ),
    )


def _random_type(value: Value, sizes: Mapping[str, int], draw: np.random.Generator) -> Sharding:
    shape, dtype = value.type.shape, value.type.dtype
    kinds = (ReductionKind.SUM, ReductionKind.MAX)[int(dtype == "bool") : 1 + int(dtype == "bool")]
    fit = [
        one
        for one in shardings(len(shape), tuple(sizes), kinds)
        if not any(s % p for s, p in zip(shape, one.parts(sizes), strict=True))
    ]
    return fit[draw.integers(len(fit))]


def _random_rows(operation: Operation, sizes: Mapping[str, int], draw: np.random.Generator) -> Rows:
    legal = list_rows(operation)
    for _ in range(20):
        axes = draw.permutation(list(sizes))
        chosen = tuple((str(axis), legal[draw.integers(len(legal))]) for axis in axes)
        try:
            shard_operation(operation, dict(chosen), sizes)
        except InputError:
            continue
        return chosen
    return ()
