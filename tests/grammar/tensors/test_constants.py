"""Arrays that a model closes over, in the text of a step: read back as they were, or refused."""

from __future__ import annotations

import base64
import random
import re
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors import constants
from grammar.tensors.constants import LONG, MOST_BYTES, pack, unpack
from grammar.tensors.operations import Graph, Step, Value
from grammar.tensors.parser import parse_step
from grammar.tensors.scanning import LONGEST_LINE, MOST_LINES
from grammar.tensors.sharding import Type
from hierarchies import InputError

SHAPES = (Type("f32", (3,)), Type("bool", (4, 2)), Type("bf16", (100, 7)), Type("u32", (2,)))


def step_with(data: bytes, kind: Type) -> Step:
    x, v0 = Value("x", Type("f32", (2,))), Value("v0", kind)
    graph = Graph((x, v0), (), (x, v0))
    return Step("one", graph, ("batch", "state"), ("x", "constant/0"), (), (("v0", data),))


@given(st.data(), st.sampled_from(SHAPES))
def test_a_step_with_values_is_read_back(data: st.DataObject, kind: Type) -> None:
    step = step_with(data.draw(st.binary(min_size=kind.bytes, max_size=kind.bytes)), kind)
    assert parse_step(str(step)) == step
    assert max(map(len, str(step).splitlines())) <= LONG + 70


TEXT = str(step_with(bytes(range(12)), SHAPES[0]))
VALUES = re.search(r' = "(.*)"', TEXT)


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


DAMAGED = {
    "none": ("", "constant/0, an array that the model closes over, has no values here"),
    "too few": (f' = "{packed(bytes(11))}"', "these are not the values of 12 bytes"),
    "too many": (f' = "{packed(bytes(13))}"', "these are not the values of 12 bytes"),
    "a bomb": (f' = "{packed(bytes(10**7))}"', "these are not the values of 12 bytes"),
    "cut short": (f' = "{packed(bytes(range(12)))[:-8]}"', "these are not the values"),
    "no base64": (' = "#!"', "damaged values"),
    "no zlib": (' = "AAAA"', "damaged values"),
}


@pytest.mark.parametrize(("instead", "said"), DAMAGED.values(), ids=DAMAGED)
def test_missing_and_damaged_values_are_refused_at_their_place(instead: str, said: str) -> None:
    assert VALUES is not None
    with pytest.raises(InputError, match=said) as refused:
        parse_step(TEXT.replace(VALUES[0], instead), where="one.step")
    assert refused.value.where.startswith("one.step, line 3, column")


def test_only_states_have_values() -> None:
    with pytest.raises(InputError, match="only a state has values"):
        parse_step(TEXT.replace("state", "parameter"))


def test_a_number_that_is_called_constant_needs_no_values() -> None:
    """A user may keep a count under that name; what a model closes over is never one number."""
    step = replace(step_with(bytes(4), Type("i32", ())), constants=())
    assert parse_step(str(step)) == step


def test_large_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"an array of {MOST_BYTES + 1} bytes"):
        unpack("", MOST_BYTES + 1)
    monkeypatch.setattr(constants, "MOST_BYTES", 8)
    with pytest.raises(InputError, match="an array of 12 bytes"):
        parse_step(TEXT)


def test_the_largest_array_has_fewer_lines_than_a_step_may_have() -> None:
    lines = pack(random.Random(0).randbytes(20_000))
    assert {len(line) for line in lines[:-1]} == {LONG}
    assert MOST_BYTES * 4 / 3 / LONG < MOST_LINES / 16
    assert LONG < LONGEST_LINE
