"""Buckets: gradients that go together, no value changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import Type
from hierarchies import InputError
from redistribution_proof import Proved, prove
from sharded_steps import judge, mlp, on_one_device
from synth.step.sharding import Plan, RedistributedValue, StepProgram, apply, parse_recipe, plan_of
from synth.step.sharding.layers.apart import find_stacks
from synth.step.sharding.together.buckets import flatten_bucket
from traced_steps import step

GRADIENTS = 20
DATA = "data=2; batch over data"
MEGATRON = "; weights over tensor as Megatron"


def both(model: str, more: str) -> tuple[Plan, StepProgram, StepProgram]:
    one = step(model)
    plan = plan_of(one, parse_recipe(f"{DATA}{more}"))
    return plan, apply(one, plan), apply(one, replace(plan, buckets=()))


def test_one_large_bucket_has_all_gradients_side_by_side() -> None:
    plan, found, before = both("gpt2-tiny", "; buckets of 25 MB")
    [bucket] = found.buckets
    assert len(bucket) == GRADIENTS
    assert list(bucket) == list(range(bucket[0], bucket[0] + GRADIENTS))
    members = [found.instructions[at] for at in bucket]
    assert {m.value.name for m in members if isinstance(m, RedistributedValue)} == set(
        plan.buckets[0]
    )
    assert Counter(map(id, map(type, found.instructions))) == Counter(
        map(id, map(type, before.instructions))
    )
    assert set(found.instructions) == set(before.instructions)


def test_no_bucket_is_larger_than_it_may_be_but_for_one_value() -> None:
    one = step("gpt2-tiny")
    plan = plan_of(one, parse_recipe(f"{DATA}; buckets of 0.02 MB"))
    of_layer = {name: one.graph.values[name].type.shape[0] for name in find_stacks(one)}
    sizes = [
        sum(one.graph.values[name].type.bytes // of_layer.get(name, 1) for name in bucket)
        for bucket in plan.buckets
    ]
    assert len(sizes) > 3
    assert max(sizes) <= 20_000
    again = apply(one, plan)
    assert len(again.buckets) == len(sizes)


def test_bytes_are_those_of_a_device() -> None:
    """Of half of each weight two layers fit, where of whole ones one does."""
    one = step("gpt2-tiny", (("layers", 4),))
    text = "data=2 tensor=2; batch over data; buckets of 0.06 MB"
    plan, cut = (plan_of(one, parse_recipe(f"{text}{more}")) for more in ("", MEGATRON))
    assert (plan.bucket_layers, cut.bucket_layers) == (1, 2)


@pytest.mark.parametrize(("megabytes", "layers"), [(0.05, 1), (0.101, 1), (0.102, 2), (1, 4)])
def test_a_bucket_has_as_many_layers_as_fit(megabytes: float, layers: int) -> None:
    one = step("gpt2-tiny", (("layers", 4),))
    plan = plan_of(one, parse_recipe(f"{DATA}; buckets of {megabytes} MB"))
    assert plan.bucket_layers == layers
    of_layer = find_stacks(one)
    mixed = [bucket for bucket in plan.buckets if 0 < len(of_layer & {*bucket}) < len(bucket)]
    assert bool(mixed) == (layers == 4)


@pytest.mark.parametrize("zero", ["", "; zero=2", "; zero=3; 2 microbatches"])
def test_steps_with_buckets_compute_what_one_device_does(zero: str) -> None:
    plan = plan_of(mlp(), parse_recipe(f"{DATA}{zero}; buckets of 1 MB"))
    assert plan.buckets
    judge(mlp(), apply(mlp(), plan), plan.parts, on_one_device(mlp()))


def test_what_does_not_go_together_is_refused() -> None:
    plan = plan_of(mlp(), parse_recipe(DATA))
    sent = [m for m in apply(mlp(), plan).moved() if m.path.requests(plan.sizes)]
    loss = mlp().graph.operations[0].results[0].name
    with pytest.raises(InputError, match="not redistributed"):
        apply(mlp(), replace(plan, buckets=((sent[0].value.name, loss),)))


ROW = Type("f64", (8,))


@st.composite
def read_anywhere(draw: st.DrawFn) -> Step:
    """Gradients of which some are scaled by others' sums, and updates at any place behind."""
    x = Value("x", Type("f64", (4, 8)))
    count = draw(st.integers(2, 5))
    parameters = [Value(f"p{at}", ROW) for at in range(count)]
    operations: list[Operation] = []
    waiting: list[tuple[int, Value]] = []
    news: dict[int, Value] = {}

    def make(primitive: str, operands: tuple[Value, ...], name: str, kind: Type = ROW) -> Value:
        value = Value(name, kind)
        more = (("axes", (0,)),) if primitive == "reduce_sum" else ()
        operations.append(Operation(primitive, operands, (value,), more))
        return value

    def update() -> None:
        at, gradient = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
        news[at] = make("sub", (parameters[at], gradient), f"u{at}")

    act = x
    for at in range(count):
        act = make(draw(st.sampled_from(["neg", "sin"])), (act,), f"a{at}", x.type)
        gradient = make("reduce_sum", (act,), f"g{at}")
        if news and draw(st.booleans()):
            other = draw(st.sampled_from(sorted(news)))
            gradient = make("mul", (gradient, news[other]), f"s{at}")
        waiting.append((at, gradient))
        while waiting and draw(st.booleans()):
            update()
    while waiting:
        update()
    outputs = tuple(news[at] for at in range(count))
    graph = Graph((x, *parameters), tuple(operations), outputs)
    roles = ("batch", *["parameter"] * count)
    labels = ("x", *(f"p{at}" for at in range(count)))
    return Step("drawn", graph, roles, labels, tuple((at, at + 1) for at in range(count)))


@given(read_anywhere(), st.sampled_from([64, 128, 192, 10_000]), st.sampled_from(["", "; zero=2"]))
def test_buckets_of_any_size_wait_for_their_last_member(one: Step, size: int, zero: str) -> None:
    text = f"data=2; batch over data{zero}; buckets of {size / 1e6:.6f} MB"
    plan = plan_of(one, parse_recipe(text))
    found, alone = apply(one, plan), apply(one, replace(plan, buckets=()))
    assert sorted(map(repr, found.instructions)) == sorted(map(repr, alone.instructions))
    judge(one, found, plan.parts, on_one_device(one))
    for bucket in found.buckets:
        assert [*bucket] == [*range(bucket[0], bucket[-1] + 1)]
        members = [found.instructions[at] for at in bucket]
        assert {key for m in members for key in m.keys_read}.isdisjoint(
            key for m in members for key in m.keys_made
        )


def test_gradients_that_are_read_before_others_are_made_go_together() -> None:
    """As ResNet's in bfloat16 with SGD, each of which is cast, summed and applied in turn."""
    one = step("resnet-tiny", batch=8, dtype="bfloat16", optimizer="sgd")
    plan = plan_of(one, parse_recipe(f"{DATA}; buckets of 25 MB"))
    [bucket] = apply(one, plan).buckets
    assert len(bucket) == sum(role == "parameter" for role in one.roles)


CHAIN = parse_step("""step chain
in x: f64[4,8] batch
in p: f64[8] parameter "p"
in q: f64[8] parameter "q"
g: f64[8] = reduce_sum(x) axes=(0)
u: f64[8] = sub(p, g)
k: f64[8] = reduce_sum(x) axes=(0)
h: f64[8] = mul(k, u)
v: f64[8] = sub(q, h)
out u -> p
out v -> q
""")


def test_a_gradient_that_is_made_of_the_sum_of_another_goes_by_itself() -> None:
    plan = plan_of(CHAIN, parse_recipe(f"{DATA}; buckets of 25 MB"))
    sums = [m.value.name for m in apply(CHAIN, plan).moved() if m.path.requests(plan.sizes)]
    assert not plan.buckets
    assert sums == ["g", "h"]
    with pytest.raises(InputError, match="depend on the sum of g: g, h"):
        apply(CHAIN, replace(plan, buckets=(("g", "h"),)))


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (DATA, ["all-reduce"]),
        (f"{DATA}; zero=2", ["reduce-scatter"]),
        ("data=4 tensor=2; batch over data", ["slice", "all-reduce", "all-gather"]),
    ],
)
def test_members_end_to_end_are_one_value_with_their_moves(text: str, moved: list[str]) -> None:
    """It has the elements of all, sends what they send together, and ends as they end."""
    one = step("mlp-tiny")
    plan = plan_of(one, parse_recipe(f"{text}; buckets of 0.05 MB"))
    program = apply(one, plan)
    seen = []
    for bucket in program.buckets:
        members = [
            m
            for m in map(program.instructions.__getitem__, bucket)
            if isinstance(m, RedistributedValue)
        ]
        kind, path = flatten_bucket(members, plan.sizes)
        assert kind.elements == sum(member.value.type.elements for member in members)
        seen.append([move.how.value for move in path.moves])
        for at, move in enumerate(path.moves):
            each = sum(
                member.path.moves[at].least(plan.sizes) * member.value.type.bytes
                for member in members
            )
            assert move.least(plan.sizes) * kind.bytes == each
        assert isinstance(prove(path, axes=tuple(plan.sizes)), Proved)
    assert moved in seen
