"""Sweeps over sizes: each answer is the planner's own, and changes are found where they are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import isqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import Axis, InputError, System, load
from hierarchies.units import format_bytes
from machines import precise
from strategies import systems
from synth.collective.ranking.how_to_get import environment_line, find_deciding_run
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, DefaultComparison, Request, Watcher
from synth.collective.ranking.sizes import Sweep, roundest_size, sweep
from synth.collective.semantics.programs import Language
from synth.measure.calibration.typical import apply_typical

H100 = load("dgx-h100:4")
ALL = Request((Axis("data", 32),), ("data",), language=Language(4))


def whole(system: System, smallest: int, largest: int) -> Sweep:
    axes = (Axis("data", system.devices),)
    return sweep(system, Request(axes, ("data",), language=Language(2)), smallest, largest)


@given(systems(12), st.integers(1, 10**6), st.integers(1, 1000))
@examples(6, 15)
def test_stretches_cover_the_sizes_in_order_and_neighbours_differ(
    system: System, smallest: int, factor: int
) -> None:
    told = whole(system, smallest, smallest * factor)
    assert told.complete
    sizes = [size for size, _ in told.sizes]
    assert sizes == sorted(set(sizes))
    assert {smallest, smallest * factor} <= set(sizes)
    ends = [end for one in told.stretches for end in (one.from_bytes, one.until_bytes)]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (smallest, smallest * factor)
    for one, other in pairwise(told.stretches):
        near = one.until_bytes * 1.01 >= other.from_bytes
        assert near or other.from_bytes - one.until_bytes == 1
        assert told_of(one.last) != told_of(other.first)
    for one in told.stretches:
        inside = {
            told_of(answer)
            for size, answer in told.sizes
            if one.from_bytes <= size <= one.until_bytes
        }
        assert inside == {told_of(one.first)}


def told_of(answer: Answer) -> tuple[Any, ...]:
    """What a row says of an answer beside its figures; of no gain, on which placement it is."""
    worth = find_deciding_run(answer) is not None
    gains = answer.against_default in (DefaultComparison.FASTER, DefaultComparison.NOT_OFFERED)
    if not gains and not worth:
        return program_of(answer)[:1]
    return *program_of(answer), environment_line(answer), answer.against_default, worth


def program_of(answer: Answer) -> tuple[Any, ...]:
    """Where it runs and what."""
    return answer.candidate.reduction.placement, answer.candidate.program


def test_a_stretch_ends_where_what_one_does_changes() -> None:
    """NCCL goes over from trees to rings earlier than these are faster: the program is the same
    throughout, and only from then on there is anything to set, or to gain.
    """
    axes = (Axis("data", 16), Axis("tensor", 2))
    asked = Request(axes, ("data",), language=Language(2), placement=((4, 4), (1, 2)))
    told = sweep(apply_typical(H100), asked, 2**23, 2**24)
    assert len({program_of(one.first) for one in told.stretches}) == 1
    by_itself, ring = told.stretches
    assert (environment_line(by_itself.first), find_deciding_run(by_itself.last)) == ("", None)
    assert environment_line(ring.first) == "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:LL128"
    assert find_deciding_run(ring.first)
    assert by_itself.last.defaults.chosen != ring.first.defaults.chosen


EIGHT = Request(
    (Axis("data", 8), Axis("tensor", 4)),
    ("data",),
    language=Language(3),
    placement=((4, 2), (1, 4)),
)


def by_halving(system: System, request: Request, smallest: int, largest: int) -> list[int]:
    """Where what is told changes, by the planner alone: neighbours that differ are halved."""

    @cache
    def told(size: int) -> tuple[Any, ...]:
        asked = replace(request, payload_bytes=size, k=1, stripes=False)
        return told_of(answers(system, asked, library=library).answers[0])

    library = Library(request.language)
    sizes = [smallest]
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    while True:
        fresh = [
            max(low + 1, isqrt(low * high))
            for low, high in pairwise(sizes)
            if told(low) != told(high) and high > 1.01 * low and high - low > 1
        ]
        if not fresh:
            return [high for low, high in pairwise(sizes) if told(low) != told(high)]
        sizes = sorted([*sizes, *fresh])


class Counting(Watcher):
    """How many sizes are searched."""

    searched = 0

    def judged(self, done: int, of: int) -> None:
        self.searched = max(self.searched, done)


@pytest.mark.parametrize(
    ("request_", "smallest", "largest", "most"),
    [(replace(ALL, language=Language(3)), 2**20, 2**27, 12), (EIGHT, 2**14, 2**23, 24)],
)
def test_changes_are_where_halving_finds_them_and_few_sizes_are_searched(
    request_: Request, smallest: int, largest: int, most: int
) -> None:
    """A change of the line or the gain of one program takes no search: two sizes are, beside it."""
    system, counting = precise("dgx-h100:4"), Counting()
    told = sweep(system, request_, smallest, largest, counting)
    changes = [one.from_bytes for one in told.stretches[1:]]
    assert len(changes) > 1
    assert changes == by_halving(system, request_, smallest, largest)
    assert counting.searched == len(told.sizes) <= most


def test_what_is_to_be_run_has_a_size_that_one_would_type() -> None:
    told = sweep(apply_typical(H100), replace(EIGHT, language=Language(1)), 2**14, 2**23)
    assert any(one.trial for one in told.stretches)
    for one in told.stretches:
        assert (one.trial is not None) == (find_deciding_run(one.first) is not None)
        if one.trial is not None:
            size = one.trial.payload_bytes
            assert one.from_bytes <= size <= one.until_bytes
            assert told_of(one.trial) == told_of(one.first)
            assert (
                format_bytes(size)
                == f"{round(float(format_bytes(size).split()[0]))} {format_bytes(size)[-3:]}"
            )


def test_the_roundest_size_is_the_multiple_of_the_largest_power_of_two() -> None:
    assert [roundest_size(low, high) for low, high in ((470, 509), (3, 3), (5, 7), (33, 900))] == [
        *(480, 3, 6, 512)
    ]


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_roundest_size_is_in_its_range(low: int, more: int) -> None:
    found = roundest_size(low, low + more)
    assert low <= found <= low + more
    zeros = (found & -found).bit_length()
    step = 1 << zeros
    assert (low + more) // step * step < low or (low + more) // step == 0


def test_every_size_has_the_answer_that_the_planner_gives_for_it() -> None:
    told = sweep(H100, ALL, 2**22, 2**32)
    assert len(told.stretches) > 1
    for size, answer in told.sizes:
        [alone] = answers(H100, replace(ALL, payload_bytes=size, k=1, stripes=False)).answers
        assert answer == replace(alone, by_size=True)


def test_a_sweep_that_is_stopped_keeps_what_it_has_and_says_so() -> None:
    class Impatient(Watcher):
        sizes = 0

        def judged(self, done: int, of: int) -> None:
            self.sizes += 1

        def go_on(self) -> bool:
            return self.sizes < 5

    told = sweep(H100, ALL, 2**10, 2**40, Impatient())
    assert not told.complete
    assert [size for size, _ in told.sizes] == [2**10, 2**11, 2**12, 2**13, 2**14]


@pytest.mark.parametrize(("smallest", "largest"), [(2048, 1024), (0, 1024)])
def test_a_range_that_is_empty_is_the_callers_mistake(smallest: int, largest: int) -> None:
    with pytest.raises(InputError, match="the sizes go from"):
        sweep(H100, ALL, smallest, largest)


@pytest.mark.parametrize("error", [0.0, 0.15, None])
def test_a_size_of_a_range_has_the_verdict_that_it_has_alone(error: float | None) -> None:
    """The first that surely gains; where none does, the best as priced, even if worth a run."""
    axes = (Axis("data", 128), Axis("tensor", 8))
    name = "superpod-h100-oversubscribed:8"
    system = apply_typical(load(name)) if error is None else precise(name, error)
    rows = ((8, 4, 4, 1), (1, 1, 1, 8))
    request = Request(axes, ("data",), 2**26, k=3, stripes=False, placement=rows)
    alone = answers(system, request).answers
    advised = next((one for one in alone if one.gains), alone[0])
    assert advised.gains != (error is None)
    [(_, found)] = sweep(system, request, 2**26, 2**26).sizes
    assert (found.candidate.text, environment_line(found)) == (
        advised.candidate.text,
        environment_line(advised),
    )
