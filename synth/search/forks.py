"""The same work on many items, by several processes of this machine.

Each item has a process of its own, a fork: it knows all that this one knows, so that nothing but
its result travels, and it is gone when that is told. Results come in the order of the items; what
they are does not depend on how many processes there were.

>>> [*forked(lambda number: number * number, [1, 2, 3, 4], processes=2)]
[1, 4, 9, 16]
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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

    A process that ends without a word is done without: its item is worked on here, so what ``work``
    raises is raised here, and what the system killed for its memory is tried again. Those that
    still work when nobody asks for more are ended.
    """
    if not FORKS or processes < 2 or len(items) < 2:
        yield from map(work, items)
        return
    at_work: dict[Connection, tuple[int, BaseProcess]] = {}
    told: dict[int, R] = {}
    coming = iter(enumerate(items))
    try:
        for number in range(len(items)):
            while number not in told:
                for place, item in islice(coming, processes - len(at_work)):
                    connection, process = _begun(work, item)
                    at_work[connection] = place, process
                for ready in wait([*at_work]):
                    assert isinstance(ready, Connection)
                    place, process = at_work.pop(ready)
                    told[place] = _heard(ready, work, items[place])
                    process.join()
            yield told.pop(number)
    finally:
        for connection, (_, process) in at_work.items():
            process.kill()
            process.join()
            connection.close()


def _begun(work: Callable[[T], R], item: T) -> tuple[Connection, BaseProcess]:
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(work, item, there), daemon=True)
    with warnings.catch_warnings():
        # JAX warns of forks, as its own threads would be missing: forks here do not call it.
        warnings.simplefilter("ignore", RuntimeWarning)
        process.start()
    there.close()
    return here, process


def _tell(work: Callable[[T], R], item: T, connection: Connection) -> None:
    """What a process does: Ctrl-C is for the first one to hear, and so is what goes wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(Exception):
        connection.send(work(item))


def _heard(connection: Connection, work: Callable[[T], R], item: T) -> R:
    try:
        told: R = connection.recv()
    except EOFError:
        return work(item)
    finally:
        connection.close()
    return told
