"""Placements: both product laws, all of them, each once, in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import (
    Axis,
    Hierarchy,
    InputError,
    Placement,
    count_placements,
    placements,
    row_major_placement,
)
from hierarchies.placement import check_axes
from strategies import hierarchies, placed

Matrix = tuple[tuple[int, ...], ...]
MACHINE = Hierarchy.of(node=2, gpu=4)


def axes(*sizes: int) -> tuple[Axis, ...]:
    return tuple(Axis(f"axis{number}", size) for number, size in enumerate(sizes))


def brute_force(sizes: tuple[int, ...], cardinalities: tuple[int, ...]) -> Iterator[Matrix]:
    """All matrices of numbers up to the largest cardinality, tried one by one."""
    columns = [
        [column for column in product(range(1, c + 1), repeat=len(sizes)) if prod(column) == c]
        for c in cardinalities
    ]
    for chosen in product(*columns):
        rows = tuple(zip(*chosen, strict=True))
        if all(prod(row) == size for row, size in zip(rows, sizes, strict=True)):
            yield rows


@given(hierarchies(most_devices=24, most_levels=3), st.data())
def test_they_are_all_there_in_lexicographic_order(
    hierarchy: Hierarchy, data: st.DataObject
) -> None:
    given_axes = data.draw(placed(hierarchy)).axes
    found = [placement.matrix for placement in placements(hierarchy, given_axes)]
    wanted = brute_force(tuple(axis.size for axis in given_axes), hierarchy.cardinalities)
    assert found == sorted(wanted)
    assert len(found) == count_placements(hierarchy, given_axes)


@given(placed())
def test_the_two_product_laws(placement: Placement) -> None:
    for axis, row in zip(placement.axes, placement.matrix, strict=True):
        assert prod(row) == axis.size
    for level, column in zip(
        placement.hierarchy.levels, zip(*placement.matrix, strict=True), strict=True
    ):
        assert prod(column) == level.cardinality


@given(placed())
def test_they_are_distinct_sorted_and_counted(placement: Placement) -> None:
    found = [p.matrix for p in placements(placement.hierarchy, placement.axes)]
    assert found == sorted(set(found))
    assert len(found) == count_placements(placement.hierarchy, placement.axes)


@given(placed())
def test_the_count_does_not_depend_on_the_order_of_axes(placement: Placement) -> None:
    backwards = tuple(reversed(placement.axes))
    hierarchy = placement.hierarchy
    assert count_placements(hierarchy, backwards) == count_placements(hierarchy, placement.axes)


def test_the_placements_of_the_language_page() -> None:
    machine = Hierarchy.of(rack=1, node=2, cpu=2, gpu=4)
    found = [str(placement) for placement in placements(machine, axes(4, 4))]
    assert found[0] == "[[1, 1, 1, 4], [1, 2, 2, 1]]"
    assert found[-1] == "[[1, 2, 2, 1], [1, 1, 1, 4]]"
    assert len(found) == count_placements(machine, axes(4, 4)) == 4


def test_counting_does_not_enumerate() -> None:
    machine = Hierarchy.of(pod=2**10, node=2**10, gpu=2**10)
    n = 10  # magic squares of 3 by 3 with the sum n
    squares = (n + 1) * (n + 2) * (n * n + 3 * n + 4) // 8
    assert count_placements(machine, axes(2**n, 2**n, 2**n)) == squares


def test_axes_of_size_one_take_part() -> None:
    [placement] = placements(MACHINE, axes(1, 8, 1))
    assert placement.matrix == ((1, 1), (2, 4), (1, 1))


def test_axes_must_cover_the_machine_and_the_error_names_both_products() -> None:
    products = "axis0=4 x axis1=4 multiply to 16 devices, .* 2 node x 4 gpu has 8"
    with pytest.raises(InputError, match=products):
        list(placements(MACHINE, axes(4, 4)))
    with pytest.raises(InputError, match=products):
        count_placements(MACHINE, axes(4, 4))


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        (((2, 4),), "needs 2 rows (axes) of 2 numbers (levels)"),
        (((2,), (4,)), "needs 2 rows (axes) of 2 numbers (levels)"),
        (((2, 4), (1, 1)), "row [2, 4] multiplies to 8; axis 'axis0' has size 2"),
        (((1, 2), (1, 4)), "column [1, 1] multiplies to 1; level 'node' has 2 children"),
        (((-1, -2), (-2, -2)), "number below 1"),
        (((2, 1), (0, 4)), "number below 1"),
    ],
)
def test_a_matrix_that_breaks_a_law_is_refused(matrix: Matrix, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        Placement(MACHINE, axes(2, 4), matrix)
    assert problem in str(caught.value)


def test_axes_for_some_devices_of_each_node_name_the_shape_that_has_them() -> None:
    hierarchy, shape = (
        Hierarchy.of(node=4, gpu=8),
        "; the machine with 3 gpu of each node ends in :4x3",
    )
    for sizes, more in (((4, 3), shape), ((13,), ""), ((4, 16), "")):
        axes = [Axis(f"axis{number}", size) for number, size in enumerate(sizes)]
        with pytest.raises(InputError) as raised:
            check_axes(hierarchy, axes)
        assert raised.value.hint == f"their product must be the number of devices{more}"


def test_axes_need_names_sizes_and_company() -> None:
    with pytest.raises(InputError, match="no axes are given"):
        list(placements(MACHINE, ()))
    with pytest.raises(InputError, match="axis name 'data' is given 2 times"):
        list(placements(MACHINE, (Axis("data", 2), Axis("data", 4))))
    with pytest.raises(InputError, match="axis 'data' has size 0"):
        Axis("data", 0)
    with pytest.raises(InputError, match="word of the reduction language"):
        Axis("inside", 2)


def laid_out_row_by_row(placement: Placement) -> bool:
    """Whether a placement's mesh is numpy's reshape, as in jax.make_mesh and init_device_mesh.

    Device numbers are cut into the factors of each level, in axis order; the factors of one axis
    brought together are its coordinate.
    """
    sizes = [axis.size for axis in placement.axes]
    columns = list(zip(*placement.matrix, strict=True))
    cut = np.arange(prod(sizes)).reshape([factor for column in columns for factor in column])
    levels, count = range(len(columns)), len(sizes)
    mesh = cut.transpose([level * count + axis for axis in range(count) for level in levels])
    return bool((mesh.reshape(sizes) == np.arange(prod(sizes)).reshape(sizes)).all())


@given(placed())
def test_the_placement_of_frameworks_is_the_one_whose_mesh_counts_row_by_row(
    placement: Placement,
) -> None:
    every = list(placements(placement.hierarchy, placement.axes))
    wanted = [one for one in every if laid_out_row_by_row(one)]
    found = row_major_placement(placement.hierarchy, placement.axes)
    assert [found] == wanted if wanted else found is None


def test_jax_makes_the_stated_mesh() -> None:
    """On devices without coordinates; of a TPU slice it follows the torus instead."""
    pytest.importorskip("jax", reason="needs jax")
    code = (
        "import os; os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8'; "
        "os.environ['JAX_PLATFORMS'] = 'cpu'; import jax; "
        "print([one.id for one in jax.make_mesh((4, 2), ('a', 'b')).devices.flat])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(list(range(8)))


def test_where_frameworks_lay_axes() -> None:
    eights = Hierarchy.of(node=4, gpu=8)
    found = row_major_placement(eights, (Axis("data", 8), Axis("model", 4)))
    assert str(found) == "[[4, 2], [1, 4]]"
    assert (
        str(row_major_placement(eights, (Axis("model", 4), Axis("data", 8)))) == "[[4, 1], [1, 8]]"
    )
    assert (
        row_major_placement(Hierarchy.of(node=3, gpu=4), (Axis("data", 2), Axis("model", 6)))
        is None
    )
