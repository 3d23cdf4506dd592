"""Rows of several axes: the design's counts, what is refused, and how each refusal reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest

from grammar.tensors.operations import Graph, Literal, Operand, Operation, Parameter, Value
from grammar.tensors.sharding import ReductionKind, Sharding, Split, Type, replicated_sharding
from hierarchies import InputError
from synth.step.factors import (
    Row,
    factors_of,
    list_rows,
    match_rows,
    part_of,
    part_parameters,
    shard_operation,
)

SIZES = {"data": 2, "model": 4}
SUM, MAX = ReductionKind.SUM, ReductionKind.MAX


def value(name: str, *shape: int, dtype: str = "f32") -> Value:
    return Value(name, Type(dtype, shape))


def operation(
    primitive: str, operands: list[Operand], *results: Value, **told: Parameter
) -> Operation:
    return Operation(primitive, tuple(operands), results, tuple(told.items()), line="gpt.py:31")


def product_of_matrices(rows: int = 8, inner: int = 16, columns: int = 8) -> Operation:
    x, w = value("x", rows, inner), value("w", inner, columns)
    numbers = (((1,), (0,)), ((), ()))
    return operation("dot_general", [x, w], value("y", rows, columns), dimension_numbers=numbers)


def batched() -> Operation:
    x, w, y = value("x", 8, 16, 32), value("w", 8, 32, 24), value("y", 8, 16, 24)
    numbers = (((2,), (1,)), ((0,), (0,)))
    return operation("dot_general", [x, w], y, dimension_numbers=numbers)


def elementwise(primitive: str, *operands: Operand) -> Operation:
    return operation(primitive, list(operands), value("y", 8, 16))


def of_axes(
    *dimensions: tuple[str, ...], partial: tuple[tuple[ReductionKind, str], ...] = ()
) -> Sharding:
    return Sharding(dimensions, partial)


def refusal(
    one: Operation, operands: list[Sharding], *results: Sharding, sizes: dict[str, int] = SIZES
) -> str:
    with pytest.raises(InputError) as refused:
        match_rows(one, operands, results, sizes)
    assert refused.value.where == one.line
    assert refused.value.hint
    return str(refused.value)


def test_a_product_has_five_rows_and_two_of_partial_operands() -> None:
    found = list_rows(batched())
    assert len(found) == 7
    assert len([row for row in found if row.factor is not None]) == 4
    assert [row for row in found if row.factor is None and any(row.operands)] == [
        Row((SUM, None), (SUM,)),
        Row((None, SUM), (SUM,)),
    ]


@pytest.mark.parametrize(("count", "over_two", "in_both_orders"), [(5, 25, 29), (7, 49, 53)])
def test_a_product_over_two_axes(count: int, over_two: int, in_both_orders: int) -> None:
    one = batched()
    found = [set(), set()]
    for pair in product(list_rows(one)[:count], repeat=2):
        by_axis = list(zip(SIZES, pair, strict=True))
        for orders, order in enumerate((by_axis[:], by_axis[::-1])):
            how = shard_operation(one, dict(order), SIZES)
            found[1].add((how.operands, how.results))
            if not orders:
                found[0].add((how.operands, how.results))
    assert (len(found[0]), len(found[1])) == (over_two, in_both_orders)


def test_types_give_back_the_rows_that_made_them() -> None:
    sizes = {"a": 2, "b": 2, "c": 2}
    one = batched()
    for chosen in product(list_rows(one), repeat=3):
        for order in permutations(sizes):
            by_axis = {axis: chosen["abc".index(axis)] for axis in order}
            how = shard_operation(one, by_axis, sizes)
            again = match_rows(one, how.operands, how.results, sizes)
            used = {
                axis: row for axis, row in by_axis.items() if any((*row.operands, *row.results))
            }
            assert dict(again.rows) == used
            assert again.factors == how.factors


def test_axes_on_a_factor_divide_its_size() -> None:
    joined = operation("reshape", [value("x", 6, 4)], value("y", 24), new_sizes=(24,))
    (factor,) = factors_of(joined)
    assert factor.size == 6
    how = shard_operation(joined, {"data": list_rows(joined)[1]}, SIZES)
    assert part_parameters(joined, {factor: 3}) == (("new_sizes", (12,)),)
    assert part_of(joined, how, SIZES).operation.parameters == (("new_sizes", (12,)),)
    said = refusal(joined, [of_axes(("model",), ())], of_axes(("model",)))
    assert "model=4 cuts 'block 0' of reshape in 4 parts, of size 6" in said
    assert "dimension 0 of operand 0" in said
    wide = product_of_matrices(rows=4)
    left = list_rows(wide)[1]
    with pytest.raises(
        InputError, match="data=2 x model=4 cuts 'left 0' of dot_general in 8 parts"
    ):
        shard_operation(wide, {"data": left, "model": left}, SIZES)


def test_groups_of_a_convolution_are_cut_by_their_number() -> None:
    numbers = (("lhs_spec", (0, 1)), ("rhs_spec", (0, 1)), ("out_spec", (0, 1)))
    one = operation(
        "conv_general_dilated",
        [value("x", 8, 12), value("w", 12, 2)],
        value("y", 8, 12),
        dimension_numbers=numbers,
        feature_group_count=6,
        batch_group_count=1,
    )
    batch, groups = factors_of(one)
    assert (batch.size, groups.size) == (8, 6)
    assert dict(part_parameters(one, {groups: 2}))["feature_group_count"] == 2
    refused = [of_axes((), ("model",)), of_axes(("model",), ())]
    assert "in 4 parts, of size 6" in refusal(one, refused, of_axes((), ("model",)))


def test_orders_of_axes_that_differ() -> None:
    one = product_of_matrices()
    how = [of_axes((), ("data", "model")), of_axes(("model", "data"), ())]
    summed = of_axes((), (), partial=((SUM, "data"), (SUM, "model")))
    said = refusal(one, how, summed)
    assert "'contracting 0' cut in different orders of axes: (data,model) and (model,data)" in said
    assert match_rows(one, [how[0], of_axes(("data", "model"), ())], [summed], SIZES)


def test_a_result_in_another_order_of_axes() -> None:
    one = product_of_matrices()
    said = refusal(
        one,
        [of_axes(("data", "model"), ()), replicated_sharding(2)],
        of_axes(("model", "data"), ()),
    )
    assert "'left 0' cut in different orders of axes" in said


def test_partial_plus_replicated_counts_it_often() -> None:
    one = elementwise("add", value("x", 8, 16), value("b", 8, 16))
    summed = of_axes((), (), partial=((SUM, "data"),))
    said = refusal(one, [summed, replicated_sharding(2)], summed)
    assert "add cannot take [sum, R] to [sum] along axis 'data'" in said
    assert "would count once for each part: zero it on all but the first" in said
    assert "[sum, sum] -> [sum]" in said
    constant = elementwise("add", value("x", 8, 16), Literal(1.5, "f32"))
    assert "would count once for each part" in refusal(
        constant, [summed, replicated_sharding(0)], summed
    )
    nothing = elementwise("add", value("x", 8, 16), Literal(0.0, "f32"))
    assert match_rows(nothing, [summed, replicated_sharding(0)], [summed], SIZES)


@pytest.mark.parametrize("primitive", ["sqrt", "exp", "abs", "square", "log"])
def test_norms_of_partial_sums(primitive: str) -> None:
    summed = of_axes((), (), partial=((SUM, "data"),))
    one = elementwise(primitive, value("x", 8, 16))
    said = refusal(one, [summed], summed)
    assert f"{primitive} cannot take [sum] to [sum] along axis 'data'; redistribute first" in said
    assert "mul cannot take [sum, sum]" in refusal(
        elementwise("mul", value("x", 8, 16), value("x", 8, 16)), [summed, summed], summed
    )


def test_maximum_of_partial_sums() -> None:
    summed = of_axes((), (), partial=((SUM, "data"),))
    one = elementwise("max", value("x", 8, 16), Literal(0.0, "f32"))
    assert "max cannot take [sum, R]" in refusal(one, [summed, replicated_sharding(0)], summed)


def test_a_mean_divides_by_the_global_count() -> None:
    summed = of_axes((), (), partial=((SUM, "data"),))
    mean = elementwise("div", value("x", 8, 16), Literal(128.0, "f32"))
    assert match_rows(mean, [summed, replicated_sharding(0)], [summed], SIZES)
    uneven = operation("reduce_sum", [value("x", 9)], value("y"), axes=(0,))
    said = refusal(uneven, [of_axes(("data",))], Sharding((), ((SUM, "data"),)))
    assert "data=2 cuts 'dimension 0' of reduce_sum in 2 parts, of size 9" in said


def test_partial_of_two_kinds() -> None:
    one = elementwise("add", value("x", 8, 16), value("z", 8, 16))
    by_axis = {"data": Row((SUM, SUM), (SUM,)), "model": Row((MAX, None), (MAX,))}
    with pytest.raises(InputError, match="partial in two kinds, max and sum; the result depends"):
        shard_operation(one, by_axis, SIZES)


def test_two_axes_whose_numbers_enter() -> None:
    numbers = (("offset_dims", ()), ("collapsed_slice_dims", (0, 1)), ("start_index_map", (0, 1)))
    one = operation(
        "gather",
        [value("x", 8, 16), value("i", 4, 2, dtype="i32")],
        value("y", 4),
        dimension_numbers=numbers,
        slice_sizes=(1, 1),
        mode="clip",
    )
    first, second = list_rows(one)[1:3]
    assert shard_operation(one, {"data": first, "model": first}, SIZES).factors[factors_of(one)[0]]
    with pytest.raises(InputError, match="'indexed 0' by data and 'indexed 1' by model") as refused:
        shard_operation(one, {"data": first, "model": second}, SIZES)
    assert "shard only one of them" in str(refused.value)


def test_replicated_only_primitives_need_an_explicit_request() -> None:
    one = elementwise("cholesky", value("x", 8, 8))
    with pytest.raises(
        InputError, match="no sharding rules for the primitive 'cholesky'"
    ) as refused:
        list_rows(one)
    assert refused.value.where == "gpt.py:31"
    assert "write replicated=true after its operands" in str(refused.value)
    one = replace(one, parameters=(("replicated", True),))
    assert list_rows(one) == (Row((None,), (None,)),)
    assert match_rows(one, [replicated_sharding(2)], [replicated_sharding(2)], SIZES)


@pytest.mark.parametrize("parameters", [(), (("replicated", True),)], ids=["plain", "asked"])
def test_primitives_no_runtime_computes_are_refused_even_if_requested(parameters: tuple) -> None:
    """Else a sharded step would be shown that cannot be written as a file."""
    one = replace(elementwise("householder", value("x", 8, 16)), parameters=parameters)
    with pytest.raises(InputError, match="rules for the primitive 'householder'") as refused:
        list_rows(one)
    assert "replicated=true is for cholesky, clz, eigh" in str(refused.value)


@pytest.mark.parametrize("asked", [True, False])
def test_what_has_rules_is_not_asked_to_be_replicated(asked: bool) -> None:
    one = replace(elementwise("exp", value("x", 8, 16)), parameters=(("replicated", asked),))
    with pytest.raises(InputError, match="exp has replicated=, although it has sharding rules"):
        list_rows(one)


def test_a_sharding_of_another_rank() -> None:
    one = elementwise("exp", value("x", 8, 16))
    assert "has 2 dimensions" in refusal_of_rank(one)


def refusal_of_rank(one: Operation) -> str:
    with pytest.raises(InputError) as refused:
        match_rows(one, [replicated_sharding(1)], [replicated_sharding(2)], SIZES)
    return str(refused.value)


def test_a_repetition_is_cut_by_its_body() -> None:
    empty = Graph((), (), ())
    one = Operation("scan", (), (), body=empty, line="gpt.py:12")
    with pytest.raises(InputError, match=r"gpt.py:12: scan repeats a body; shard its operations"):
        list_rows(one)


def test_axes_that_do_not_exist() -> None:
    one = elementwise("exp", value("x", 8, 16))
    assert "no axis 'expert'; the axes are data, model" in refusal(
        one, [of_axes(("expert",), ())], of_axes(("expert",), ())
    )


def test_keys_and_random_bits_are_made_whole() -> None:
    key = Value("k", Type("key", ()))
    bits = operation("random_bits", [key], value("y", 8, 16, dtype="u32"), shape=(8, 16))
    assert len(list_rows(bits)) == 1
    keys = Value("k", Type("key", (8,)))
    assert (
        len(list_rows(operation("squeeze", [keys], Value("y", Type("key", (8,))), dimensions=())))
        == 1
    )
    refused = refusal(bits, [replicated_sharding(0)], of_axes(("data",), ()))
    assert "random_bits cannot take [R] to [0] along axis 'data'" in refused


def test_fused_projections_are_not_split_along_what_is_cut() -> None:
    parts = [value(name, 8, 16) for name in "qkv"]
    fused = operation("split", [value("x", 8, 48)], *parts, sizes=(16, 16, 16), axis=1)
    cut = of_axes((), ("model",))
    assert "split cannot take [1] to [1, 1, 1]" in refusal(fused, [cut], cut, cut, cut)
    assert [row.operands for row in list_rows(fused)] == [
        (None,),
        (Split(0),),
        *((k,) for k in ReductionKind),
    ]


def test_minor_dimensions_are_not_joined_while_they_are_cut() -> None:
    joined = operation("reshape", [value("x", 8, 16)], value("y", 128), new_sizes=(128,))
    said = refusal(joined, [of_axes((), ("model",))], of_axes(("model",)))
    assert "reshape cannot take [1] to [0] along axis 'model'" in said
