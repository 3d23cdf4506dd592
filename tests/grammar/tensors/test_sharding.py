"""The laws of types: counts, blocks, what is refused."""

from __future__ import annotations

from itertools import product
from math import comb, prod

import pytest

from grammar.tensors.sharding import (
    ReductionKind,
    Sharding,
    Split,
    Type,
    block,
    check_type,
    part_shape,
    replicated_sharding,
    shardings,
)
from hierarchies import InputError

AXES = ("a", "b", "c")


def counted(rank: int, axes: int) -> int:
    """Section 2: which axes cut, which others are partial, and how the lists are ordered."""
    rising = [prod(range(rank, rank + j)) for j in range(axes + 1)]
    return sum(comb(axes, j) * 2 ** (axes - j) * rising[j] for j in range(axes + 1))


@pytest.mark.parametrize(
    ("rank", "counts"), [(1, (3, 10, 38)), (2, (4, 18, 92)), (3, (5, 28, 176)), (0, (2, 4, 8))]
)
def test_counts_of_types(rank: int, counts: tuple[int, ...]) -> None:
    for axes, count in enumerate(counts, 1):
        found = list(shardings(rank, AXES[:axes], (ReductionKind.SUM,)))
        assert len(set(found)) == len(found) == count
        assert count == counted(rank, axes)


def test_types_are_spelled_according_to_the_design() -> None:
    cut = Sharding((("data",), (), ("seq", "model")), ((ReductionKind.SUM, "expert"),))
    assert Type("f32", (8, 16, 64)).sharded(cut) == "f32[8@data,16,64@(seq,model)]{sum:expert}"
    two = Sharding(
        ((),), ((ReductionKind.SUM, "b"), (ReductionKind.MAX, "c"), (ReductionKind.SUM, "a"))
    )
    assert Type("bf16", (4,)).sharded(two) == "bf16[4]{max:c,sum:(a,b)}"
    assert str(Type("f32", ())) == "f32[]"


def test_every_way_along_an_axis_can_be_laid_and_read() -> None:
    for sharding in shardings(2, AXES, tuple(ReductionKind)):
        for axis in AXES:
            lie = sharding.along(axis)
            assert sharding.without(axis).along(axis) is None
            assert sharding.laid(axis, lie).along(axis) == lie
            for other in (None, Split(0), Split(1), *ReductionKind):
                laid = sharding.laid(axis, other)
                assert laid.along(axis) == other
                assert laid.without(axis) == sharding.without(axis)


def test_blocks_cover_a_value_the_first_axis_slowest() -> None:
    sizes = {"a": 2, "b": 3}
    cut = Sharding((("a", "b"), ()))
    found = [
        block(cut, sizes, dict(zip("ab", at, strict=True))) for at in product(range(2), range(3))
    ]
    assert found == [(n, 0) for n in range(6)]
    assert part_shape(Type("f32", (12, 5)), cut, sizes) == (2, 5)
    turned = Sharding((("b", "a"), ()))
    assert block(turned, sizes, {"a": 1, "b": 0}) == (1, 0)


def test_illegal_shardings_are_refused() -> None:
    sizes = {"a": 2, "b": 3}
    with pytest.raises(InputError, match="occurs 2 times"):
        Sharding((("a",), ("a",)))
    with pytest.raises(InputError, match="occurs 2 times"):
        Sharding((("a",),), ((ReductionKind.SUM, "a"),))
    refused = [
        (Type("f32", (8,)), Sharding((("a", "b"),)), "a=2 x b=3 cuts dimension 0"),
        (
            Type("bool", (6,)),
            Sharding(((),), ((ReductionKind.SUM, "a"),)),
            "a boolean is a partial sum",
        ),
        (Type("key", ()), Sharding((), ((ReductionKind.MAX, "a"),)), "a key is sharded as"),
        (Type("f32", (8,)), replicated_sharding(2), "has 1 dimensions"),
        (Type("f32", (8,)), Sharding((("c",),)), "no axis 'c'"),
    ]
    for value, sharding, said in refused:
        with pytest.raises(InputError, match=said):
            check_type(value, sharding, sizes)
    check_type(Type("bool", (6,)), Sharding(((),), ((ReductionKind.MAX, "a"),)), sizes)
