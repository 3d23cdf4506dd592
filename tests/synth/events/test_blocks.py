"""Blocks timed once against the same graph written out: equal where they hold, else above."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.events.blocks import Block, composed, expanded

QUARTERS = st.integers(0, 12).map(lambda n: n / 4)
Graph = tuple[list[list[int]], list[list[int]], list[Block]]


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """Up to five tasks on two streams; its result are some of them, or all."""
    count = draw(st.integers(0, 5))
    before = tuple(
        tuple(sorted(draw(st.sets(st.integers(0, task - 1), max_size=2)))) if task else ()
        for task in range(count)
    )
    streams = tuple(draw(st.integers(0, 1)) for _ in range(count))
    result = draw(st.sets(st.integers(0, count - 1), max_size=2)) if count else set()
    return Block(streams, before, tuple(draw(QUARTERS) for _ in range(count)), tuple(result))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to six blocks, of three kinds, on two resources or on none."""
    kinds = [draw(blocks()) for _ in range(3)]
    chosen = [draw(st.sampled_from(kinds)) for _ in range(draw(st.integers(1, 6)))]
    before = [
        sorted(draw(st.sets(st.integers(0, place - 1), max_size=2))) if place else []
        for place in range(len(chosen))
    ]
    at = [draw(st.integers(0, 2)) for _ in chosen]
    queues = [[place for place in range(len(chosen)) if at[place] == one] for one in range(2)]
    return before, queues, chosen


@given(graphs())
def test_blocks_that_hold_their_resource_are_timed_once(graph: Graph) -> None:
    """Every task is when its block begins and as it is there alone; quarters are exact."""
    before, queues, chosen = graph
    begins, ends = composed(before, queues, chosen)
    flat = expanded(before, queues, chosen, holds=True)
    assert flat.seconds == max(ends)
    for begin, first, block in zip(begins, flat.firsts, chosen, strict=True):
        assert flat.times[0][first] == begin
        inside = slice(first + 1, first + 1 + len(block.seconds))
        for found, alone in zip(flat.times, block.times, strict=True):
            assert found[inside] == [begin + one for one in alone]


@given(graphs())
def test_composed_is_an_upper_bound_where_the_next_may_start_before(graph: Graph) -> None:
    before, queues, chosen = graph
    begins, ends = composed(before, queues, chosen)
    for holds in (True, False):
        flat = expanded(before, queues, chosen, holds=holds)
        assert flat.seconds <= max(ends)
        for begin, first, block in zip(begins, flat.firsts, chosen, strict=True):
            for task, alone in enumerate(block.times[1]):
                assert flat.times[1][first + 1 + task] <= begin + alone


def test_streams_are_a_resource_s_own() -> None:
    """Two blocks side by side on two resources, and one after the other on one."""
    block = Block((0, 1), ((), ()), (2.0, 3.0))
    for queues, seconds in (([[0], [1]], 3.0), ([[0, 1]], 6.0)):
        assert expanded([(), ()], queues, [block, block], holds=True).seconds == seconds


def test_no_tasks_take_no_time() -> None:
    assert expanded([], [], [], holds=True).seconds == 0.0
    assert Block((), (), ()).alone == 0.0


@pytest.mark.parametrize("holds", [True, False])
def test_what_waits_for_a_block_of_no_tasks_waits_for_what_is_before_it(holds: bool) -> None:
    busy = Block((0,), ((),), (2.0,))
    chain = [(), (0,), (1,)]
    assert (
        expanded(chain, [[0], [1], [2]], [busy, Block((), (), ()), busy], holds=holds).seconds == 4
    )
