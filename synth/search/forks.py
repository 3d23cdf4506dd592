"""The same work on many items, by several processes of this machine.

The first item is worked on here; then processes are forked, which know all that this one knows by
then, and each takes one item after the other, so that what it finds out serves those that follow.
Nothing but a number and a result travels. Results come in the order of the items; what they are
does not depend on how many processes there were.

>>> [*forked(lambda number: number * number, [1, 2, 3, 4], processes=2)]
[1, 4, 9, 16]
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 8
"""So many processes at once: each may need as much memory as this one."""

FORKS = "fork" in get_all_start_methods() and sys.platform != "darwin"
"""Whether processes can be forks. Where they cannot, all is done in this one."""


def processors() -> int:
    """How many processors this process may use, up to ``MOST``."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return min(MOST, count)


def forked(work: Callable[[T], R], items: Sequence[T], processes: int) -> Iterator[R]:
    """What ``work`` makes of each item, which must be such that it can be pickled.

    An item whose process ends without a word is worked on here, so what ``work`` raises is raised
    here, and what the system killed for its memory is tried again. Processes that still work when
    nobody asks for more are ended.
    """
    if not FORKS or processes < 2 or len(items) < 3:
        yield from map(work, items)
        return
    yield work(items[0])
    told: dict[int, R] = {}
    coming = iter(range(1, len(items)))
    with _forks(work, items, min(processes, len(items) - 1)) as idle:
        at_work: dict[Connection, int] = {}
        for number in range(1, len(items)):
            while number not in told:
                for place in islice(coming, len(idle) or not at_work):
                    if idle and (one := _sent(idle.pop(), place)):
                        at_work[one] = place
                    else:
                        told[place] = work(items[place])
                for ready in wait([*at_work], timeout=None if at_work else 0):
                    assert isinstance(ready, Connection)
                    place = at_work.pop(ready)
                    try:
                        told[place] = ready.recv()
                        idle.append(ready)
                    except EOFError:
                        told[place] = work(items[place])
            yield told.pop(number)


@contextmanager
def _forks(work: Callable[[T], R], items: Sequence[T], count: int) -> Iterator[list[Connection]]:
    """So many processes that wait for the number of an item each; they are ended in the end."""
    context = get_context("fork")
    forks: list[tuple[Connection, BaseProcess]] = []
    try:
        for _ in range(count):
            here, there = context.Pipe()
            others = [here, *(one for one, _ in forks)]
            told = (work, items, there, others)
            process: BaseProcess = context.Process(target=_take, args=told, daemon=True)
            with warnings.catch_warnings():
                # JAX warns of forks, as its own threads would be missing: forks do not call it.
                warnings.simplefilter("ignore", RuntimeWarning)
                process.start()
            there.close()
            forks.append((here, process))
        yield [one for one, _ in forks]
    finally:
        for connection, process in forks:
            process.kill()
            process.join()
            connection.close()


def _take(
    work: Callable[[T], R], items: Sequence[T], own: Connection, others: Sequence[Connection]
) -> None:
    """What a process does: Ctrl-C is for the first one to hear, and so is what goes wrong.

    Without the ends of ``others`` it hears when that one is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for one in others:
        one.close()
    with suppress(Exception):
        while True:
            own.send(work(items[own.recv()]))


def _sent(connection: Connection, place: int) -> Connection | None:
    """The connection, if somebody is there to take the number."""
    try:
        connection.send(place)
    except OSError:
        return None
    return connection
