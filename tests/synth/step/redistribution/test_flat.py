"""Paths from and to what is cut flat: executed, proved, and as many bytes as padded blocks have."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import prod

import numpy as np
import pytest

from exhaustive import Sample, sampled
from grammar.tensors.sharding import (
    Flat,
    ReductionKind,
    Sharding,
    Split,
    Type,
    part_shape,
    replicated_sharding,
)
from hierarchies import Axis, InputError, Placement, load
from redistribution_proof import Wrong, prove
from replicas import carry_out, cut, mismatch
from synth.collective.verify.verdict import Proved
from synth.step.redistribution import MoveKind, RedistributionPath, find_path, pad_move
from synth.step.redistribution.paths import CostPriority, find_paths
from synth.step.redistribution.requests import list_communications
from synth.step.redistribution.rules import flatten_move, list_moves

SIZES = {"data": 3, "seq": 2, "tensor": 2}
VALUE = Type("f32", (4, 5, 2))


def sharding(*cuts: str, sums: str = "", flat: str = "", lead: int = 0) -> Sharding:
    """Of three dimensions the axis that cuts each, the axes of sums, and flat ones in order."""
    dimensions = tuple((axis,) if axis else () for axis in (*cuts, "", "", "")[:3])
    partial = tuple((ReductionKind.SUM, axis) for axis in sums.split())
    return Sharding(dimensions, partial, tuple(flat.split()), lead)


BARE = (
    sharding(),
    sharding("tensor"),
    sharding("seq"),
    sharding("", "", "tensor", sums="data"),
    sharding("seq", sums="data"),
    sharding(sums="data"),
    sharding(sums="data seq"),
    sharding(sums="data seq tensor"),
    sharding("tensor", sums="seq data"),
)
FLAT = (
    sharding(flat="data"),
    sharding(flat="data seq"),
    sharding(flat="seq data", lead=1),
    sharding(flat="data", lead=2),
    sharding("tensor", flat="data seq"),
    sharding("", "", "tensor", flat="data", lead=1),
    sharding(flat="data", sums="tensor"),
    sharding(flat="data seq", sums="tensor"),
)
PAIRS = [pair for pair in permutations((*BARE, *FLAT), 2) if pair[0].flat or pair[1].flat]


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(3)
    return (draw.integers(-99, 100, shape) / 8).astype(np.float32)


def problem(path: RedistributionPath, value: Type = VALUE) -> str | None:
    """What is wrong on virtual devices after the moves of a path; None if nothing is."""
    whole = drawn(value.shape)
    parts = cut(whole, path.source, SIZES, np.random.default_rng(5))
    return mismatch(carry_out(path, parts, SIZES, value.shape), whole, path.target, SIZES)


@pytest.mark.parametrize("first", CostPriority)
def test_every_path_yields_its_stated_sharding(first: CostPriority) -> None:
    for source, target in PAIRS:
        for path in find_paths(VALUE, source, target, SIZES, first=first):
            assert problem(path) is None, [str(move) for move in path.moves]


@sampled(24, seed=4)
def test_every_path_is_proved_for_all_sizes(sample: Sample) -> None:
    for source, target in sample(PAIRS):
        path = find_path(VALUE, source, target, SIZES)
        assert isinstance(prove(path, axes=tuple(SIZES)), Proved), [*map(str, path.moves)]


def test_other_targets_are_refuted_and_executed_wrong() -> None:
    """Neither judge takes a piece over some axes for one over others, in order or in number."""
    path = find_path(VALUE, sharding(sums="data seq"), sharding(flat="data seq"), SIZES)
    for other in (
        sharding(flat="seq data"),
        sharding(flat="data"),
        sharding(flat="data seq", lead=1),
        sharding("tensor", flat="data seq"),
        sharding(),
    ):
        assert isinstance(prove(path, other, axes=tuple(SIZES)), Wrong), other.spelled()
        parts = cut(drawn(VALUE.shape), path.source, SIZES, np.random.default_rng(5))
        found = carry_out(path, parts, SIZES, VALUE.shape)
        assert mismatch(found, drawn(VALUE.shape), other, SIZES), other.spelled()


@pytest.mark.parametrize("elements", [1, 2, 5, 6, 7, 12, 13])
@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_bytes_are_those_of_the_padded_value(elements: int, parts: int) -> None:
    """One device holds 1/n and less than one element more; all move the padded value."""
    value, sizes = Type("f32", (elements,)), {"data": parts}
    flat = Sharding(((),), (), ("data",))
    each = -(-elements // parts)
    assert part_shape(value, flat, sizes) == (each,)
    assert 0 <= each * parts - elements <= parts - 1
    gathered = find_path(value, flat, replicated_sharding(1), sizes)
    summed = find_path(value, Sharding(((),), ((ReductionKind.SUM, "data"),)), flat, sizes)
    assert gathered.least_bytes(value, sizes) == 4 * each * (parts - 1)
    whole = Fraction(2 * (parts - 1), parts) * 4 * elements  # of fewer elements than devices
    assert summed.least_bytes(value, sizes) == min(4 * each * (parts - 1), whole)
    assert find_path(value, replicated_sharding(1), flat, sizes).least_bytes(value, sizes) == 0


@pytest.mark.parametrize("over", ["data", "data seq", "seq data"])
@pytest.mark.parametrize("lead", [0, 1])
def test_where_axes_divide_a_dimension_flat_sends_as_many_bytes(over: str, lead: int) -> None:
    axes = tuple(over.split())
    value, bare = Type("bf16", (12, 12, 7)), sharding(sums=over)
    cut_dimension = bare
    flat = bare
    for axis in axes:
        cut_dimension, flat = cut_dimension.laid(axis, Split(lead)), flat.laid(axis, Flat(lead))
    assert prod(part_shape(value, flat, SIZES)) == prod(part_shape(value, cut_dimension, SIZES))
    sizes = {axis: SIZES[axis] for axis in axes}
    for source, target in ((bare, None), (None, sharding()), (sharding(), None)):
        one, other = (
            find_path(value, source or lies, target or lies, sizes)
            for lies in (flat, cut_dimension)
        )
        assert one.least_bytes(value, sizes) == other.least_bytes(value, sizes)
        assert [move.how for move in one.requests(sizes)] == [
            move.how for move in other.requests(sizes)
        ]


def test_sums_over_other_axes_are_completed_where_it_takes_fewest_bytes() -> None:
    """After the reduce-scatter an all-reduce is of pieces only."""
    path = find_path(VALUE, sharding(sums="data tensor"), sharding(flat="data"), SIZES)
    assert [move.how for move in path.moves] == [MoveKind.REDUCE_SCATTER, MoveKind.ALL_REDUCE]
    assert path.least_bytes(VALUE, SIZES) == 4 * (2 * 14 + Fraction(2, 2) * 14)


def test_a_sum_along_some_of_the_axes_goes_as_one_request() -> None:
    path = find_path(VALUE, sharding(sums="data"), sharding(flat="data seq"), SIZES)
    assert [move.how for move in path.moves] == [MoveKind.MASK, MoveKind.REDUCE_SCATTER]
    assert path.least_bytes(VALUE, SIZES) == 4 * 5 * 7


def test_requests_are_of_the_padded_block() -> None:
    """Three gpus and two nodes: of 40 elements of 4 bytes each of six has 7, so 42 are sent."""
    system = load("dgx-a100:2")
    axes = (Axis("data", 2), Axis("seq", 8))
    placement = Placement(system.hierarchy, axes, ((2, 1), (1, 8)))
    sizes = {"data": 2, "seq": 8}
    flat, bare = sharding(flat="data seq"), sharding(sums="data seq")
    for path in (
        find_path(VALUE, flat, sharding(), sizes),
        find_path(VALUE, bare, flat, sizes),
    ):
        [found] = list_communications(path, VALUE, placement)
        assert found.request.payload_bytes == 4 * 3 * 16
        block, move = pad_move(path.moves[-1], VALUE, sizes)
        assert (block.shape, found.move) == ((48,), move)


def test_only_masks_gathers_and_sums_are_moves_of_what_is_flat() -> None:
    kinds = {
        move.how
        for move in list_moves(sharding(flat="data", sums="seq"), SIZES, {ReductionKind.SUM})
    }
    assert kinds == {MoveKind.ALL_GATHER, MoveKind.MASK, MoveKind.ALL_REDUCE}
    assert flatten_move(sharding("data"), sharding(flat="data")) is None
    assert flatten_move(sharding(sums="data"), sharding(flat="data seq")) is None
    assert flatten_move(sharding(flat="data"), sharding(flat="data seq")) is None


def test_maxima_are_completed_before_they_are_cut() -> None:
    source = Sharding(((),) * 3, ((ReductionKind.MAX, "data"),))
    path = find_path(VALUE, source, sharding(flat="data"), SIZES)
    assert path.moves[-1].how is MoveKind.SLICE
    assert problem(path) is None


@pytest.mark.parametrize(
    ("value", "lies"),
    [
        (Type("f32", ()), Sharding((), (), ("data",))),
        (Type("f32", (6,)), Sharding(((),), (), ("data",), 1)),
        (Type("f32", (6, 6)), Sharding((("tensor",), ()), (), ("data",), 1)),
    ],
)
def test_what_cannot_be_flat_is_refused(value: Type, lies: Sharding) -> None:
    with pytest.raises(InputError, match="flat"):
        find_path(value, replicated_sharding(len(value.shape)), lies, SIZES)
