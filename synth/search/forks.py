"""The same work on many items, by several processes of this machine: one queue, taken in order.

The first items are worked on here, until what is left may be worth a process; then processes are
forked, which know all that this one knows by then, and each takes one item after the other, so that
what it finds out serves those that follow. An item is asked for when somebody is free to begin it:
it may hold what is known by then, as the k-th price so far. Nothing but items and results travels.
Results come in the order of the items; what they are does not depend on how many processes there
were.

>>> class Two:
...     processes = 2
...
...     def go_on(self) -> bool:
...         return True
>>> [*forked(lambda number: number * number, [1, 2, 3, 4], Two())]
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
"""So many processors are used unless a caller says more: each process may need as much memory."""

FORKS = "fork" in get_all_start_methods() and sys.platform != "darwin"
"""Whether processes can be forks. Where they cannot, all is done in this one."""

WORTH_SECONDS = 0.25
"""So long items are worked on here first: what has taken as long may well take as long again, and
to begin processes costs a tenth of that."""

GUESSES = 5
"""Where later items may turn out needless, one is begun beyond the next for so many results."""

_LOOK_SECONDS = 0.1
"""How often to ask whether to go on while others work."""

_share: int | None = None
"""In a fork: how many processes may work for its item, itself among them."""


class WorkControl(Protocol):
    """For whom work is done: ``processes`` may do so at the moment, as long as ``go_on``."""

    @property
    def processes(self) -> int: ...

    def go_on(self) -> bool: ...


def processors() -> int:
    """How many processors this process may use, up to ``MOST``."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return min(MOST, count)


def map_in_forks(
    work: Callable[[T], R],
    items: Iterable[T | None],
    crew: WorkControl,
    *,
    guessed: bool = False,
    known: Callable[[], int] = lambda: 0,
    at_once: bool = False,
) -> Iterator[R]:
    """What ``work`` makes of each item; items and results must be such that they can be pickled.

    None instead of an item: there may be more once more results are told. The first is always
    worked on; once the crew is not to go on, no more comes. ``guessed``: what comes of an item may
    make all later ones needless, then ``items`` is to end. So few are begun before that is known
    that, of all that are, at most one in ``GUESSES`` is in vain. ``known`` grows as this process
    learns what others would have to find out for themselves: what follows is for fresh forks.
    ``at_once``: what is to be done is known to be worth it, so forks begin with the first item,
    even if only one may work yet.

    An item whose process ends without a word is worked on here, so what ``work`` raises is raised
    here, and what the system killed for its memory is tried again. Processes that still work when
    nobody asks for more are ended.
    """
    coming, done, spent = iter(items), 0, 0.0
    first = GUESSES if guessed else 1  # before that no two would be begun at once
    while not at_once and (done < first or spent < WORTH_SECONDS or _allowed_processes(crew) < 2):
        begun = clock()
        item = next(coming, None)
        if item is None or (done and not crew.go_on()):
            return
        found = work(item)
        spent += clock() - begun
        yield found
        done += 1
    left = len(items) - done if isinstance(items, Sequence) else None
    with closing(Team(work, known)) as team:
        yield from _results_of_team(team, coming, crew, _LookAhead(done, left, guessed))


def is_parallel(crew: WorkControl) -> bool:
    """Whether more than one may work at the moment."""
    return _allowed_processes(crew) > 1


def _allowed_processes(crew: WorkControl) -> int:
    """How many processes may work."""
    if not FORKS:
        return 1
    return crew.processes if _share is None else min(_share, crew.processes)


@dataclass
class _LookAhead:
    """How far items are begun before results are told. Mutable.

    ``done`` are told; ``left``: how many there are beyond those, where that is known.
    """

    done: int
    left: int | None
    guessed: bool
    begun: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.done

    @property
    def room(self) -> bool:
        """Whether one more may be begun."""
        return not self.guessed or self.begun - self.done < 1 + self.done // GUESSES

    def share(self, processes: int) -> int:
        """How many processes may work for the next item, so that none idles for want of items."""
        return 1 if self.left is None else max(1, processes // max(1, self.left))

    def told(self) -> None:
        """One more is told."""
        self.done += 1
        self.left = None if self.left is None else self.left - 1


def _results_of_team(
    team: Team[T, R], coming: Iterator[T | None], crew: WorkControl, ahead: _LookAhead
) -> Iterator[R]:
    """What a team makes of the items that are to come, in their order."""
    told: dict[int, R] = {}
    while True:
        processes = max(1, _allowed_processes(crew))
        while team.busy < processes and ahead.room and (item := next(coming, None)) is not None:
            team.begin(ahead.begun, item, ahead.share(processes))
            ahead.begun += 1
        if ahead.done == ahead.begun or not crew.go_on():
            return
        if ahead.done in told:
            yield told.pop(ahead.done)
        elif ahead.done in team.lost:
            yield team.work(team.lost.pop(ahead.done))
        else:
            told |= team.ended()
            continue
        ahead.told()


class Team(Generic[T, R]):
    """Processes that are forked as they are needed. Mutable; ``close`` ends them.

    ``lost`` are items, by their places, whose process ended without a word or could not begin.
    """

    def __init__(self, work: Callable[[T], R], known: Callable[[], int]) -> None:
        self.work = work
        self._known = known
        self.lost: dict[int, T] = {}
        self._idle: list[_Fork] = []
        self._at_work: dict[Connection[Any, Any], tuple[_Fork, int, T]] = {}

    @property
    def busy(self) -> int:
        """How many items are worked on."""
        return len(self._at_work)

    def begin(self, place: int, item: T, share: int) -> None:
        """Work on an item; ``share``: how many processes may work for it."""
        while self._idle and self._idle[-1].known < self._known():
            self._idle.pop().end()
        try:
            fork = self._idle.pop() if self._idle else self._forked()
        except OSError:  # no more processes, or no memory for one
            self.lost[place] = item
            return
        with suppress(OSError):  # else it is heard of as one that ended without a word
            fork.pipe.send((share, item))
        self._at_work[fork.pipe] = fork, place, item

    def ended(self, seconds: float = _LOOK_SECONDS) -> dict[int, R]:
        """What items came to that have ended by now, by their places; nothing after a while."""
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
        """End all processes."""
        for fork in (*self._idle, *(one for one, *_ in self._at_work.values())):
            fork.end()
        self._idle.clear()
        self._at_work.clear()

    def _forked(self) -> _Fork:
        here, there = Pipe()
        others = [here, *(one.pipe for one in self._idle), *self._at_work]
        with warnings.catch_warnings():
            # JAX warns of forks, as its own threads would be missing: forks do not call it.
            warnings.simplefilter("ignore", RuntimeWarning)
            pid = os.fork()
        if not pid:
            _serve(self.work, there, others)
        there.close()
        return _Fork(pid, here, self._known())


class BackgroundWork(Generic[R]):
    """Some work that a fork does while its caller does other. Mutable; to be left, which ends it.

    It is the crew that is left for the other work. Where no second process may work, or the fork
    ends without a word, the caller does it when it asks for what came of it.
    """

    def __init__(self, work: Callable[[], R], crew: WorkControl) -> None:
        self._work, self._crew = work, crew
        self._team: Team[None, R] = Team(lambda _: work(), lambda: 0)
        self._found: dict[int, R] = {}

    def __enter__(self) -> BackgroundWork[R]:
        if is_parallel(self._crew):
            self._team.begin(0, None, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._team.close()

    @property
    def processes(self) -> int:
        """How many may work beside it."""
        if self._team.busy:
            self._found |= self._team.ended(0.0)
        return max(1, self._crew.processes - self._team.busy)

    def go_on(self) -> bool:
        """Whether the crew is to."""
        return self._crew.go_on()

    def result(self) -> R:
        """What came of it."""
        while self._team.busy and self._crew.go_on():
            self._found |= self._team.ended()
        return self._found[0] if self._found else self._work()


@dataclass(frozen=True)
class _Fork:
    """A process, our end of its pipe, and how much was known when it was forked."""

    pid: int
    pipe: Connection[Any, Any]
    known: int

    def end(self) -> None:
        """Kill it."""
        self.pipe.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(
    work: Callable[[T], R], own: Connection[Any, Any], others: Sequence[Connection[Any, Any]]
) -> NoReturn:
    """What a fork does: Ctrl-C is for the first process to hear, and so is what goes wrong.

    Without the ends of ``others`` it hears when that one is gone, and ends at once.
    """
    global _share
    try:
        gc.freeze()  # what was there before is not its to collect
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for one in others:
            one.close()
        coming: SimpleQueue[tuple[int, T]] = SimpleQueue()
        threading.Thread(target=_take_items, args=(own, coming), daemon=True).start()
        while True:
            _share, item = coming.get()
            own.send(work(item))
    except BaseException:
        os._exit(1)


def _take_items(own: Connection[Any, Any], coming: SimpleQueue[Any]) -> None:
    """Take items until nobody is there to send any."""
    with suppress(EOFError, OSError):
        while True:
            coming.put(own.recv())
    os._exit(0)
