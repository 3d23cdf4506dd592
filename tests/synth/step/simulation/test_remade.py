"""What need not be in memory: the fewest bytes, against every choice, and a layer of Llama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from grammar.tensors.operations import Graph, Operation, Step, Value
from grammar.tensors.sharding import Sharding, Split, Type
from synth.primitives import MULTIPLIED
from synth.step.factors import list_rows
from synth.step.sharding import (
    Cuts,
    LocalOperation,
    Plan,
    apply,
    parse_recipe,
    plan_of,
    prepare_step,
)
from synth.step.simulation import (
    BufferKind,
    PipelineTimeline,
    Sources,
    StepRuntime,
    predict_step,
    write_device,
)
from synth.step.simulation.remade import RECOMPUTABLE, find_fewest_bytes, find_kernel_recomputed
from traced_steps import step

Made = Mapping[int, Sequence[int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Made, Mapping[int, int], Sequence[int]]:
    """Values, each of some before it; those not made again, sizes, and what is wanted."""
    count = draw(st.integers(1, 7))
    made_of = {
        one: draw(st.lists(st.integers(0, one - 1), max_size=3, unique=True))
        for one in range(1, count)
        if draw(st.booleans())
    }
    sizes = {one: draw(st.integers(0, 4)) for one in range(count)}
    return made_of, sizes, draw(st.lists(st.integers(0, count - 1), max_size=4, unique=True))


def can_be_made(one: int, made_of: Made, kept: Sequence[int]) -> bool:
    if one in kept:
        return True
    return one in made_of and all(can_be_made(other, made_of, kept) for other in made_of[one])


@given(graphs())
def test_no_choice_keeps_fewer_bytes(
    graph: tuple[Made, Mapping[int, int], Sequence[int]],
) -> None:
    """All that is wanted can be made of what is kept; and of no set that is smaller."""
    made_of, sizes, wanted = graph
    kept = tuple(find_fewest_bytes(made_of, sizes, wanted))
    assert all(can_be_made(one, made_of, kept) for one in wanted)
    least = min(
        sum(sizes[one] for one in some)
        for count in range(len(sizes) + 1)
        for some in combinations(sizes, count)
        if all(can_be_made(one, made_of, some) for one in wanted)
    )
    assert sum(sizes[one] for one in kept) == least


def test_what_gains_nothing_is_kept_as_it_is() -> None:
    """A transposed product is as large as the product: no reader need turn it again."""
    assert find_fewest_bytes({"turned": ["product"]}, {"turned": 4, "product": 4}, ["turned"]) == {
        "turned"
    }


@cache
def kept_for_the_way_back(*, whole: bool) -> int:
    """Bytes of one microbatch of 32 tokens: two layers of a Llama in bf16, after its embedding."""
    one = step("llama3-tiny", (("layers", 4),), dtype="bfloat16")
    plan = plan_of(one, parse_recipe("pipe=2; schedule 1f1b, 2 microbatches"))
    ready, program = prepare_step(one, plan), apply(one, plan)
    sources = Sources(lambda section: 1.0, lambda *how: 0.0, lambda *how: 0.0)
    run = predict_step(ready, plan, program, sources, StepRuntime(whole=whole)).run
    assert isinstance(run, PipelineTimeline)
    return sum(one.size_bytes for _, one in run.passes.saved(0))


def test_a_layer_keeps_what_products_read_and_make() -> None:
    """Of Llama: what enters both halves, queries, keys, values, what is seen, gate, up.

    Each 32 wide but keys and values, 16, and gate and up, 64; in bf16. In float32 one number for
    each token of both normalisations, and for each of 4 heads. Which row of the embedding a token
    was is computed again from the batch.
    """
    wide = 32 + 32 + 32 + 16 + 16 + 32 + 64 + 64
    layer = 2 * wide + 4 * (2 + 4)
    assert kept_for_the_way_back(whole=True) == 32 * 2 * layer


def test_operations_one_by_one_keep_all_that_is_read() -> None:
    """Casts, masks, silu's halves: more than twice as much."""
    assert kept_for_the_way_back(whole=False) > 2 * kept_for_the_way_back(whole=True)


@pytest.mark.parametrize(("model", "changes"), [("llama3-tiny", ()), ("resnet-tiny", ())])
def test_between_kernels_only_elements_are_computed_again_of_what_is_stored(
    model: str, changes: tuple[tuple[str, int], ...]
) -> None:
    """No product, loop or message reads what is not in memory, and no chain gets longer."""
    one = step(model, changes, "sgd", dtype="bfloat16", unrolled=True)
    program = apply(one, plan_of(one, parse_recipe("data=1")))
    outputs = [(str(v), lies) for v, lies in zip(one.graph.outputs, program.outputs, strict=True)]
    again = find_kernel_recomputed(program, outputs, lambda kind, lies: kind.bytes, {"data": 1})
    sources = {key for keys in again.values() for key in keys}
    done = [each for each in program.instructions if isinstance(each, LocalOperation)]
    read_by_products = {
        (str(value), lies)
        for each in done
        if each.operation.primitive in MULTIPLIED
        for value, lies in zip(each.operation.operands, each.how.operands, strict=True)
    }
    makers = {
        value.name: each.operation.primitive for each in done for value in each.operation.results
    }
    assert len(again) > 20
    assert again.keys().isdisjoint(sources | read_by_products | {*outputs})
    assert {makers[name] for name, _ in again} <= RECOMPUTABLE
    order = {value.name: at for at, each in enumerate(done) for value in each.operation.results}
    for (name, _), roots in again.items():
        assert all(order.get(root, -1) < order[name] for root, _ in roots)


def test_what_a_product_reads_is_read_by_later_kernels_as_it_is() -> None:
    """It is in memory whatever they compute again: of half as many bytes, too, it is not made."""
    few, wide = Type("bf16", (8, 8)), Type("f32", (8, 8))
    x, copy, grown, product, made = (
        Value(name, few if name == "x" else wide) for name in ("x", "copy", "grown", "p", "y")
    )
    numbers = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
    operations = (
        Operation("convert_element_type", (x,), (copy,), (("new_dtype", "f32"),)),
        Operation("exp", (copy,), (grown,)),
        Operation("dot_general", (copy, copy), (product,), numbers),
        Operation("mul", (product, grown), (made,)),
    )
    one = Step("kernels", Graph((x,), operations, (made,)), ("batch",), ("x",))
    whole = Sharding(((), ()))
    program = apply(one, Plan((("data", 1),), Cuts((whole,), ((),) * 4)))
    again = find_kernel_recomputed(
        program, [("y", whole)], lambda kind, lies: kind.bytes, {"data": 1}
    )
    assert again == {("grown", whole): (("copy", whole),)}


def test_a_normalisation_keeps_what_its_product_made() -> None:
    """A batch normalisation writes nothing large but its result: the rest comes of its input.

    Each of its values is as large as a convolution's result, which is in memory anyway.
    """
    one = step("resnet-tiny", (), "sgd", dtype="bfloat16", unrolled=True)
    program = apply(one, plan_of(one, parse_recipe("data=1")))
    outputs = [(str(v), lies) for v, lies in zip(one.graph.outputs, program.outputs, strict=True)]
    again = find_kernel_recomputed(program, outputs, lambda kind, lies: kind.bytes, {"data": 1})
    done = [each for each in program.instructions if isinstance(each, LocalOperation)]
    makers = {value.name: each for each in done for value in each.operation.results}
    masks = [name for name, _ in again if makers[name].operation.primitive == "gt"]
    assert masks
    for name in masks:
        [(value, lies)] = [key for key in again if key[0] == name]
        large = [
            root
            for root, _ in again[value, lies]
            if len(makers[root].operation.results[0].type.shape) == 4
            and makers[root].operation.results[0].type.elements
            >= makers[name].operation.results[0].type.elements
        ]
        kinds = {makers[root].operation.primitive for root in large}
        assert kinds <= {"conv_general_dilated", "max", "reduce_window_max"}


def test_a_part_of_what_is_computed_again_is_computed_again() -> None:
    """A value that a later kernel reads, and a part that another reads: neither is in memory.

    The kernel that makes the value holds all of it, and each reader as much as it reads.
    """
    x, *made = (Value(name, Type("f32", (8, 4))) for name in ("x", "a", "b", "c", "d"))
    a, b, c, d = made
    operations = (
        Operation("neg", (x,), (a,)),
        Operation("exp", (a,), (b,)),
        Operation("mul", (a, b), (c,)),
        Operation("abs", (a,), (d,)),
    )
    one = Step("parts", Graph((x,), operations, (c, d)), ("batch",), ("x",))
    in_parts = (("data", list_rows(operations[1])[1]),)
    assert in_parts[0][1].operands == (Split(0),)
    cuts = Cuts((Sharding(((), ())),), ((), in_parts, (), in_parts))
    plan = Plan((("data", 2),), cuts)
    found = write_device(one, plan, apply(one, plan), lambda section: 1.0, lambda *how: 0.0)
    assert "a" not in {buffer.name for buffer in found.buffers}
    working = [buffer.size_bytes for buffer in found.buffers if buffer.kind is BufferKind.WORKING]
    assert working == [a.type.bytes, a.type.bytes, a.type.bytes // 2]
