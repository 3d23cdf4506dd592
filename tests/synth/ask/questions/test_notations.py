"""What is typed is what is meant: a notation reads what it writes, and refuses what it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from synth.ask.questions import notations
from synth.ask.questions.notations import Notation, size_in_bytes, size_text
from synth.ask.questions.plain import LARGEST

SHARE = st.floats(min_value=0, max_value=1)
NAME = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1)
SIZE = st.integers(1, LARGEST)


@given(SIZE)
def test_a_size_that_is_written_is_read_back(size: int) -> None:
    assert size_in_bytes(size_text(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(2**30, "1GiB"), (3 * 2**20, "3MiB"), (1000, "1000"), (2**40 + 1024, "1073741825KiB")],
)
def test_a_size_is_written_in_its_largest_whole_unit(size: int, text: str) -> None:
    assert size_text(size) == text


@given(st.dictionaries(NAME, SHARE))
def test_shares_that_are_written_are_read_back_to_the_last_digit(shares: dict[str, float]) -> None:
    text = notations.SHARES.write(shares)
    assert notations.SHARES.read(text.split(", ") if text else []) == shares


@given(st.lists(NAME))
def test_names_that_are_written_are_read_back(names: list[str]) -> None:
    assert notations.NAMES.read(notations.NAMES.write(names)) == names


@given(st.dictionaries(NAME, SIZE, min_size=1))
def test_axes_are_read_in_their_order(axes: dict[str, int]) -> None:
    text = " , ".join(f"{name} = {size}" for name, size in axes.items())
    if all(size < LARGEST for size in axes.values()):
        assert list(notations.AXES.read(text).items()) == list(axes.items())


@pytest.mark.parametrize(
    ("notation", "text", "told"),
    [
        (notations.AXES, "data=8,,", "'' is not an axis"),
        (notations.AXES, "data=8.0", "'data=8.0' is not an axis"),
        (notations.AXES, "data=1,data=2", "axis 'data' is given twice"),
        (notations.OPEN_AXES, "data=", "'data=' is not an axis"),
        (notations.SHARES, ["node3"], "'node3' is not slow"),
        (notations.SHARES, ["node3=nan"], "'node3=nan' is not slow"),
        (notations.SHARES, ["node3=1", "node3=1"], "'node3' is given twice"),
        (notations.MATRIX, "[[1, 8]", "is no matrix"),
        (
            notations.number_notation("is no tree", "sizes"),
            "2,x",
            "'2,x' is no tree; write sizes, as in",
        ),
    ],
)
def test_a_mistake_has_a_hint_and_the_caller_adds_its_place(
    notation: Notation, text: Any, told: str
) -> None:
    with pytest.raises(InputError) as caught:
        notation.read(text)
    assert told in str(caught.value)
    assert caught.value.where == ""
