"""Kernels that read twice, and values that are computed again instead of read."""

from __future__ import annotations

import pytest

from grammar.tensors.operations import Literal, Operation, Value
from grammar.tensors.sharding import Type
from hierarchies.devices import device_named
from synth.compute import Section, bytes_estimate, section_estimate
from synth.compute.products import product_of

A100 = device_named("A100 SXM4 80 GB")
ROWS, CHANNELS = 2**20, 64


def normalised(rows: int, channels: int, axis: int) -> tuple[tuple[Operation, ...], Type, Type]:
    """Each element less the mean of its row or column."""
    whole = Type("bf16", (rows, channels))
    mean = Type("bf16", (channels if axis == 0 else rows,))
    x, total, spread, made = (
        Value(name, kind) for name, kind in (("x", whole), ("t", mean), ("s", whole), ("y", whole))
    )
    dimension = 1 if axis == 0 else 0
    operations = (
        Operation("reduce_sum", (x,), (total,), (("axes", (axis,)),)),
        Operation(
            "broadcast_in_dim",
            (total,),
            (spread,),
            (("shape", whole.shape), ("broadcast_dimensions", (dimension,))),
        ),
        Operation("sub", (x, spread), (made,), ()),
    )
    return operations, whole, mean


def seconds(operations: tuple[Operation, ...], kept: str, **how: object) -> float:
    return section_estimate(Section(operations, frozenset(kept), **how), A100).seconds  # type: ignore[arg-type]


def moved(size: int) -> float:
    return bytes_estimate(size, A100).seconds


def test_a_row_that_no_processor_holds_is_read_for_its_sum_and_again_for_its_elements() -> None:
    """Of a batch normalisation a channel has a million elements, of 2 MiB."""
    operations, whole, _ = normalised(ROWS, CHANNELS, axis=0)
    assert seconds(operations, "y") == moved(3 * whole.bytes)


def test_a_row_that_a_processor_holds_is_read_once() -> None:
    """Of a layer normalisation a row has 64 elements."""
    operations, whole, _ = normalised(ROWS, CHANNELS, axis=1)
    assert seconds(operations, "y") == moved(2 * whole.bytes)


def test_values_read_only_by_a_sum_are_read_once() -> None:
    operations, whole, mean = normalised(ROWS, CHANNELS, axis=0)
    assert seconds(operations[:1], "t") == moved(whole.bytes + mean.bytes)


def test_several_values_of_one_source_are_read_as_the_source() -> None:
    """Of what a kernel reads twice as much again and negative, it reads the one value."""
    kind = Type("bf16", (2**24,))
    source, twice, less, made = (Value(name, kind) for name in "sdny")
    two = Literal(2.0, "bf16")
    both = (
        Operation("mul", (two, twice), (Value("z", kind),), ()),
        Operation("add", (Value("z", kind), less), (made,), ()),
    )
    assert seconds(both, "y") == moved(3 * kind.bytes)
    again = (("d", (source,)), ("n", (source,)))
    assert seconds(both, "y", remade=again) == moved(2 * kind.bytes)


def test_what_a_later_kernel_computes_again_is_not_written() -> None:
    """Two kernels read a source; what the first makes of it for the second needs no memory."""
    kind = Type("bf16", (2048, 2048))
    source, twice, grown, other, product, made = (Value(name, kind) for name in "sdgbpy")
    numbers = (("dimension_numbers", (((1,), (0,)), ((), ()))),)
    before = (
        Operation("add", (source, source), (twice,), ()),
        Operation("exp", (twice,), (grown,), ()),
    )
    middle = Operation("dot_general", (grown, other), (product,), numbers)
    after = Operation("mul", (product, twice), (made,), ())
    alone = seconds((middle,), "p")
    section = (*before, middle, after)
    assert seconds(section, "y") == pytest.approx(
        moved(3 * kind.bytes) + alone + moved(3 * kind.bytes)
    )
    assert seconds(section, "y", remade=(("d", (source,)),)) == pytest.approx(
        moved(2 * kind.bytes) + alone + moved(3 * kind.bytes)
    )


def test_a_product_finds_in_memory_what_is_computed_again_for_it() -> None:
    """A kernel before it reads the source and writes the operand."""
    kind = Type("bf16", (512, 512))
    source, operand, other, made = (Value(name, kind) for name in "saby")
    product = Operation(
        "dot_general", (operand, other), (made,), (("dimension_numbers", (((1,), (0,)), ((), ()))),)
    )
    alone = seconds((product,), "y")
    assert seconds((product,), "y", remade=(("a", (source,)),)) == moved(2 * kind.bytes) + alone


def test_windows_of_a_convolution_are_read_by_their_kind() -> None:
    """Each pixel is in nine windows of three by three."""
    image, kernel = Type("bf16", (8, 32, 32, 64)), Type("bf16", (3, 3, 64, 64))
    one = Operation(
        "conv_general_dilated",
        (Value("x", image), Value("w", kernel)),
        (Value("y", image),),
        (
            ("window_strides", (1, 1)),
            ("padding", ((1, 1), (1, 1))),
            ("lhs_dilation", (1, 1)),
            ("rhs_dilation", (1, 1)),
            (
                "dimension_numbers",
                (
                    ("lhs_spec", (0, 3, 1, 2)),
                    ("rhs_spec", (3, 2, 0, 1)),
                    ("out_spec", (0, 3, 1, 2)),
                ),
            ),
            ("feature_group_count", 1),
            ("batch_group_count", 1),
        ),
    )
    assert product_of(one).bytes == 2 * image.bytes + kernel.bytes
