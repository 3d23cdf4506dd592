"""Values as JSON: every value comes back as it was, and no other class is ever constructed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.cache.codec import Codec


class Color(Enum):
    RED = "r"
    BLUE = "b"


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclass(frozen=True)
class Node:
    name: str
    inner: Any = ()


CODEC = Codec(Color, Pair, Node)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.sampled_from(Color)
)
KEYS = st.text() | st.integers() | st.sampled_from(Color) | st.tuples(st.text(), st.floats(0, 1))
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Node, st.text(), inner)
    ),
)


def spelled(value: object) -> str:
    """Tells apart what ``==`` does not: 1, 1.0 and True; 0.0 and -0.0; the order of a mapping."""
    return repr(value)


@given(VALUES)
def test_values_come_back_as_they_were(value: object) -> None:
    again = CODEC.decode(CODEC.encode(value))
    assert again == value
    assert spelled(again) == spelled(value)


@pytest.mark.parametrize("value", [nan, inf, -inf, -0.0, 0.1 + 0.2, 5e-324, 2**70])
def test_numbers_keep_every_bit(value: float) -> None:
    assert spelled(CODEC.decode(CODEC.encode(value))) == spelled(value)


@pytest.mark.parametrize("value", [np.float64(0.1), np.int64(7), np.bool_(True)])
def test_numbers_of_numpy_become_plain_ones(value: Any) -> None:
    again = CODEC.decode(CODEC.encode((value,)))[0]
    assert again == value
    assert type(again) in (float, int, bool)


def test_an_object_that_is_shared_is_shared_again() -> None:
    shared = Node("a", (1, 2))
    first, second = CODEC.decode(CODEC.encode((Node("b", shared), shared))), shared
    assert first[0].inner is first[1]
    assert first[1] == second


@dataclass(frozen=True)
class Stranger:
    name: str


def test_other_classes_are_not_written() -> None:
    with pytest.raises(TypeError, match="Stranger"):
        CODEC.encode(Node("a", Stranger("b")))


@pytest.mark.parametrize(
    "text",
    [
        '{"Stranger":["b"]}',
        '{"Node":[1,2,3]}',
        '{"Color":"GREEN"}',
        '{"again":0}',
        "{}",
        "[",
        "",
        '{"Node":["a"],"Pair":[1]}',
        '{"mapping":[1]}',
        '{"bytes":"?"}',
        '{"bytes":1}',
    ],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        CODEC.decode(text)
