"""Processes that are not there: forked work done here, on a clock of its own, by any number."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any
from unittest.mock import patch

from synth.collective.ranking.request import Watcher
from synth.search import forks


class Several(Watcher):
    """Lets so many processes work."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    @property
    def processes(self) -> int:
        return self._processes


@dataclass
class Clock:
    """What is spent here, but for what is taken back, and what is waited for. Mutable."""

    spent: Callable[[], float]
    moved: float = field(init=False)

    def __post_init__(self) -> None:
        self.moved = -self.spent()

    def now(self) -> float:
        return self.spent() + self.moved

    def to(self, when: float) -> None:
        self.moved += when - self.now()


class Perfect:
    """A team whose processes begin and hear at once, and know at first what is known here.

    As in a fork, garbage is not looked for among what was there before: the one search in which
    that falls would be charged for what all have left.
    """

    def __init__(self, work: Callable[[Any], Any], clock: Clock) -> None:
        self.work = work
        self.lost: dict[int, Any] = {}
        self._clock = clock
        self._at_work: list[tuple[float, int, Any]] = []

    @property
    def busy(self) -> int:
        return len(self._at_work)

    def begin(self, place: int, item: Any, share: int) -> None:
        begun = self._clock.now()
        with frozen(), patch.object(forks, "_share", share):
            found = self.work(item)
        heappush(self._at_work, (self._clock.now(), place, found))
        self._clock.to(begun)

    def collect(self, seconds: float = 1.0) -> dict[int, Any]:
        if not seconds and self._at_work[0][0] > self._clock.now():
            return {}
        when, place, found = heappop(self._at_work)
        self._clock.to(max(when, self._clock.now()))
        return {place: found}

    def close(self) -> None:
        pass


@contextmanager
def frozen() -> Iterator[None]:
    """What is there is not looked through for garbage; in a fork's fork it is not, already."""
    first = forks._share is None
    if first:
        gc.freeze()
    try:
        yield
    finally:
        if first:
            gc.unfreeze()


@contextmanager
def perfectly(spent: Callable[[], float], worth: float) -> Iterator[Clock]:
    """Forks are perfect, and items worked on here first until ``worth`` is spent."""
    clock = Clock(spent)
    with (
        patch.object(forks, "Team", lambda work, known: Perfect(work, clock)),
        patch.object(forks, "clock", clock.now),
        patch.object(forks, "WORTH_SECONDS", worth),
        patch.object(forks, "FORKS", True),
    ):
        yield clock
