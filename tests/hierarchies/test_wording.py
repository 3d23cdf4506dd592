"""Placements in words: the ranks named are those of the placement's definition."""

from __future__ import annotations

import re
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Axis, Hierarchy, Level, Placement, describe_axes
from hierarchies.placement import first_group, format_ranges
from strategies import placed


def coordinates(placement: Placement, device: int) -> tuple[int, ...]:
    """A device's coordinate on each axis, from the definition: digits split in axis order."""
    found = [0] * len(placement.axes)
    digits = placement.hierarchy.digits(device)
    for level, digit in enumerate(digits):
        column = [row[level] for row in placement.matrix]
        parts = list(product(*map(range, column)))[digit]
        for axis, part in enumerate(parts):
            found[axis] = found[axis] * column[axis] + part
    return tuple(found)


@given(placed())
def test_the_first_group_is_that_of_the_definition(placement: Placement) -> None:
    devices = range(placement.hierarchy.devices)
    for axis in range(len(placement.axes)):
        others = [n for n in range(len(placement.axes)) if n != axis]
        wanted = [d for d in devices if not any(coordinates(placement, d)[n] for n in others)]
        assert first_group(placement.matrix, axis) == wanted


@given(st.sets(st.integers(0, 200), min_size=1))
def test_ranges_name_their_numbers(numbers: set[int]) -> None:
    text = format_ranges(sorted(numbers))
    named: set[int] = set()
    for part in text.replace(", ...", "").split(", "):
        first, _, last = part.partition("-")
        named.update(range(int(first), int(last or first) + 1))
    assert named == numbers if "..." not in text else named < numbers
    assert max(numbers) in named
    assert len(text.split(", ")) <= 5


@given(placed())
def test_every_axis_above_one_is_described_with_its_devices(placement: Placement) -> None:
    said = describe_axes(placement)
    assert len(said) == sum(axis.size > 1 for axis in placement.axes)
    for axis, text in zip((one for one in placement.axes if one.size > 1), said, strict=True):
        assert text.startswith(f"{axis.name} ")
        where = text.removeprefix(axis.name).split(" (ranks")[0]
        counts = re.findall(r"all (\d+)|(\d+) of \d+|each of (?:the )?(\d+)", where)
        assert prod(int(number) for found in counts for number in found if number) == axis.size


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (
            ((1, 8), (4, 1)),
            (
                "data on all 8 gpus of a node (ranks 0-7)",
                "model across all 4 nodes (ranks 0, 8, 16, 24)",
            ),
        ),
        (
            ((2, 4), (2, 2)),
            (
                "data on 4 of 8 gpus in each of 2 nodes (ranks 0, 2, 4, ..., 22)",
                "model on 2 of 8 gpus in each of 2 nodes (ranks 0-1, 8-9)",
            ),
        ),
    ],
)
def test_a_placement_of_nodes(matrix: tuple[tuple[int, ...], ...], said: tuple[str, ...]) -> None:
    hierarchy = Hierarchy((Level("node", 4), Level("gpu", 8)))
    assert describe_axes(Placement(hierarchy, (Axis("data", 8), Axis("model", 4)), matrix)) == said


def test_dimensions_of_a_torus_are_stated_as_such() -> None:
    hierarchy = Hierarchy((Level("z", 4), Level("y", 4), Level("x", 4)))
    matrix = ((2, 4, 2), (2, 1, 2))
    assert describe_axes(Placement(hierarchy, (Axis("data", 16), Axis("model", 4)), matrix)) == (
        "data along x (2 of 4) by y (all 4) by z (2 of 4) (ranks 0, 2, 4, ..., 46)",
        "model along x (2 of 4) by z (2 of 4) (ranks 0-1, 16-17)",
    )


def test_a_torus_inside_nodes_is_stated_with_both() -> None:
    hierarchy = Hierarchy((Level("node", 2), Level("y", 4), Level("x", 4)))
    whole = Placement(hierarchy, (Axis("fsdp", 32),), ((2, 4, 4),))
    assert describe_axes(whole) == (
        "fsdp along x (all 4) by y (all 4) in each of the 2 nodes (ranks 0-31)",
    )
    axes = (Axis("data", 2), Axis("tensor", 16))
    assert describe_axes(Placement(hierarchy, axes, ((2, 1, 1), (1, 4, 4)))) == (
        "data across all 2 nodes (ranks 0, 16)",
        "tensor along x (all 4) by y (all 4) of a node (ranks 0-15)",
    )
