"""What is worked out once for all that is alike: layers, stages, operations of one form."""

from __future__ import annotations

import pickle

import pytest

from grammar.tensors.operations import Operation, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import ReductionKind, Sharding, Type, shardings
from hierarchies import InputError
from synth.compute import flops_of
from synth.step.factors import list_rows, part_of, shard_operation
from synth.step.redistribution.rules import list_moves
from synth.step.sharding import apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import DeviceTimeline, Overlap, simulate, write_device
from synth.step.simulation.device import grouping_of
from synth.step.simulation.groups import GroupedOperations, constants_of

LAYERS = 4
PRODUCT = "dot_general({}, {}) dimension_numbers=(((1),(0)),((),()))"
OVERLAPS = (Overlap(), Overlap(sends=True), Overlap(sends=True, prefetch=1))


def looped() -> str:
    return f"""
step tower
in w: f32[{LAYERS},4,4] parameter
in x: f32[8,4] batch
v0: f32[8,4] = scan(x, w) length={LAYERS} num_carry=1 num_consts=0 {{
  in v1: f32[8,4]
  in v2: f32[4,4]
  v3: f32[8,4] = {PRODUCT.format("v1", "v2")}
  v4: f32[8,4] = tanh(v3)
  out v4
}}
out v0
"""


def flat() -> str:
    lines = ["step tower", *(f"in w{at}: f32[4,4] parameter" for at in range(LAYERS))]
    lines += ["in x: f32[8,4] batch"]
    value = "x"
    for at in range(LAYERS):
        lines.append(f"a{at}: f32[8,4] = {PRODUCT.format(value, f'w{at}')}")
        lines.append(f"b{at}: f32[8,4] = tanh(a{at})")
        value = f"b{at}"
    return "\n".join([*lines, f"out {value}", ""])


def run(text: str, recipe: str, overlap: Overlap) -> DeviceTimeline:
    step = parse_step(text)
    plan = plan_of(step, parse_recipe(recipe))
    told = (
        lambda section: 1e-3 * len(section.operations) + sum(map(flops_of, section.operations)),
        lambda kind, source, target: 2.0 + kind.bytes * 0.5,
    )
    each = grouping_of(plan, overlap, whole=False)
    return simulate(write_device(step, plan, apply(step, plan), *told, overlap, each))


@pytest.mark.parametrize("overlap", OVERLAPS, ids=str)
@pytest.mark.parametrize("place", [-2, None])
def test_a_loop_takes_what_its_layers_take_one_by_one(place: int | None, overlap: Overlap) -> None:
    """Seconds, what is sent and the most memory; nothing is stacked, so they are the same."""
    names = ([f"w{at}" for at in range(LAYERS)], ["w"])
    head = "data=2; batch over data" if place is None else "tensor=2"
    cut = [
        "; ".join([head, *(f"weights {one}[{place}] over tensor" for one in some if place)])
        for some in names
    ]
    one_by_one, in_loop = run(flat(), cut[0], overlap), run(looped(), cut[1], overlap)
    assert in_loop.seconds == pytest.approx(one_by_one.seconds)
    assert in_loop.compute_seconds == pytest.approx(one_by_one.compute_seconds)
    both = (
        [(row.request, row.times, row.seconds, row.exposed_seconds) for row in found.sent]
        for found in (one_by_one, in_loop)
    )
    assert next(both) == next(both)
    assert in_loop.largest_bytes == one_by_one.largest_bytes
    assert bool(one_by_one.sent) == (place is not None)


def test_equal_sections_are_merged_without_loss() -> None:
    """Judged by what a device does of each operation: the same work, and the same values kept."""
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    from traced_steps import step

    one = step("gpt2-tiny")
    text = "data=2 pipe=2 tensor=2; batch over data; weights over tensor as Megatron; zero=1"
    plan = plan_of(one, parse_recipe(f"{text}; schedule 1f1b, 2 microbatches"))
    program, ready = apply(one, plan), prepare_step(one, plan)
    grouping = grouping_of(plan, Overlap(sends=True))
    groups = [
        item
        for item, _ in grouping.of(ready.graph, program, ())
        if isinstance(item, GroupedOperations)
    ]
    for group in groups:
        own = [part_of(done.operation, done.how, plan.parts).operation for done in group.done]
        section = group.section
        assert [*map(_work, own)] == [*map(_work, section.operations)]
        made = [value.name for done in own for value in done.results]
        known = [value.name for done in section.operations for value in done.results]
        stored = [key for key in group.makes if (key[0].name, key[1]) not in group.remade]
        kept = {value.name for value, _ in stored}
        assert [name in kept for name in made] == [name in section.kept for name in known]
        read = [str(value) for done in own for value in done.operands]
        given = [str(value) for done in section.operations for value in done.operands]
        constants = constants_of(ready.graph)
        assert [x in constants for x in read] == [x in section.constants for x in given]
        assert len(set(zip(read, given, strict=True))) == len(set(read)) == len(set(given))
    assert len({id(group.section) for group in groups}) < len(groups) / 2


def _work(one: Operation) -> tuple[object, ...]:
    read = tuple(value.type if isinstance(value, Value) else value for value in one.operands)
    return one.primitive, read, tuple(value.type for value in one.results), one.parameters


def test_errors_name_the_requested_operation() -> None:
    """Two of one form, on two lines; what one may do is known when the other is asked."""
    value, made = Value("x", Type("f32", (6, 4))), Value("y", Type("f32", (6, 4)))
    first = Operation("neg", (value,), (made,), line="a.py:1")
    second = Operation("neg", (made,), (value,), line="b.py:2")
    assert first.form is second.form
    assert first.form is not Operation("exp", (value,), (made,)).form
    assert list_rows(first) is list_rows(second)
    for one in (first, second, first):
        with pytest.raises(InputError) as caught:
            shard_operation(one, {"data": list_rows(one)[1]}, {"data": 4})
        assert one.line in str(caught.value)


def test_a_sharding_goes_to_another_process_without_its_hash() -> None:
    """Hashes of names differ between processes."""
    one = Sharding((("data",), ()), ((ReductionKind.SUM, "tensor"),))
    assert hash(one) == hash(Sharding((("data",), ()), ((ReductionKind.SUM, "tensor"),)))
    found = pickle.loads(pickle.dumps(one))
    assert found == one
    assert "_hash" in vars(one)
    assert "_hash" not in vars(found)


def test_a_move_sends_where_some_device_must() -> None:
    """Also over axes of one device."""
    for sizes in ({"a": 2, "b": 3}, {"a": 1, "b": 2}, {"a": 1, "b": 1}):
        kinds = frozenset((ReductionKind.SUM,))
        found = [
            move
            for before in shardings(2, tuple(sizes), (ReductionKind.SUM,))
            for move in list_moves(before, sizes, kinds)
        ]
        assert found
        for move in found:
            assert move.sends(sizes) == bool(move.least(sizes))
