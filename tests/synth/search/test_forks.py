"""Work by several processes: what it makes is what one makes, whatever happens to a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import psutil  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patience import until
from results.speedup.perfect import Several, perfectly
from synth.search import forks
from synth.search.forks import FORKS, GUESSES, BackgroundWork, map_in_forks, processors

FORKED = pytest.mark.skipif(not FORKS, reason="processes cannot be forks here")
HERE = os.getpid()
OTHERS: set[int] = set()
"""Processes that tests of other modules left to their fixtures."""


@pytest.fixture(autouse=True)
def _only_the_first_is_done_here() -> Iterator[None]:
    OTHERS.update(children())
    with patch.object(forks, "WORTH_SECONDS", 0):
        yield


def children() -> set[int]:
    return {one.pid for one in psutil.Process().children()} - OTHERS


@settings(max_examples=20)  # each begins processes
@given(st.lists(st.integers(), max_size=6), st.integers(1, 4), st.booleans())
def test_results_are_those_of_one_process_in_order(
    items: list[int], processes: int, guessed: bool
) -> None:
    known = {one: str(one) for one in items}
    found = map_in_forks(known.__getitem__, items, Several(processes), guessed=guessed)
    assert [*found] == [*map(str, items)]
    assert not children()


def test_quick_work_starts_no_process() -> None:
    with patch.object(forks, "WORTH_SECONDS", 3600):
        assert {*map_in_forks(lambda item: os.getpid(), range(100), Several(8))} == {HERE}


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

    found = [*map_in_forks(work, [1, 2, 3], Several(2))]
    assert found[0] == HERE
    assert len({*found}) == 3


@FORKED
def test_what_a_process_found_out_it_knows_for_the_next() -> None:
    known: list[int] = []

    def work(item: int) -> int:
        known.append(item)
        return len(known)

    found = [*map_in_forks(work, [*range(9)], Several(2))]
    assert found[0] == 1
    assert max(found) >= 1 + 8 / 2


@FORKED
def test_new_knowledge_reaches_new_forks() -> None:
    """Item 5 comes with something that every fork would have to find out for itself."""
    learnt: list[int] = []

    def coming() -> Iterator[int]:
        for item in range(10):
            if item == 5:
                learnt.append(item)
            yield item

    found = map_in_forks(lambda _: len(learnt), coming(), Several(2), known=lambda: len(learnt))
    assert [*found] == [0] * 5 + [1] * 5


@FORKED
def test_an_item_is_asked_for_when_it_is_begun() -> None:
    """So it can hold what is known by then."""
    seen: list[int] = []

    def coming() -> Iterator[int]:
        for _ in range(30):
            yield len(seen)

    for one in map_in_forks(lambda known: known, coming(), Several(2), guessed=True):
        seen.append(one)
    assert all(known >= number - 1 - number // GUESSES for number, known in enumerate(seen))


@FORKED
def test_items_may_come_of_results() -> None:
    """Each result below 40 asks for twice and thrice itself; None waits for more results."""
    wanted, seen, asked = [1], [], 0

    def coming() -> Iterator[int | None]:
        nonlocal asked
        while asked < len(wanted) or len(seen) < asked:
            asked += (more := asked < len(wanted))
            yield wanted[asked - 1] if more else None

    for one in map_in_forks(lambda item: item, coming(), Several(3)):
        seen.append(one)
        wanted.extend([2 * one, 3 * one] if one < 40 else [])
    assert len(seen) == len(wanted)
    assert seen == wanted


@FORKED
def test_pieces_of_killed_processes_are_done_here() -> None:
    def work(item: int) -> int:
        if os.getpid() != HERE and item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * item

    assert [*map_in_forks(work, [1, 2, 3], Several(2))] == [10, 20, 30]


@FORKED
def test_where_no_process_can_be_begun_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert [*map_in_forks(lambda item: (item, os.getpid()), range(5), Several(2))] == [
        (item, HERE) for item in range(5)
    ]


def test_what_goes_wrong_first_is_raised_here() -> None:
    """Though what goes wrong later may be known before."""

    def work(item: float) -> float:
        if item == 0.5:
            time.sleep(0.2)
            raise KeyError
        return 1 / item

    found = map_in_forks(work, [1, 0.5, 0, 2], Several(2))
    assert next(found) == 1
    with pytest.raises(KeyError):
        next(found)


@FORKED
def test_nothing_goes_on_that_nobody_waits_for() -> None:
    """The third would never end."""

    def work(item: int) -> int:
        if item == 3:
            signal.pause()
        return os.getpid()

    found = map_in_forks(work, [1, 2, 3, 4], Several(2))
    assert next(found) == HERE
    assert next(found) != HERE
    assert children()
    found.close()  # type: ignore[attr-defined]
    assert not children()


class Patient(Several):
    """Is to stop once it was asked so often."""

    def __init__(self, processes: int, often: int) -> None:
        super().__init__(processes)
        self.left = often

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


@FORKED
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("often", [0, 1, 3])
def test_a_stop_ends_it_though_others_are_at_work(processes: int, often: int) -> None:
    def work(item: int) -> int:
        if os.getpid() != HERE:
            signal.pause()
        return item

    found = [*map_in_forks(work, range(9), Patient(processes, often))]
    assert found == [*range(1 if processes > 1 else 1 + often)]
    assert not children()


ORPHANS = """
import os, signal, sys
from synth.search import forks
forks.WORTH_SECONDS = 0
class Two:
    processes = 2
    def go_on(self):
        return True
def work(item):
    if item:
        print(os.getpid(), flush=True)
        while True:
            pass
list(forks.map_in_forks(work, [0, 1, 2], Two()))
"""


@FORKED
def test_forks_end_with_the_process_that_forked_them() -> None:
    """However it ends, and though they are in the middle of an item."""
    root = Path(forks.__file__).parents[2]
    words = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_there_is_a_processor() -> None:
    assert processors() >= 1


# How much is begun, and how soon all is done.


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=200),
    st.integers(0, 200),
    st.sampled_from([1, 2, 8, 64, 100]),
)
def test_guesses_in_vain_are_at_most_one_in_five(
    costs: list[int], needed: int, processes: int
) -> None:
    """What the first ``needed`` come to makes all others needless."""
    spent, told, begun = 0, 0, 0

    def coming() -> Iterator[int]:
        for number in range(len(costs)):
            if told >= max(1, needed):
                return
            yield number

    def work(number: int) -> int:
        nonlocal spent, begun
        spent, begun = spent + costs[number], begun + 1
        return number

    with perfectly(lambda: spent, 10):
        for _ in map_in_forks(work, coming(), Several(processes), guessed=True):
            told += 1
    least = min(len(costs), max(1, needed))
    assert least <= begun <= least + least // GUESSES


@pytest.mark.parametrize(("processes", "share"), [(2, 0.95), (8, 0.8), (64, 0.5)])
@pytest.mark.parametrize(("guessed", "items"), [(False, 1500), (True, 4500)])
def test_many_items_keep_perfect_processes_busy(
    processes: int, share: float, guessed: bool, items: int
) -> None:
    """Items of very unlike costs. Guesses need more of them: 64 are at work after 320 results."""
    costs = [1 + number % 7 for number in range(items)]
    total, spent = sum(costs), 0

    def work(number: int) -> int:
        nonlocal spent
        spent += costs[number]
        return number

    with perfectly(lambda: spent, 8) as clock:
        found = [*map_in_forks(work, iter(range(len(costs))), Several(processes), guessed=guessed)]
        assert found == [*range(len(costs))]
        assert spent == total
        assert total / clock.now() >= share * processes


def test_few_large_items_share_the_processes() -> None:
    """Two items for eight processes: each may use four for parts of its own."""
    spent = 0

    def part(number: int) -> int:
        nonlocal spent
        spent += 1
        return number

    def work(number: int) -> int:
        return sum(map_in_forks(part, range(100), Several(8)))

    with perfectly(lambda: spent, 1) as clock:
        assert [*map_in_forks(work, range(3), Several(8))] == [4950] * 3
        assert clock.now() <= 1.25 * 300 / 8


def test_forks_of_forks_are_on_the_same_clock() -> None:
    """Four processes, two for each item: 3 and then 4 beside 5, and 4 beside 6."""
    spent = 0

    def part(cost: int) -> int:
        nonlocal spent
        spent += cost
        return cost

    def work(costs: list[int]) -> list[int]:
        return [*map_in_forks(part, costs, Several(4), at_once=True)]

    some = [[3, 5, 4], [4, 6]]
    with perfectly(lambda: spent, 0) as clock:
        assert [*map_in_forks(work, some, Several(4), at_once=True)] == some
        assert (clock.now(), spent) == (7, 22)


# What is done meanwhile.


@pytest.mark.parametrize("processes", [1, 2])
def test_background_work_matches_the_work_of_its_caller(processes: int) -> None:
    with BackgroundWork(lambda: [os.getpid(), 7], Several(processes)) as rest:
        found = rest.result()
        assert rest.processes == processes
    assert found[1] == 7
    assert (found[0] == HERE) == (processes == 1 or not FORKS)
    assert not children()


@FORKED
def test_what_dies_meanwhile_is_done_by_its_caller() -> None:
    def work() -> int:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    with BackgroundWork(work, Several(2)) as rest:
        assert rest.result() == 7


@FORKED
def test_jobs_without_a_client_are_ended() -> None:
    with BackgroundWork(signal.pause, Several(2)):
        assert children()
    assert not children()


@FORKED
def test_processes_that_are_done_meanwhile_are_for_the_rest() -> None:
    """Of three one does other work until a fork tells it to end."""
    ends = os.pipe()

    def work(item: int) -> int:
        if item == 3:
            os.write(ends[1], b"x")
        return os.getpid()

    with BackgroundWork(lambda: os.read(ends[0], 1), Several(3)) as rest:
        assert len({*map_in_forks(work, range(9), rest)}) >= 3
        assert rest.result() == b"x"
        assert rest.processes == 3


@FORKED
def test_forks_that_begin_at_once_are_as_many_as_may_work() -> None:
    """One beside other work; two once a fork has told that to end. None of it is done here."""
    ends = os.pipe()

    def work(item: int) -> int:
        if item == 1:
            os.write(ends[1], b"x")
        return os.getpid()

    with BackgroundWork(lambda: os.read(ends[0], 1), Several(2)) as rest:
        assert rest.processes == 1
        found = [*map_in_forks(work, range(9), rest, at_once=True)]
        assert rest.result() == b"x"
        assert rest.processes == 2
    assert HERE not in found
    assert found[0] == found[1]
    assert len({*found}) <= 2


@FORKED
def test_pieces_ended_early_no_longer_run() -> None:
    with BackgroundWork(signal.pause, Several(2)) as rest:
        assert rest.processes == 1
    assert rest.processes == 2
