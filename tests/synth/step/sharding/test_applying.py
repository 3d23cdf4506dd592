"""Plans applied to steps, judged on virtual devices: every value equals the step's on one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from exhaustive import RARELY
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError
from redistribution_proof import Proved, prove
from sharded_steps import SMALL, judge, mlp, on_one_device, random_plan, small
from synth.step.factors import list_rows
from synth.step.sharding import Cuts, Plan, RedistributedValue, apply

SIZES = {
    "4": {"data": 4},
    "2x4": {"data": 2, "tensor": 4},
    "2x2x2": {"data": 2, "sequence": 2, "tensor": 2},
}


@pytest.mark.parametrize("sizes", [{"data": 2}, {"data": 4}, {"data": 2, "tensor": 2}], ids=str)
def test_random_plans_compute_what_one_device_does(sizes: dict[str, int]) -> None:
    for seed in range(2):
        program = apply(mlp(), random_plan(mlp(), sizes, seed))
        judge(mlp(), program, sizes, on_one_device(mlp()))


def test_each_value_is_redistributed_once_for_each_type_and_only_where_types_differ() -> None:
    program = apply(mlp(), random_plan(mlp(), {"data": 2, "tensor": 2}, 3))
    moved = [(one.value.name, one.path.target) for one in program.moved()]
    assert len(moved) == len(set(moved))
    assert all(one.path.source != one.path.target for one in program.moved())
    assert any(isinstance(one, RedistributedValue) for one in program.instructions)


def test_a_plan_of_another_step_is_refused() -> None:
    cuts = random_plan(mlp(), {"data": 2}, 0).cuts
    shorter = Cuts(cuts.inputs, cuts.operations[:-1])
    with pytest.raises(InputError, match="a plan for 21 inputs and"):
        apply(mlp(), Plan((("data", 2),), shorter))


def test_a_row_that_the_operation_does_not_have_is_refused() -> None:
    cuts = random_plan(mlp(), {"data": 2}, 0).cuts
    product, rest = mlp().graph.operations[0], cuts.operations[1:]
    damaged = replace(list_rows(product)[1], results=(ReductionKind.SUM,))
    with pytest.raises(InputError, match="dot_general has no row"):
        apply(mlp(), Plan((("data", 2),), Cuts(cuts.inputs, ((("data", damaged),), *rest))))


def plans(seeds: range, axes: Iterable[str], models: Iterable[str] = SMALL) -> list[Any]:
    every = product(models, axes, seeds)
    return [pytest.param(*one, id=" ".join(map(str, one))) for one in every]


def rarely(*marks: pytest.MarkDecorator, of: list[Any]) -> list[Any]:
    return [pytest.param(*one.values, id=one.id, marks=marks) for one in of]


@pytest.mark.parametrize(
    ("model", "axes", "seed"),
    [
        *plans(range(1), ["4"], ("gpt2", "experts", "resnet")),
        *rarely(pytest.mark.slow, of=plans(range(1, 2), SIZES)),
        *rarely(*RARELY, of=plans(range(2, 5), SIZES)),
    ],
)
def test_random_plans_of_the_zoo_compute_what_one_device_does(
    model: str, axes: str, seed: int
) -> None:
    """Every value that a device makes, the updated parameters among them."""
    one = small(model)
    program = apply(one, random_plan(one, SIZES[axes], seed))
    judge(one, program, SIZES[axes], on_one_device(one))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llama3", "resnet"])
def test_redistributions_of_random_plans_are_proved_for_all_sizes(model: str) -> None:
    """Of values of up to 5 dimensions over three axes, partial sums, maxima and minima."""
    sizes = SIZES["2x2x2"]
    program = apply(small(model), random_plan(small(model), sizes, 1))
    found = sorted({one.path for one in program.moved()}, key=str)
    assert {kind for path in found for kind, _ in path.source.partial} == set(ReductionKind)
    assert max(len(path.source.dimensions) for path in found) >= 4
    for path in Random(1).sample(found, 25):
        assert isinstance(prove(path, axes=tuple(sizes)), Proved), path
