"""Levels and the numbering of devices: ``device(digits(i)) == i``."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Hierarchy, InputError, Level, suggest_nearest
from strategies import hierarchies


@given(hierarchies())
def test_ids_and_digits_are_inverse(hierarchy: Hierarchy) -> None:
    for device in range(hierarchy.devices):
        assert hierarchy.device(hierarchy.digits(device)) == device


@given(hierarchies())
def test_ids_count_through_the_digits_with_the_innermost_fastest(hierarchy: Hierarchy) -> None:
    everyone = list(product(*(range(count) for count in hierarchy.cardinalities)))
    assert [hierarchy.digits(device) for device in range(hierarchy.devices)] == everyone


@given(hierarchies())
def test_children_contain_the_units_below_them(hierarchy: Hierarchy) -> None:
    for level, cardinality in enumerate(hierarchy.cardinalities):
        outside = prod(hierarchy.cardinalities[:level])
        assert outside * cardinality * hierarchy.devices_in_child(level) == hierarchy.devices


def test_of_names_levels_outermost_first() -> None:
    hierarchy = Hierarchy.of(rack=1, node=2, gpu=4)
    assert hierarchy.names == ("rack", "node", "gpu")
    assert [hierarchy.index(name) for name in hierarchy.names] == [0, 1, 2]
    assert str(hierarchy) == "1 rack x 2 node x 4 gpu"


@given(hierarchies(), st.integers())
def test_ids_beyond_the_machine_are_refused(hierarchy: Hierarchy, device: int) -> None:
    if 0 <= device < hierarchy.devices:
        assert len(hierarchy.digits(device)) == len(hierarchy.levels)
    else:
        with pytest.raises(InputError, match=f"ids go from 0 to {hierarchy.devices - 1}"):
            hierarchy.digits(device)


@pytest.mark.parametrize("digits", [(), (0,), (0, 0, 0), (2, 0), (0, 4), (-1, 0)])
def test_digits_out_of_range_are_refused(digits: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"cardinalities are \(2, 4\)"):
        Hierarchy.of(node=2, gpu=4).device(digits)


def test_an_unknown_level_is_answered_with_the_nearest() -> None:
    hierarchy = Hierarchy.of(node=2, gpu=4)
    with pytest.raises(InputError, match=r"no level 'nodes'; did you mean node\?"):
        hierarchy.index("nodes")
    with pytest.raises(InputError, match="no level 'xyz'; known are: node, gpu"):
        hierarchy.index("xyz")


def test_there_may_be_nothing_to_offer() -> None:
    assert suggest_nearest("node", []) == "there are none"


@pytest.mark.parametrize("name", ["", "4", "a b", "node.gpu", "_x", "é", "a;b", "a\n", "d1#"])
def test_names_that_cannot_be_written_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be written in a program"):
        Level(name, 2)


@pytest.mark.parametrize("name", ["root", "inside", "across", "all-reduce", "reduce", "d0", "d12"])
def test_words_of_the_language_are_no_names(name: str) -> None:
    with pytest.raises(InputError, match="is a word of the reduction language"):
        Level(name, 2)


@pytest.mark.parametrize("name", ["d", "dd0", "d0x", "D0", "Root", "insider", "all-reduce2", "a-"])
def test_names_that_only_look_like_words_are_names(name: str) -> None:
    assert Level(name, 2).name == name


@pytest.mark.parametrize("cardinality", [0, -1, 10**9 + 1])
def test_a_level_has_children(cardinality: int) -> None:
    with pytest.raises(InputError, match="from 1 to 1000000000"):
        Level("node", cardinality)


def test_a_hierarchy_has_levels_with_names_of_their_own() -> None:
    with pytest.raises(InputError, match="no levels"):
        Hierarchy(())
    with pytest.raises(InputError, match="level name 'gpu' is given 2 times"):
        Hierarchy((Level("gpu", 2), Level("gpu", 2)))


def test_an_error_has_place_problem_and_hint_in_this_order() -> None:
    error = InputError("it is odd", where="line 3", hint="make it even")
    assert str(error) == "line 3: it is odd; make it even"
    assert str(error.at("file.toml")) == "file.toml, line 3: it is odd; make it even"
    assert str(InputError("it is odd").at("file.toml")) == "file.toml: it is odd"
