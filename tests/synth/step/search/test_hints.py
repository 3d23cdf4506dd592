"""What is said where there is no plan: fewest pins, values that there are, memory freed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError
from synth.step.rows.grids import Extents, Knobs, list_recipes
from synth.step.search.hints import find_savings, no_plan_error
from synth.step.search.pins import Pins, pin_value_of

EXTENTS = Extents(batch=32, tokens=64, megatron=8, vocabulary=96, layers=8)
KNOWN = list(list_recipes(16, EXTENTS, Knobs(schedules=("1f1b", "zbv"), vocabulary=(True, False))))
VALUES = {
    "data": "1 2 3 4 8 16",
    "tensor": "1 2 4 8 16 5",
    "pipe": "1 2 4 16",
    "zero": "0 1 2 3",
    "remat": "yes no",
    "sequence": "yes no",
    "vocabulary": "yes no",
    "microbatches": "1 2 4 7",
    "schedule": "1f1b zbv dualpipev",
    "chunks": "1 2 4",
}
PINS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values.split()) for name, values in VALUES.items()}
).map(Pins)


def never(batch: int) -> bool:
    return False


@given(PINS)
def test_the_fewest_pins_that_no_plan_has_are_named(pins: Pins) -> None:
    """And a value that is told is had by a plan with the others, as brute force finds."""
    if any(pins.allow(one) for one in KNOWN):
        return
    error = no_plan_error("m", 16, 32, pins, KNOWN, never)
    named = Pins.parse(error.problem.partition(" has ")[2])
    assert not any(named.allow(one) for one in KNOWN)
    for fewer in combinations(named.values.items(), len(named.values) - 1):
        assert any(Pins(dict(fewer)).allow(one) for one in KNOWN)
    last = [*named.values][-1]
    beside = named.without(last)
    told = error.hint.partition(f"{last} is ")[2].removeprefix("one of ").split(", ")
    assert set(told) == {pin_value_of(one, last) for one in KNOWN if beside.allow(one)}


@pytest.mark.parametrize(
    ("possible", "hint"),
    [
        (lambda batch: batch % 7 == 0, "a batch of 63 or 70"),
        (lambda batch: batch > 100, "a batch of 101"),
        (lambda batch: batch < 10, "a batch of 9"),
        (never, "fewer or more devices"),
    ],
)
def test_the_nearest_batches_are_reported(possible: Callable[[int], bool], hint: str) -> None:
    error = no_plan_error("m", 56, 64, Pins({}), [], possible)
    assert error.hint is not None
    assert error.hint.startswith(hint)


def test_what_frees_most_comes_first_and_what_frees_nothing_not() -> None:
    def cannot() -> float:
        raise InputError("no such plan is possible")

    changes = {"a": lambda: 8.0, "b": lambda: 3.0, "c": lambda: 10.0, "d": cannot}
    found = find_savings(10.0, changes)
    assert [(one.what, one.size_bytes, one.freed_bytes) for one in found] == [
        ("b", 3.0, 7.0),
        ("a", 8.0, 2.0),
    ]
