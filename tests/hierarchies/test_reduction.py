"""Reductions: the groups by independently computed digits, and the synthesis tree."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given

from hierarchies import Axis, Digit, Hierarchy, InputError, Placement, Reduction, Tree
from hierarchies.reduction import DigitPart
from located import located
from strategies import reductions
from synth.collective.semantics.programs import Language, explore_states

MACHINE = Hierarchy.of(node=2, gpu=8)
DATA, MODEL, PIPE = Axis("data", 2), Axis("model", 4), Axis("pipe", 2)
EXAMPLE = Placement(MACHINE, (DATA, MODEL, PIPE), ((1, 2), (2, 2), (1, 2)))


def shares(placement: Placement, device: int) -> dict[tuple[str, int], int]:
    """The value of every axis on every level: repeated division, the last part first."""
    found = {}
    for level in reversed(range(len(placement.hierarchy.levels))):
        for axis, row in reversed(list(zip(placement.axes, placement.matrix, strict=True))):
            device, found[axis.name, level] = divmod(device, row[level])
    assert device == 0
    return found


@given(reductions())
def test_the_grid_is_a_permutation_of_the_devices(reduction: Reduction) -> None:
    grid = reduction.grid()
    assert grid.shape == (reduction.replicas, reduction.tree.devices)
    assert sorted(grid.reshape(-1).tolist()) == list(range(reduction.placement.hierarchy.devices))


@given(reductions())
def test_locate_is_the_inverse_of_the_grid(reduction: Reduction) -> None:
    for replica, group in enumerate(reduction.grid().tolist()):
        for member, device in enumerate(group):
            assert located(reduction, device) == (replica, member)


@given(reductions())
def test_members_of_a_group_agree_on_the_other_axes(reduction: Reduction) -> None:
    placement = reduction.placement
    groups: dict[tuple[int, ...], set[int]] = {}
    for device in range(placement.hierarchy.devices):
        others = (v for (a, _), v in shares(placement, device).items() if a not in reduction.over)
        groups.setdefault(tuple(others), set()).add(device)
    found = [set(group) for group in reduction.grid().tolist()]
    assert sorted(found, key=min) == sorted(groups.values(), key=min)
    assert reduction.replicas == len(groups)


@given(reductions())
def test_a_member_is_numbered_by_the_digits_of_the_tree(reduction: Reduction) -> None:
    placement = reduction.placement
    levels = range(len(placement.hierarchy.levels))
    for group in reduction.grid().tolist():
        for member, device in enumerate(group):
            number = 0
            share = shares(placement, device)
            for level in levels:
                for axis, row in zip(placement.axes, placement.matrix, strict=True):
                    if axis.name in reduction.over:
                        number = number * row[level] + share[axis.name, level]
            assert number == member


@given(reductions())
def test_replicas_are_numbered_by_the_other_axes(reduction: Reduction) -> None:
    firsts = reduction.grid()[:, 0].tolist()
    assert firsts == sorted(firsts)


@given(reductions())
def test_the_tree_has_the_factors_above_one(reduction: Reduction) -> None:
    placement = reduction.placement
    rows = [
        row
        for a, row in zip(placement.axes, placement.matrix, strict=True)
        if a.name in reduction.over
    ]
    columns = list(zip(*rows, strict=True))
    if reduction.collapse:
        wanted = [size for size in map(prod, columns) if size > 1]
    else:
        wanted = [factor for column in columns for factor in column if factor > 1]
    assert list(reduction.tree.sizes) == wanted
    assert reduction.replicas * reduction.tree.devices == placement.hierarchy.devices


@given(reductions())
def test_collapsing_changes_neither_groups_nor_numbers(reduction: Reduction) -> None:
    other = Reduction(reduction.placement, reduction.over, not reduction.collapse)
    assert (other.grid() == reduction.grid()).all()


@given(reductions())
def test_the_order_of_requested_axes_has_no_effect(reduction: Reduction) -> None:
    over = tuple(reversed(reduction.over))
    other = Reduction(reduction.placement, over, reduction.collapse)
    assert other.tree == reduction.tree
    assert (other.grid() == reduction.grid()).all()


@given(reductions())
def test_the_parts_of_a_level_multiply_to_it(reduction: Reduction) -> None:
    sizes = [prod(part.size for part in parts) for parts in reduction.parts]
    assert sizes == list(reduction.placement.hierarchy.cardinalities)


def test_axes_side_by_side_that_are_not_reduced_over_are_one_part() -> None:
    """Whichever of them has the larger share of a level: no group tells them apart."""
    found = set()
    for model, pipe in (((1, 4), (2, 1)), ((2, 2), (1, 2)), ((1, 1), (2, 4))):
        axes = (Axis("data", 2), Axis("model", prod(model)), Axis("pipe", prod(pipe)))
        placement = Placement(MACHINE, axes, ((1, 2), model, pipe))
        found.add(Reduction(placement, ("data",)).parts)
    assert found == {((DigitPart(2, None),), (DigitPart(2, 0), DigitPart(4, None)))}


def test_collapse_makes_one_digit_of_a_level() -> None:
    collapsed = Reduction(EXAMPLE, ("data", "pipe"))
    assert collapsed.tree == Tree((Digit("gpu", 4),))
    apart = Reduction(EXAMPLE, ("data", "pipe"), collapse=False)
    assert apart.tree == Tree((Digit("gpu.data", 2), Digit("gpu.pipe", 2)))


def test_collapse_loses_programs_according_to_the_language_page() -> None:
    """Levels [2, 8], M = [[1, 2], [2, 2], [1, 2]], reduce axes 0 and 2, to 3 steps: 3 and 29."""
    counted = [
        sum(explore_states(len(reduction.tree.digits), Language(3)).count())
        for reduction in (
            Reduction(EXAMPLE, ("data", "pipe")),
            Reduction(EXAMPLE, ("data", "pipe"), collapse=False),
        )
    ]
    assert counted == [3, 29]


def test_plain_fills_a_machine_with_one_group() -> None:
    reduction = Reduction.plain(2, 3, 5)
    assert reduction.tree.sizes == (2, 3, 5)
    assert reduction.grid().tolist() == [list(range(30))]
    assert Reduction.plain().tree.digits == ()
    assert Reduction.plain().grid().tolist() == [[0]]


def test_axes_of_size_one_leave_a_tree_without_digits() -> None:
    placement = Placement(MACHINE, (Axis("data", 16), Axis("model", 1)), ((2, 8), (1, 1)))
    reduction = Reduction(placement, ("model",))
    assert reduction.tree == Tree(())
    assert reduction.grid().tolist() == [[device] for device in range(16)]


def test_axes_of_a_reduction_must_exist_once_each() -> None:
    with pytest.raises(InputError, match="no axis to reduce over; name at least one"):
        Reduction(EXAMPLE, ())
    with pytest.raises(InputError, match=r"no axis 'modle' to reduce over; did you mean model\?"):
        Reduction(EXAMPLE, ("modle",))
    with pytest.raises(InputError, match="'data' is given 2 times"):
        Reduction(EXAMPLE, ("data", "data"))


@pytest.mark.parametrize("device", [-1, 16])
def test_devices_beyond_the_machine_are_nowhere(device: int) -> None:
    with pytest.raises(InputError, match="ids go from 0 to 15"):
        located(Reduction(EXAMPLE, ("data",)), device)


def test_digits_are_found_by_name_and_by_number() -> None:
    tree = Reduction(EXAMPLE, ("model",)).tree
    assert [tree.index(name) for name in ("node", "gpu", "d0", "d1")] == [0, 1, 0, 1]
    for unknown in ("d2", "pod", "root", "gpu.model"):
        with pytest.raises(InputError, match="this synthesis tree has: node, gpu"):
            tree.index(unknown)
    with pytest.raises(InputError, match="this synthesis tree has: none"):
        Tree(()).index("node")


def test_a_digit_has_two_values_at_least() -> None:
    with pytest.raises(InputError, match="'d1' has size 1; 2 at least"):
        Tree.of(2, 1)
    with pytest.raises(InputError, match="given 2 times"):
        Tree((Digit("gpu", 2), Digit("gpu", 2)))


def test_a_tree_is_reported_by_sizes_and_names() -> None:
    assert str(Reduction(EXAMPLE, ("model",)).tree) == "2 node x 2 gpu"
    assert str(Tree(())) == "of no digits"


@pytest.mark.parametrize("names", [("root",), ("d1", "d0"), ("node", "d0"), ("d2",)])
def test_digits_may_not_take_the_names_of_others(names: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="have a meaning of their own"):
        Tree(tuple(Digit(name, 2) for name in names))


def test_a_digit_may_be_called_what_it_is() -> None:
    assert Tree((Digit("d0", 2), Digit("d1", 3))) == Tree.of(2, 3)
