"""Damaged programs: the judge of whole steps finds what is wrong with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import ReductionKind, Sharding
from sharded_steps import (
    Devices,
    Whole,
    WrongError,
    carry_on,
    in_double_precision,
    in_float64,
    judge,
    mlp,
    on_one_device,
    random_plan,
    small,
)
from synth.step.redistribution import find_path
from synth.step.redistribution.moves import MoveKind
from synth.step.sharding import LocalOperation, RedistributedValue, StepProgram, apply
from traced_steps import step

SIZES = {"data": 2, "tensor": 2}
SWAPPED = {"data": "tensor", "tensor": "data"}


def dropped(one: RedistributedValue) -> RedistributedValue | None:
    """Its first move is left out; a mask of a maximum changes nothing, so is none to leave out."""
    first = one.path.moves[0]
    if first.how is MoveKind.MASK and first.kind is not ReductionKind.SUM:
        return None
    path = copy(one.path)
    object.__setattr__(path, "moves", path.moves[1:])
    return replace(one, path=path)


def with_results(one: LocalOperation, results: tuple[Sharding, ...]) -> LocalOperation | None:
    return (
        None if results == one.how.results else replace(one, how=replace(one.how, results=results))
    )


def of_another_kind(one: LocalOperation) -> LocalOperation | None:
    """Partial sums are said to be maxima, others to be sums, which of booleans no type can say."""
    if any(value.type.dtype == "bool" for value in one.operation.results):
        return None
    return with_results(
        one,
        tuple(
            Sharding(
                lie.dimensions,
                tuple(
                    (ReductionKind.MAX if k is ReductionKind.SUM else ReductionKind.SUM, a)
                    for k, a in lie.partial
                ),
            )
            for lie in one.how.results
        ),
    )


def swapped(one: LocalOperation) -> LocalOperation | None:
    """The two axes change places."""
    return with_results(
        one,
        tuple(
            Sharding(
                tuple(tuple(SWAPPED[axis] for axis in axes) for axes in lie.dimensions),
                tuple((kind, SWAPPED[axis]) for kind, axis in lie.partial),
            )
            for lie in one.how.results
        ),
    )


def forgotten(one: LocalOperation) -> LocalOperation | None:
    """Of the row along an axis only the operands stay: results are said to be replicated."""
    return with_results(one, tuple(lie.without("tensor") for lie in one.how.results))


def damaged(one: LocalOperation) -> LocalOperation | None:
    """Along an axis another row, which is none: its first whole operand is said to be a sum."""
    if one.operation.primitive not in READS_ALL:
        return None
    for at, (operand, lie) in enumerate(zip(one.operation.operands, one.how.operands, strict=True)):
        if isinstance(operand, Value) and lie.along("tensor") is None:
            summed = lie.laid("tensor", ReductionKind.SUM)
            if len({kind for kind, _ in summed.partial}) > 1:
                continue
            operands = (*one.how.operands[:at], summed, *one.how.operands[at + 1 :])
            return replace(one, how=replace(one.how, operands=operands))
    return None


READS_ALL = ("add", "sub", "mul", "neg", "dot_general", "transpose", "reduce_sum", "exp", "div")
"""Of these the result is another if an operand is, unless it is zero."""


def varied(value: np.ndarray) -> bool:
    """Many numbers with both signs: blocks of one number are alike, and max(x, 0) may be x.

    Not the gradient of a bias of keys, which is zero but for its rounding.
    """
    far = value.min() < -1e-6 and value.max() > 1e-6
    return np.unique(value).size > value.size // 2 and bool(far)


@cache
def right(model: str, seed: int) -> tuple[StepProgram, Devices]:
    """A program that is right, and what its devices hold."""
    one = MODELS[model]()
    program = apply(one, random_plan(one, SIZES, seed))
    return program, judge(one, program, SIZES, on_one_device(one))


def mutants(
    kind: Any, model: str, seeds: int
) -> Iterator[tuple[LocalOperation | RedistributedValue, Devices]]:
    """Programs that differ in one instruction, which is all that need be done again."""
    whole = on_one_device(MODELS[model]())
    for seed in range(seeds):
        program, held = right(model, seed)
        for one in program.instructions:
            values = (
                [one.value] if isinstance(one, RedistributedValue) else list(one.operation.results)
            )
            if isinstance(one, LocalOperation) and one.body is not None:
                continue
            if isinstance(one, RedistributedValue) != (kind is dropped):
                continue
            wrong = kind(one)
            if wrong and all(varied(whole.values[value.name]) for value in values):
                yield wrong, held


def redistributed(one: LocalOperation | RedistributedValue, held: Devices, whole: Whole) -> None:
    """Operands of a damaged row are there, lying as it says."""
    if isinstance(one, RedistributedValue):
        return
    for operand, lie in zip(one.operation.operands, one.how.operands, strict=True):
        if isinstance(operand, Value) and (operand.name, lie) not in held.held:
            made = next(it for name, it in held.held if name == operand.name)
            path = find_path(operand.type, made, lie, SIZES)
            carry_on(RedistributedValue(operand, path), held, whole)


KINDS = (dropped, of_another_kind, swapped, forgotten, damaged)


def unrolled(name: str) -> Step:
    """One layer, written out, so that all of it is judged."""
    return in_float64(step(name, (("layers", 1),), unrolled=True, optimizer="sgd"))


MODELS: Mapping[str, Callable[[], Step]] = {
    "mlp": mlp,
    "gpt2": cache(lambda: unrolled("gpt2-tiny")),
    "experts": cache(lambda: unrolled("mixtral-tiny")),
    "resnet": lambda: small("resnet"),
    "vit": cache(lambda: unrolled("vit-tiny")),
}


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("mlp", 20),
        *(pytest.param(one, 5, marks=pytest.mark.slow) for one in MODELS if one != "mlp"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_mutant_is_caught(kind: Any, model: str, count: int) -> None:
    whole = on_one_device(MODELS[model]())
    every = list(mutants(kind, model, seeds=2))
    found = every[:: len(every) // count][:count]
    assert len(found) == count
    with in_double_precision():
        for wrong, held in found:
            redistributed(wrong, held, whole)
            with pytest.raises(WrongError):
                carry_on(wrong, held, whole)
