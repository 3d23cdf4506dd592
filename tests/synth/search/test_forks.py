"""Work by several processes: what it makes is what one makes, whatever happens to a process."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.search.forks import FORKS, forked, processors

FORKED = pytest.mark.skipif(not FORKS, reason="processes cannot be forks here")
HERE = os.getpid()


@given(st.lists(st.integers(), max_size=6), st.integers(1, 4))
def test_results_are_those_of_one_process_in_order(items: list[int], processes: int) -> None:
    known = {one: str(one) for one in items}
    assert [*forked(known.__getitem__, items, processes)] == [*map(str, items)]


@FORKED
def test_each_item_has_a_process_of_its_own() -> None:
    found = [*forked(lambda _: os.getpid(), [1, 2, 3], 2)]
    assert len({HERE, *found}) == 4


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

    found = forked(work, [1, 0, 2], 2)
    assert next(found) == 1
    with pytest.raises(ZeroDivisionError):
        next(found)


@FORKED
def test_nothing_goes_on_that_nobody_waits_for() -> None:
    """The second would never end."""

    def work(item: int) -> int:
        if item == 2:
            signal.pause()
        return os.getpid()

    before = set(active_children())
    found = forked(work, [1, 2, 3], 2)
    assert next(found) != HERE
    assert set(active_children()) - before
    found.close()  # type: ignore[attr-defined]
    assert not set(active_children()) - before


def test_there_is_a_processor() -> None:
    assert processors() >= 1
