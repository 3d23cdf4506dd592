"""Microbatches: an axis in time, over which sums are accumulated and nothing else is done."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import Split
from hierarchies import InputError
from sharded_steps import in_float64, judge, mlp, on_one_device
from synth.step.factors import list_rows
from synth.step.sharding import Cuts, RedistributedValue, StepPhase, apply, parse_recipe, plan_of
from synth.step.sharding.microbatches import accumulates
from synth.step.sharding.plan import TIME
from traced_steps import step


def accumulated(one, text: str) -> list[str]:
    """The values that are put together over microbatches."""
    plan = plan_of(one, parse_recipe(text))
    moved = [m for m in apply(one, plan).moved() if any(TIME in s.axes for s in m.path.moves)]
    return [m.value.name for m in moved if m.path.source.partial]


@pytest.mark.parametrize("model", ["mlp-tiny", "gpt2-tiny", "llama3-tiny", "lstm-tiny", "vit-tiny"])
def test_each_gradient_and_the_loss_are_accumulated_and_nothing_else(model: str) -> None:
    one = step(model)
    found = accumulated(one, "data=2; batch over data; 2 microbatches")
    tied = int(model == "gpt2-tiny")
    assert len(found) == one.roles.count("parameter") + tied + 1


def test_microbatches_send_as_often_as_without_them() -> None:
    for text in ("data=2; batch over data; zero=2", "data=2; batch over data; zero=3"):
        plans = [plan_of(mlp(), parse_recipe(text + more)) for more in ("", "; 2 microbatches")]
        requests = [
            sorted(
                (m.how.value, r.value.name)
                for r in apply(mlp(), plan).moved()
                for m in r.path.requests(plan.sizes)
            )
            for plan in plans
        ]
        assert requests[0] == requests[1]


@pytest.mark.parametrize(("zero", "parts"), [(1, False), (2, True), (3, True)])
def test_sharded_sums_stay_sharded(zero: int, parts: bool) -> None:
    """Whole gradients, over microbatches, would be the memory that ZeRO-2 saves."""
    plan = plan_of(mlp(), parse_recipe(f"data=2; batch over data; zero={zero}; 2 microbatches"))
    added_up = [m for m in apply(mlp(), plan).moved() if accumulates(m.path)]
    in_parts = ["data" in m.path.source.splitting for m in added_up if m.value.type.shape]
    assert in_parts
    assert all(one is parts for one in in_parts)


def test_of_whole_gradients_only_the_part_of_the_sum_comes_that_is_updated() -> None:
    """Once a step, as by Megatron's distributed optimizer: ``use_distributed_optimizer``."""
    plan = plan_of(mlp(), parse_recipe("data=2; batch over data; zero=1; 2 microbatches"))
    moved = list(apply(mlp(), plan).moved())
    parameters = mlp().roles.count("parameter")
    summed = [
        [m.how.value for m in one.path.requests(plan.sizes)]
        for one in moved
        if accumulates(one.path) and one.value.type.shape
    ]
    assert summed == [["reduce-scatter"]] * parameters
    sent = Counter(m.how.value for one in moved for m in one.path.requests(plan.sizes))
    assert sent["all-gather"] == parameters


def test_gradients_in_short_numbers_are_added_up_in_wide_ones() -> None:
    one = step("llama3-tiny", dtype="bfloat16")
    plan = plan_of(one, parse_recipe("data=2; batch over data; 2 microbatches"))
    added_up = [m for m in apply(one, plan).moved() if accumulates(m.path)]
    assert {m.value.type.dtype for m in added_up} == {"f32"}


TEXTS = (
    "data=1; 4 microbatches",
    "data=2; batch over data; 2 microbatches",
    "data=2; batch over data; zero=1; 2 microbatches",
    "data=2; batch over data; zero=2; 2 microbatches",
)


@pytest.mark.parametrize("text", TEXTS)
def test_accumulated_steps_compute_what_one_device_does(text: str) -> None:
    plan = plan_of(mlp(), parse_recipe(text))
    judge(mlp(), apply(mlp(), plan), plan.parts, on_one_device(mlp()))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt2-tiny", "lstm-tiny", "mixtral-tiny"])
def test_accumulated_steps_of_others_compute_what_one_device_does(model: str) -> None:
    one = in_float64(step(model))
    plan = plan_of(one, parse_recipe("data=2; batch over data; zero=1; 2 microbatches"))
    judge(one, apply(one, plan), plan.parts, on_one_device(one))


@pytest.mark.parametrize("model", ["resnet-tiny", "dropless-tiny"])
def test_operations_over_all_samples_are_refused(model: str) -> None:
    """Batch normalisation, and the tokens of all samples in the order of their experts."""
    one = step(model)
    with pytest.raises(InputError, match="all microbatches"):
        apply(one, plan_of(one, parse_recipe("data=1; 2 microbatches")))


def test_sizes_that_do_not_divide_are_refused_by_product_and_dimension() -> None:
    with pytest.raises(
        InputError, match=r"microbatch=8 x data=2 cuts dimension 0 of .* in 16 parts"
    ):
        apply(mlp(), plan_of(mlp(), parse_recipe("data=2; batch over data; 8 microbatches")))


def test_a_microbatch_is_seen_in_types_and_is_on_one_device() -> None:
    plan = plan_of(mlp(), parse_recipe("data=2; batch over data; 2 microbatches"))
    assert plan.parts == {TIME: 2, "data": 2}
    assert plan.sizes == {TIME: 1, "data": 2}
    batch = mlp().roles.index("batch")
    assert plan.cuts.inputs[batch].dimensions[0] == (TIME, "data")
    assert all(isinstance(one, RedistributedValue) for one in apply(mlp(), plan).moved())


STACKS = """step stacks
in x: f32[8] batch
in w: f32[2,4] parameter
y: f32[8], s: f32[2,4] = scan(x, w) num_consts=0 num_carry=1 length=2 reverse=false {
  in c: f32[8]
  in u: f32[4]
  n: f32[4] = exp(u)
  z: f32[8] = neg(c)
  out z
  out n
}
t: f32[2,4] = neg(s)
l: f32[] = reduce_sum(y) axes=(0)
out l
out t
"""


def test_what_a_pass_makes_is_redistributed_in_it_also_if_it_is_the_same_in_all() -> None:
    one = in_float64(parse_step(STACKS))
    plan = plan_of(one, parse_recipe("data=2; batch over data; 2 microbatches"))
    loop, *rest = plan.cuts.operations
    assert isinstance(loop, Cuts)
    body = one.graph.operations[0].body
    assert body is not None
    [cut] = [row for row in list_rows(body.operations[0]) if row.operands == (Split(0),)]
    loop = replace(loop, operations=((("data", cut),), *loop.operations[1:]))
    other = replace(plan, cuts=replace(plan.cuts, operations=(loop, *rest)))
    program = apply(one, other)
    both = zip(program.instructions, program.places, strict=True)
    whens = {
        one.value.name: place.when for one, place in both if isinstance(one, RedistributedValue)
    }
    assert whens["s"] is StepPhase.FORWARD
    judge(one, program, other.parts, on_one_device(one))
