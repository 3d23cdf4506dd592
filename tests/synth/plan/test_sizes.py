"""Sweeps over sizes: each answer is the planner's own, and changes are found where they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import Axis, InputError, System, load
from strategies import systems
from synth.calibration.typical import typical
from synth.plan.how_to_get import to_set, worth_measuring
from synth.plan.planner import answers
from synth.plan.request import Answer, Request, Watcher
from synth.plan.sizes import Sweep, sweep
from synth.semantics.programs import Language

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
    """What a row says of an answer beside its figures."""
    worth = worth_measuring(answer) is not None
    return *program_of(answer), to_set(answer), answer.against_default, worth


def program_of(answer: Answer) -> tuple[Any, ...]:
    """Where it runs and what."""
    return answer.candidate.reduction.placement, answer.candidate.program


def test_a_stretch_ends_where_what_one_does_changes() -> None:
    """NCCL goes over from rings to NVLS trees later than these are faster: the program is the same
    throughout, and only until then there is anything to set, or to gain.
    """
    axes = (Axis("data", 16), Axis("tensor", 2))
    asked = Request(axes, ("data",), language=Language(2), placement=((4, 4), (1, 2)))
    told = sweep(typical(H100), asked, 2**24, 2**26)
    assert len({program_of(one.first) for one in told.stretches}) == 1
    ring, by_itself = told.stretches
    assert (to_set(by_itself.first), worth_measuring(by_itself.last)) == ("", None)
    assert to_set(ring.first) == "NCCL_ALGO=allreduce:NVLSTree NCCL_PROTO=allreduce:Simple"
    assert worth_measuring(ring.first)
    assert by_itself.first.defaults.chosen != ring.last.defaults.chosen


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
