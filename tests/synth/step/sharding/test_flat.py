"""ZeRO where no dimension divides: every state in parts, and every value as on one device."""

from __future__ import annotations

from math import prod

import pytest

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_sharded
from grammar.tensors.sharding import part_shape
from hierarchies import InputError
from sharded_steps import in_float64, judge, on_one_device
from synth.step.sharded_step import check, write_sharded_step
from synth.step.sharding import Plan, RedistributedValue, apply, plan_of
from synth.step.sharding.full_text import parse_plan, plan_text
from synth.step.sharding.text import parse_recipe
from synth.step.sharding.together.buckets import flatten_bucket
from traced_steps import step

MEGATRON = "data=3 tensor=2; batch over data; weights over tensor as Megatron"
STATES = ("parameter", "moment", "state")


def mlp(layers: int = 4) -> Step:
    return in_float64(step("mlp-tiny", (("layers", layers),), batch=12))


def llama(**how: object) -> Step:
    return step("llama3-tiny", batch=12, **how)


def planned(one: Step, text: str) -> Plan:
    return plan_of(one, parse_recipe(text))


def parts(one: Step, plan: Plan) -> dict[str, tuple[int, int]]:
    """Of each state of more than one number its elements, and how many a device has."""
    states = zip(one.labels, one.roles, one.graph.inputs, plan.cuts.inputs, strict=True)
    return {
        label: (value.type.elements, prod(part_shape(value.type, lies, plan.sizes)))
        for label, role, value, lies in states
        if role in STATES and value.type.elements > 1
    }


JUDGED = (
    "data=3; batch over data; zero=1",
    "data=3; batch over data; zero=2",
    "data=3; batch over data; zero=3",
    "data=6; batch over data; zero=3",
    "data=3; batch over data; zero=2; 2 microbatches",
    "data=3; batch over data; zero=1; 4 microbatches",
    "data=3; batch over data; zero=2; buckets of 0.01 MB",
)


@pytest.mark.parametrize("text", JUDGED)
@pytest.mark.parametrize("layers", [2, 4])
def test_every_value_is_as_on_one_device(layers: int, text: str) -> None:
    """Layers between the first and the last are a loop: of two there are none."""
    one = mlp(layers)
    plan = planned(one, text)
    assert any(lies.flat for lies in plan.cuts.inputs)
    judge(one, apply(one, plan), plan.sizes, on_one_device(one))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "data=3 seq=2; batch over data; tokens over seq; zero=3",
        f"{MEGATRON}; tokens over tensor; zero=3",
        f"{MEGATRON}; vocabulary over tensor; zero=1",
    ],
)
def test_transformers_over_several_axes_are_as_on_one_device(text: str) -> None:
    one = in_float64(llama(optimizer="sgd" if "zero=3" in text else "adamw"))
    plan = planned(one, text)
    judge(one, apply(one, plan), plan.sizes, on_one_device(one))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_take_one_part_and_padding(count: int, zero: int, dtype: str) -> None:
    """ZeRO-k holds 1/n of what it cuts, and less than n elements more of each slice."""
    one = step("mlp-tiny", (("layers", 4),), batch=840, dtype=dtype)
    for label, (every, own) in parts(one, planned(one, cut_by(count, zero))).items():
        stored = zero == 3 or label.startswith(("mean", "square")) or dtype == "bfloat16"
        slices = 2 if "layers" in label else 1
        assert own == every if not stored else 0 <= own * count - every <= slices * (count - 1)


def cut_by(count: int, zero: int) -> str:
    return f"data={count}; batch over data; zero={zero}"


@pytest.mark.parametrize(
    ("axes", "count"),
    [
        ("data=4 seq=2; batch over data; tokens over seq", 8),
        ("seq=8; tokens over seq", 8),
        ("data=3 seq=2; batch over data; tokens over seq", 6),
    ],
)
@pytest.mark.parametrize("zero", [1, 3])
def test_states_are_cut_over_samples_and_tokens(axes: str, count: int, zero: int) -> None:
    one = llama()
    for label, (every, own) in parts(one, planned(one, f"{axes}; zero={zero}")).items():
        if zero == 3 or label.startswith(("mean", "square")):
            assert 0 <= own * count - every <= 2 * (count - 1), label


def test_tokens_over_the_axis_of_weights_cut_no_states() -> None:
    """What sequence parallelism leaves whole is replicated over tensor, as by Megatron."""
    text = "data=2 tensor=2; batch over data; tokens over tensor; weights over tensor as Megatron"
    assert parse_recipe(f"{text}; zero=1").zero_axes == ("data",)
    with pytest.raises(InputError, match="no axis shards the batch"):
        parse_recipe("tensor=2; tokens over tensor; weights over tensor as Megatron; zero=1")


def test_what_divides_is_cut_by_dimensions_as_before() -> None:
    one = llama()
    plan = planned(one, "data=4; batch over data; zero=3")
    assert not any(lies.flat for lies in plan.cuts.inputs)


def test_layers_are_gathered_one_by_one() -> None:
    """A stack is flat behind its first dimension: its slices are gathered where they are read."""
    one = llama(dtype="bfloat16")
    program = apply(one, planned(one, "data=3; batch over data; zero=3"))
    outside = [
        moved.value.type.shape
        for moved in program.instructions
        if isinstance(moved, RedistributedValue)
        and moved.path.source.flat
        and not moved.path.target.flat
    ]
    assert sorted(outside) == [(32,), (32, 64), (64, 32)]  # embedding, norm and the last matrix
    inside = [moved for moved in program.moved() if str(moved.path.moves[-1]).startswith("all-g")]
    assert len(inside) - len(outside) == 16


def test_gradients_of_a_flat_state_are_scattered_by_one_request_each() -> None:
    one = llama()
    plan = planned(one, "data=3 seq=2; batch over data; tokens over seq; zero=3")
    flattened = [moved for moved in apply(one, plan).moved() if moved.path.target.flat]
    assert flattened
    for moved in flattened:
        assert moved.path.target.flat == ("data", "seq")
        [request] = moved.path.requests(plan.sizes)
        assert str(request) == "reduce-scatter (sum) to flat over data, seq"


def test_a_bucket_sends_what_its_members_send_with_their_padding() -> None:
    one = mlp()
    plan = planned(one, JUDGED[-1])
    program = apply(one, plan)
    assert program.buckets
    for bucket in program.buckets:
        several = [
            m
            for m in map(program.instructions.__getitem__, bucket)
            if isinstance(m, RedistributedValue)
        ]
        kind, path = flatten_bucket(several, plan.sizes)
        each = [moved.path.least_bytes(moved.value.type, plan.sizes) for moved in several]
        assert path.least_bytes(kind, plan.sizes) == sum(each)


@pytest.mark.parametrize("text", JUDGED[:6:2])
def test_texts_of_plans_and_of_sharded_steps_are_read_again(text: str) -> None:
    one = mlp()
    plan = planned(one, text)
    assert parse_plan(plan_text(one, plan), one) == plan
    sharded = write_sharded_step(one, plan, apply(one, plan))
    assert parse_sharded(str(sharded)) == sharded
    check(sharded)


def test_an_input_may_be_said_to_be_flat() -> None:
    text = "data=3; batch over data; input first/weight as [-,-]{flat:data};"
    text += " input layers/weight as [-,-,-]{flat1:data}"
    assert str(parse_recipe(text)) == text
    plan = planned(mlp(), text)
    assert [lies.lead for lies in plan.cuts.inputs if lies.flat] == [0, 1]
    judge(mlp(), apply(mlp(), plan), plan.sizes, on_one_device(mlp()))


@pytest.mark.parametrize("lies", ["[-,-]{flat:}", "[-,-]{flat:data", "[-,-]{sum:data}", "[-,-]{}"])
def test_invalid_flat_inputs_are_refused(lies: str) -> None:
    with pytest.raises(InputError, match="not understood"):
        parse_recipe(f"data=3; batch over data; input first/weight as {lies}")
