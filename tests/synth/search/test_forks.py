"""Work by several processes: what it makes is what one makes, whatever happens to a process."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.search.forks import FORKS, forked, processors

FORKED = pytest.mark.skipif(not FORKS, reason="processes cannot be forks here")
HERE = os.getpid()


@settings(max_examples=20)  # each begins processes
@given(st.lists(st.integers(), max_size=6), st.integers(1, 4))
def test_results_are_those_of_one_process_in_order(items: list[int], processes: int) -> None:
    known = {one: str(one) for one in items}
    assert [*forked(known.__getitem__, items, processes)] == [*map(str, items)]


@FORKED
def test_the_first_is_done_here_and_others_by_several() -> None:
    """Each fork waits until the other has begun."""
    ends = os.pipe()

    def work(item: int) -> int:
        if item == 2:
            os.read(ends[0], 1)
        if item == 3:
            os.write(ends[1], b"x")
        return os.getpid()

    found = [*forked(work, [1, 2, 3], 2)]
    assert found[0] == HERE
    assert len({*found}) == 3


@FORKED
def test_what_a_process_found_out_it_knows_for_the_next() -> None:
    known: list[int] = []

    def work(item: int) -> int:
        known.append(item)
        return len(known)

    found = [*forked(work, [*range(9)], 2)]
    assert found[0] == 1
    assert max(found) >= 1 + 8 / 2


@FORKED
def test_what_is_killed_is_done_here() -> None:
    def work(item: int) -> int:
        if os.getpid() != HERE and item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * item

    assert [*forked(work, [1, 2, 3], 2)] == [10, 20, 30]


def test_what_goes_wrong_is_raised_here() -> None:
    def work(item: int) -> float:
        return 1 / item

    found = forked(work, [1, 0, 2, 3], 2)
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)


@FORKED
def test_nothing_goes_on_that_nobody_waits_for() -> None:
    """The third would never end."""

    def work(item: int) -> int:
        if item == 3:
            signal.pause()
        return os.getpid()

    before = set(active_children())
    found = forked(work, [1, 2, 3, 4], 2)
    assert next(found) == HERE
    assert next(found) != HERE
    assert set(active_children()) - before
    found.close()  # type: ignore[attr-defined]
    assert not set(active_children()) - before


def test_there_is_a_processor() -> None:
    assert processors() >= 1
