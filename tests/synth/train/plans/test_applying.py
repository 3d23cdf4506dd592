"""Plans applied to steps, judged on virtual devices: every value equals the step's on one."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.sharding import Kind
from hierarchies import InputError
from sharded_steps import in_float64, judge, mlp, on_one_device, random_plan
from synth.train.factors import rows
from synth.train.plans import Cuts, Moved, Plan, apply
from traced_steps import step

AXES = {"a2": {"data": 2}, "a4": {"data": 4}, "a2b2": {"data": 2, "tensor": 2}}


@pytest.mark.parametrize("sizes", AXES.values(), ids=AXES)
def test_random_plans_compute_what_one_device_does(sizes) -> None:
    for seed in range(2):
        program = apply(mlp(), random_plan(mlp(), sizes, seed))
        judge(mlp(), program, sizes, on_one_device(mlp()))


def test_each_value_is_redistributed_once_for_each_type_and_only_where_types_differ() -> None:
    program = apply(mlp(), random_plan(mlp(), {"data": 2, "tensor": 2}, 3))
    moved = [(one.value.name, one.path.target) for one in program.moved()]
    assert len(moved) == len(set(moved))
    assert all(one.path.source != one.path.target for one in program.moved())
    assert any(isinstance(one, Moved) for one in program.instructions)


def test_a_plan_of_another_step_is_refused() -> None:
    cuts = random_plan(mlp(), {"data": 2}, 0).cuts
    shorter = Cuts(cuts.inputs, cuts.operations[:-1])
    with pytest.raises(InputError, match="a plan for 21 inputs and"):
        apply(mlp(), Plan((("data", 2),), shorter))


def test_a_row_that_the_operation_does_not_have_is_refused() -> None:
    cuts = random_plan(mlp(), {"data": 2}, 0).cuts
    product, rest = mlp().graph.operations[0], cuts.operations[1:]
    damaged = replace(rows(product)[1], results=(Kind.SUM,))
    with pytest.raises(InputError, match="dot_general has no row"):
        apply(mlp(), Plan((("data", 2),), Cuts(cuts.inputs, ((("data", damaged),), *rest))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("sizes", [{"data": 2}, {"data": 2, "tensor": 2}], ids=["2", "2x2"])
def test_random_plans_of_gpt_compute_what_one_device_does(sizes, seed) -> None:
    gpt = in_float64(step("gpt2-tiny"))
    judge(gpt, apply(gpt, random_plan(gpt, sizes, seed)), sizes, on_one_device(gpt))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_plans_over_three_axes_compute_what_one_device_does(seed) -> None:
    sizes = {"data": 2, "sequence": 2, "tensor": 2}
    judge(mlp(), apply(mlp(), random_plan(mlp(), sizes, seed)), sizes, on_one_device(mlp()))
