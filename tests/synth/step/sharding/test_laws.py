"""The design's counts of plans, and where following the cut batch comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, product
from operator import ne

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import jax.numpy as jnp

from exhaustive import Sample, sampled
from grammar.tensors.operations import Operation, Step, Value
from grammar.tensors.sharding import AxisSharding, ReductionKind, Split, Type, shardings
from sharded_steps import in_float64, judge, on_one_device
from synth.step.factors import Row, list_rows, shard_operation
from synth.step.models import ModelSettings, zoo_step
from synth.step.redistribution import find_path
from synth.step.sharding import Cuts, Plan, apply, parse_recipe, plan_of
from synth.step.sharding.following.costs import count_sent_bytes
from traced_steps import function_step, step

ONE, TWO = {"data": 2}, {"data": 2, "tensor": 2}


@cache
def two_products() -> Step:
    """``max(x w1, 0) w2``"""
    return in_float64(
        function_step(
            lambda x, w1, w2: jnp.maximum(x @ w1, 0.0) @ w2, "f32[8,4]", "f32[4,8]", "f32[8,4]"
        )
    )


def choices(operation: Operation) -> list[Row]:
    """Replicated, or cut by a factor; no operand is partial."""
    return [row for row in list_rows(operation) if row.factor is not None or not any(row.operands)]


def plans(sizes: Mapping[str, int]) -> Iterator[Plan]:
    """Every choice of rows; inputs lie as they are read."""
    operations = two_products().graph.operations
    each = [list(product(choices(one), repeat=len(sizes))) for one in operations]
    for chosen in product(*each):
        by_axis = [tuple(zip(sizes, some, strict=True)) for some in chosen]
        first, _, last = (
            shard_operation(one, dict(some), sizes).operands
            for one, some in zip(operations, by_axis, strict=True)
        )
        yield Plan(tuple(sizes.items()), Cuts((*first, last[1]), tuple(by_axis)))


@pytest.mark.parametrize(
    ("sizes", "count", "still"),
    [(ONE, 48, 4), pytest.param(TWO, 2304, 16, marks=pytest.mark.slow)],
    ids=str,
)
def test_so_many_plans_of_two_products(sizes: dict[str, int], count: int, still: int) -> None:
    assert [len(choices(one)) for one in two_products().graph.operations] == [4, 3, 4]
    programs = [apply(two_products(), plan) for plan in plans(sizes)]
    assert len(programs) == count
    assert sum(not any(program.moved()) for program in programs) == still


def test_all_plans_of_two_products_over_one_axis_are_equal() -> None:
    for plan in plans(ONE):
        judge(two_products(), apply(two_products(), plan), ONE, on_one_device(two_products()))


@sampled(40, seed=1, parts=2)
def test_all_plans_of_two_products_over_two_axes_are_equal(sample: Sample) -> None:
    for plan in sample(list(plans(TWO))):
        judge(two_products(), apply(two_products(), plan), TWO, on_one_device(two_products()))


def test_values_that_follow_prices_move_like_redistributions() -> None:
    """There is one price: choices and paths that disagree gather what need not be gathered."""
    kind, sizes = Type("f32", (8, 8)), {"data": 4}
    lies = [*shardings(2, ("data",), [ReductionKind.SUM])]
    for before, after in product(lies, repeat=2):
        found = count_sent_bytes(before.along("data"), after.along("data"), 4)
        assert found == find_path(kind, before, after, sizes).least(sizes)


def first_that_sends(one: Step, axis: str = "data", parts: int = 2) -> Operation:
    """The first operation that no row does without sending something, if the batch is cut."""
    lies: dict[str, AxisSharding] = {
        value.name: Split(0) if role == "batch" else None
        for value, role in zip(one.graph.inputs, one.roles, strict=True)
    }
    for operation in one.graph.operations:
        before = [lies[one.name] if isinstance(one, Value) else None for one in operation.operands]
        fit = [
            row
            for row in list_rows(operation)
            if all(was in (None, now) for was, now in zip(before, row.operands, strict=True))
            and (row.factor is None or row.factor.size % parts == 0)
        ]
        if not fit:
            return operation
        best = min(fit, key=lambda row: sum(map(ne, before, row.operands)))
        lies |= {made.name: lie for made, lie in zip(operation.results, best.results, strict=True)}
    raise AssertionError("nothing is sent")


@pytest.mark.parametrize(
    ("model", "primitive", "file"),
    [
        ("mlp-tiny", "mul", "optimizers.py"),  # g g of AdamW, where the gradient must be complete
        ("gpt2-tiny", "mul", "optimizers.py"),
        ("llama3-tiny", "mul", "optimizers.py"),
        ("vit-tiny", "mul", "optimizers.py"),
        ("resnet-tiny", "sub", "resnet.py"),  # x - mean of the batch
        ("bert-tiny", "div", "models.py"),  # by how many tokens of the batch are masked
        ("mixtral-tiny", "mul", "optimizers.py"),
        ("dropless-tiny", "sort", "experts.py"),  # tokens of the batch, by their experts
    ],
)
def test_the_first_operation_that_sends_if_the_batch_is_cut(
    model: str, primitive: str, file: str
) -> None:
    one = step(model, unrolled=True)
    found = first_that_sends(one)
    assert (found.primitive, found.line.partition(":")[0]) == (primitive, file)


@pytest.mark.parametrize("model", ["resnet-tiny", "mlp-tiny"])
def test_data_parallel_sends_no_activations(model: str) -> None:
    """Sums of a batch normalisation are completed while they are small, and not behind a cast."""
    one = zoo_step(model, {}, ModelSettings(batch=16, dtype="bfloat16"))
    plan = plan_of(one, parse_recipe("data=4; batch over data"))
    for moved in apply(one, plan).moved():
        if moved.path.requests(plan.sizes):
            assert "data" not in chain(*moved.path.target.dimensions)
            assert moved.value.type.elements <= max(
                value.type.elements
                for value, role in zip(one.graph.inputs, one.roles, strict=True)
                if role == "parameter"
            )
