"""Damaged programs: the judge of whole steps finds what is wrong with each."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.sharding import Kind, Sharding
from sharded_steps import (
    Devices,
    WrongError,
    carry_on,
    in_double_precision,
    judge,
    mlp,
    on_one_device,
    random_plan,
)
from synth.train.plans import Done, Moved, Program, apply
from synth.train.resharding.moves import How

SIZES = {"data": 2, "tensor": 2}
SWAPPED = {"data": "tensor", "tensor": "data"}


def dropped(one: Moved) -> Moved | None:
    """Its first move is left out; a mask of a maximum changes nothing, so is none to leave out."""
    first = one.path.moves[0]
    if first.how is How.MASK and first.kind is not Kind.SUM:
        return None
    path = copy(one.path)
    object.__setattr__(path, "moves", path.moves[1:])
    return replace(one, path=path)


def with_results(one: Done, results: tuple[Sharding, ...]) -> Done | None:
    return (
        None if results == one.how.results else replace(one, how=replace(one.how, results=results))
    )


def of_another_kind(one: Done) -> Done | None:
    """Partial sums are said to be maxima, others to be sums, which of booleans no type can say."""
    if any(value.type.dtype == "bool" for value in one.operation.results):
        return None
    return with_results(
        one,
        tuple(
            Sharding(
                lie.dimensions,
                tuple((Kind.MAX if k is Kind.SUM else Kind.SUM, a) for k, a in lie.partial),
            )
            for lie in one.how.results
        ),
    )


def swapped(one: Done) -> Done | None:
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


def forgotten(one: Done) -> Done | None:
    """Of the row along an axis only the operands stay: results are said to be replicated."""
    return with_results(one, tuple(lie.without("tensor") for lie in one.how.results))


def varied(value: np.ndarray) -> bool:
    """Many numbers with both signs: blocks of one number are alike, and max(x, 0) may be x."""
    return np.unique(value).size > value.size // 2 and bool(value.min() < 0 < value.max())


@cache
def right(seed: int) -> tuple[Program, Devices]:
    """A program that is right, and what its devices hold."""
    program = apply(mlp(), random_plan(mlp(), SIZES, seed))
    return program, judge(mlp(), program, SIZES, on_one_device(mlp()))


def mutants(kind: Any) -> Iterator[tuple[Done | Moved, Devices]]:
    """Programs that differ in one instruction, which is all that need be done again."""
    whole = on_one_device(mlp())
    for seed in range(2):
        program, held = right(seed)
        for one in program.instructions:
            values = [one.value] if isinstance(one, Moved) else list(one.operation.results)
            if isinstance(one, Done) and one.body is not None:
                continue
            if isinstance(one, Moved) != (kind is dropped):
                continue
            damaged = kind(one)
            if damaged and all(varied(whole.values[value.name]) for value in values):
                yield damaged, held


@pytest.mark.parametrize("kind", [dropped, of_another_kind, swapped, forgotten])
def test_every_mutant_is_caught(kind: Any) -> None:
    found = list(islice(mutants(kind), 25))
    assert len(found) == 25
    for damaged, held in found:
        with pytest.raises(WrongError), in_double_precision():
            carry_on(damaged, held, on_one_device(mlp()))
