"""Maps a function over a queue of items in forked processes of this machine.

The first items are processed in this process, until the rest may be worth a fork. Then processes
are forked, which inherit all state of this process, and each takes one item after another, so that
its caches serve its later items. An item is drawn only when a process is free to begin it, so it
can contain recent results, such as the k-th price so far. Only items and results are sent. Results
come in the order of the items and do not depend on the number of processes.

>>> class Two:
...     processes = 2
...
...     def go_on(self) -> bool:
...         return True
>>> [*map_in_forks(lambda number: number * number, [1, 2, 3, 4], Two())]
[1, 4, 9, 16]
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe, get_all_start_methods
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from time import thread_time as clock
from typing import Any, Generic, NoReturn, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 8
"""The most processors used unless a caller says more: each process may need as much memory."""

FORKS = "fork" in get_all_start_methods() and sys.platform != "darwin"
"""Whether processes can be forked. If not, all work is done in this process."""

WORTH_SECONDS = 0.25
"""Seconds of work done in this process first: work that has taken this long may well take as long
again, and starting processes costs a tenth of it.
"""

GUESSES = 5
"""Where later items may prove unnecessary, one extra item is begun for this many results."""

_LOOK_SECONDS = 0.1
"""How often to ask whether to go on while forks work."""

_share: int | None = None
"""In a fork: how many processes may work for its item, itself included."""


class WorkControl(Protocol):
    """The owner of work: up to ``processes`` may work at the moment, while ``go_on`` is True."""

    @property
    def processes(self) -> int: ...

    def go_on(self) -> bool: ...


def processors() -> int:
    """Returns how many processors this process may use, up to ``MOST``."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return min(MOST, count)


def map_in_forks(
    work: Callable[[T], R],
    items: Iterable[T | None],
    control: WorkControl,
    *,
    guessed: bool = False,
    known: Callable[[], int] = lambda: 0,
    at_once: bool = False,
) -> Iterator[R]:
    """Yields ``work(item)`` for each item in order; items and results must be picklable.

    An item may be None: more items may follow once more results were taken. The first item is
    always processed; once ``go_on`` of the control is False, no more results come. ``guessed``: a
    result may make all later items unnecessary, and then ``items`` ends; so few items are begun
    early that at most one in ``GUESSES`` is wasted. ``known`` grows as this process computes what
    forks would otherwise compute again: further items then go to fresh forks. ``at_once``: the work
    is known to be worth forking, so forks begin with the first item, even if only one may work yet.

    An item whose process dies is processed in this process: an exception of ``work`` is then raised
    here, and work that the system killed for lack of memory is tried again. Processes still working
    when the generator is closed are killed.
    """
    coming, done, spent = iter(items), 0, 0.0
    first = GUESSES if guessed else 1  # with fewer results no two items would be begun at once
    while not at_once and (
        done < first or spent < WORTH_SECONDS or _allowed_processes(control) < 2
    ):
        begun = clock()
        item = next(coming, None)
        if item is None or (done and not control.go_on()):
            return
        found = work(item)
        spent += clock() - begun
        yield found
        done += 1
    left = len(items) - done if isinstance(items, Sequence) else None
    with closing(Team(work, known)) as team:
        yield from _results_of_team(team, coming, control, _LookAhead(done, left, guessed))


def is_parallel(control: WorkControl) -> bool:
    """Whether more than one process may work at the moment."""
    return _allowed_processes(control) > 1


def _allowed_processes(control: WorkControl) -> int:
    if not FORKS:
        return 1
    return control.processes if _share is None else min(_share, control.processes)


@dataclass
class _LookAhead:
    """The number of items to begin before earlier results are known. Mutable.

    ``done`` results were yielded; ``left`` items follow, None if unknown.
    """

    done: int
    left: int | None
    guessed: bool
    begun: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.done

    @property
    def room(self) -> bool:
        """Whether another item may be begun."""
        return not self.guessed or self.begun - self.done < 1 + self.done // GUESSES

    def share(self, processes: int) -> int:
        """Returns how many processes may work for the next item, so that none is idle."""
        return 1 if self.left is None else max(1, processes // max(1, self.left))

    def count_result(self) -> None:
        """Counts a result that was yielded."""
        self.done += 1
        self.left = None if self.left is None else self.left - 1


def _results_of_team(
    team: Team[T, R], coming: Iterator[T | None], control: WorkControl, ahead: _LookAhead
) -> Iterator[R]:
    """Yields a team's results for the coming items, in order."""
    results: dict[int, R] = {}
    while True:
        processes = max(1, _allowed_processes(control))
        while team.busy < processes and ahead.room and (item := next(coming, None)) is not None:
            team.begin(ahead.begun, item, ahead.share(processes))
            ahead.begun += 1
        if ahead.done == ahead.begun or not control.go_on():
            return
        if ahead.done in results:
            yield results.pop(ahead.done)
        elif ahead.done in team.lost:
            yield team.work(team.lost.pop(ahead.done))
        else:
            results |= team.collect()
            continue
        ahead.count_result()


class Team(Generic[T, R]):
    """Processes that are forked as they are needed. Mutable; ``close`` ends them.

    ``lost`` are items, by their places, whose process died or could not be started.
    """

    def __init__(self, work: Callable[[T], R], known: Callable[[], int]) -> None:
        self.work = work
        self._known = known
        self.lost: dict[int, T] = {}
        self._idle: list[_Fork] = []
        self._at_work: dict[Connection[Any, Any], tuple[_Fork, int, T]] = {}

    @property
    def busy(self) -> int:
        """How many items are being processed."""
        return len(self._at_work)

    def begin(self, place: int, item: T, share: int) -> None:
        """Starts work on an item, for which ``share`` processes may work."""
        while self._idle and self._idle[-1].known < self._known():
            self._idle.pop().end()
        try:
            fork = self._idle.pop() if self._idle else self._start_fork()
        except OSError:  # no more processes, or no memory for one
            self.lost[place] = item
            return
        with suppress(OSError):  # a dead fork is noticed in ``collect``
            fork.pipe.send((share, item))
        self._at_work[fork.pipe] = fork, place, item

    def collect(self, seconds: float = _LOOK_SECONDS) -> dict[int, R]:
        """Returns the results that arrive within ``seconds``, by their places."""
        found: dict[int, R] = {}
        for ready in wait([*self._at_work], seconds):
            assert isinstance(ready, Connection)
            fork, place, item = self._at_work.pop(ready)
            try:
                found[place] = ready.recv()
                self._idle.append(fork)
            except (EOFError, OSError):
                fork.end()
                self.lost[place] = item
        return found

    def close(self) -> None:
        """Kills all processes."""
        for fork in (*self._idle, *(busy for busy, *_ in self._at_work.values())):
            fork.end()
        self._idle.clear()
        self._at_work.clear()

    def _start_fork(self) -> _Fork:
        here, there = Pipe()
        others = [here, *(fork.pipe for fork in self._idle), *self._at_work]
        with warnings.catch_warnings():
            # JAX warns that forks lack its threads; these forks never call JAX.
            warnings.simplefilter("ignore", RuntimeWarning)
            pid = os.fork()
        if not pid:
            _serve(self.work, there, others)
        there.close()
        return _Fork(pid, here, self._known())


class BackgroundWork(Generic[R]):
    """Work that a fork does while its caller does other work. Mutable context manager.

    It is also the control of the caller's other work. If no second process may work, or the fork
    dies, ``result`` does the work itself.
    """

    def __init__(self, work: Callable[[], R], control: WorkControl) -> None:
        self._work, self._control = work, control
        self._team: Team[None, R] = Team(lambda _: work(), lambda: 0)
        self._found: dict[int, R] = {}

    def __enter__(self) -> BackgroundWork[R]:
        if is_parallel(self._control):
            self._team.begin(0, None, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._team.close()

    @property
    def processes(self) -> int:
        """The number of processes that the other work may use."""
        if self._team.busy:
            self._found |= self._team.collect(0.0)
        return max(1, self._control.processes - self._team.busy)

    def go_on(self) -> bool:
        """Whether the work may go on."""
        return self._control.go_on()

    def result(self) -> R:
        """Returns the result of the work."""
        while self._team.busy and self._control.go_on():
            self._found |= self._team.collect()
        return self._found[0] if self._found else self._work()


@dataclass(frozen=True)
class _Fork:
    """A process, the parent's end of its pipe, and the value of ``known`` when it was forked."""

    pid: int
    pipe: Connection[Any, Any]
    known: int

    def end(self) -> None:
        """Kills the process."""
        self.pipe.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(
    work: Callable[[T], R], own: Connection[Any, Any], others: Sequence[Connection[Any, Any]]
) -> NoReturn:
    """Runs a fork. Ctrl-C is left to the parent, and an error here is raised again there.

    Closing the inherited ends of ``others`` lets the fork notice that the parent is gone, and
    exit.
    """
    global _share
    try:
        gc.freeze()  # a collection of the parent's objects would copy their pages
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for connection in others:
            connection.close()
        coming: SimpleQueue[tuple[int, T]] = SimpleQueue()
        # Read in a thread: the fork notices a dead parent even while it works.
        threading.Thread(target=_take_items, args=(own, coming), daemon=True).start()
        while True:
            _share, item = coming.get()
            own.send(work(item))
    except BaseException:
        os._exit(1)


def _take_items(own: Connection[Any, Any], coming: SimpleQueue[Any]) -> None:
    """Queues items until the parent is gone."""
    with suppress(EOFError, OSError):
        while True:
            coming.put(own.recv())
    os._exit(0)
