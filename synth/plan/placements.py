"""The best programs over all placements of a question, before they are replayed and proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from hierarchies import Placement, Reduction, System, check_axes, count_placements, placements
from synth.plan.candidates import CandidateSearch, Found
from synth.plan.distinct import Distinct
from synth.plan.library import Library
from synth.plan.request import Looked, Provisional, Request, Watcher, programs_text
from synth.price.defaults import defaults
from synth.price.resolution import Estimate
from synth.price.step_prices import Simulator
from synth.price.steps import TICKS_PER_SECOND, total_seconds


@dataclass(frozen=True)
class Placed:
    """An answer found, and the position of its placement among all of the question."""

    position: int
    distinct: Distinct[Found]

    @property
    def found(self) -> Found:
        """The program that is shown."""
        return self.distinct.what

    @property
    def key(self) -> tuple[int, int, tuple[str, ...], int]:
        """Ranks it among all: its price, number of steps, spellings, the order of placements."""
        return (*self.found.key, self.position)


@dataclass(frozen=True)
class BestPlaced:
    """The best programs of the placements looked at, in order, and how much was looked at."""

    best: tuple[Placed, ...]
    looked: Looked


def _kept(every: Iterable[Placed], request: Request) -> tuple[Placed, ...]:
    if request.per_placement:
        return tuple(sorted(every, key=lambda one: (one.position, one.key)))
    return tuple(sorted(every, key=lambda one: one.key)[: request.k])


def how_many(system: System, request: Request) -> int:
    """How many placements a question has. Raises InputError for axes that do not fit."""
    check_axes(system.hierarchy, request.axes)
    if request.placement is not None:
        return 1
    return count_placements(system.hierarchy, request.axes)


class PlacementSearch:
    """Prices the programs of one placement after the other and keeps the best. One use.

    Raises InputError for axes or placements that do not fit the system.
    """

    def __init__(
        self, simulator: Simulator, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._of = how_many(simulator.system, request)
        self._system = simulator.system
        self._request = request
        self._watcher = watcher
        self._library = library
        self._simulator = simulator
        self._search = CandidateSearch(
            library,
            self._simulator,
            request.payload_bytes,
            request.segments,
            stripes=request.stripes,
            go_on=self._go_on,
        )
        self._stopped = False

    def run(self) -> BestPlaced:
        """The best programs of all placements. The first of these is always looked at.

        Each placement is looked at in the order of its bound where only the best of all are asked
        for: once k answers are known, those whose bound is above the last of them need no search.
        """
        best: tuple[Placed, ...] = ()
        done, programs, default = 0, 0, 0.0
        for least, position, reduction in self._by_bound():
            if done and not self._go_on():
                break
            limit = self._limit(best)
            if limit is None or least <= limit:
                fresh = [Placed(position, one) for one in self._found(reduction, limit)]
                best = _kept([*best, *fresh], self._request)
                self._watcher.ranked(partial(self._so_far, best))
            seconds = self._default_seconds(reduction)
            default = seconds if not done else min(default, seconds)
            programs += self._library.count(len(reduction.tree.digits))
            done += 1
            self._watcher.placed(done, self._of)
        complete = self._library.complete and not self._stopped
        return BestPlaced(best, Looked(default, done, self._of, programs, complete))

    def _found(self, reduction: Reduction, limit: int | None) -> Sequence[Distinct[Found]]:
        """The best answers on one placement."""
        if self._request.exact:
            best = self._search.best(reduction, self._request.k, limit)
            return [Distinct(one, Estimate(one.ticks), 0, one.ticks) for one in best]
        return self._search.distinct(reduction, self._request.k, limit)

    def _limit(self, best: tuple[Placed, ...]) -> int | None:
        """The price that another answer may not exceed; None where there is no such."""
        if self._request.per_placement or len(best) < self._request.k:
            return None
        return best[-1].found.ticks

    def _by_bound(self) -> Iterable[tuple[int, int, Reduction]]:
        """Each placement's bound in ticks, its position and reduction."""
        request, found = self._request, []
        for position, placement in enumerate(self._placements()):
            reduction = Reduction(placement, request.over, request.collapse)
            found.append((self._search.bound_ticks(reduction), position, reduction))
        return found if request.per_placement else sorted(found, key=lambda one: one[:2])

    def _placements(self) -> Iterable[Placement]:
        request, hierarchy = self._request, self._system.hierarchy
        if request.placement is not None:
            return [Placement(hierarchy, request.axes, request.placement)]
        return placements(hierarchy, request.axes)

    def _go_on(self) -> bool:
        """Whether to go on; remembers that something may be missing if not."""
        going = self._watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _default_seconds(self, reduction: Reduction) -> float:
        request = self._request
        plain = defaults(self._simulator, reduction, request.payload_bytes, request.goal)
        return total_seconds(plain.baseline)

    def _so_far(self, best: tuple[Placed, ...]) -> list[Provisional]:
        return [provisional(rank, one.what) for rank, one in ranked(best, self._request)]


def ranked(best: Sequence[Placed], request: Request) -> list[tuple[int, Distinct[Found]]]:
    """Answers in their order with their ranks, which begin anew on each placement if asked so."""
    found, rank, last = [], 0, -1
    for one in best:
        rank = 1 if request.per_placement and one.position != last else rank + 1
        last = one.position
        found.append((rank, one.distinct))
    return found


def provisional(rank: int, found: Found) -> Provisional:
    """A program found, in a few words, before it is proved."""
    placement, texts = found.reduction.placement, iter(found.key[2])
    programs = ("; ".join(islice(texts, len(part.steps))) for part in found.parts)
    seconds = found.ticks / TICKS_PER_SECOND
    return Provisional(rank, placement.axes, placement.matrix, programs_text(programs), seconds)
