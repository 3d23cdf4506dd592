"""The whole path as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grammar import Goal
from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    check_axes,
    count_placements,
    load,
    nearest,
    placements,
)
from synth.algorithms import Choice
from synth.answering import Teller
from synth.defaults import defaults
from synth.finder import Finder, Found
from synth.library import Library
from synth.pipelines import SEGMENTS
from synth.prices import total_seconds
from synth.programs import Language
from synth.request import Report, Request, Watcher
from synth.simulator import Simulator

_Placed = tuple[int, int, tuple[str, ...], int, Found]
"""The key of a program found, the position of its placement, and what was found."""


def answers(
    system: System,
    request: Request,
    watcher: Watcher | None = None,
    library: Library | None = None,
) -> Report:
    """Rank every valid program on every placement, exactly, and prove the best ones.

    Ties: fewer steps, then spelling, then the order of placements. Every answer is derived again
    from its text, replayed with every factor 2 and once 3, and put to z3 before it is returned.
    Questions in the same language may share a ``library``. Raises InputError for axes or
    placements that do not fit the system.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    survey = _Survey(system, request, watcher, library)
    ranked = survey.run()
    told = []
    for rank, found in ranked:
        told.append(survey.teller.answer(rank, found, request.payload_bytes))
        survey.watcher.judged(len(told), len(ranked))
    return Report(
        system,
        request,
        tuple(told),
        survey.best_default_seconds,
        survey.placements,
        survey.of_placements,
        survey.programs,
        survey.complete,
    )


class _Survey:
    """Prices the programs of one placement after the other and keeps the best."""

    def __init__(
        self, system: System, request: Request, watcher: Watcher, library: Library
    ) -> None:
        check_axes(system.hierarchy, request.axes)
        self._system = system
        self._request = request
        self.watcher = watcher
        self._library = library
        self._simulator = Simulator(system, request.choice)
        self._finder = Finder(
            library,
            self._simulator,
            request.payload_bytes,
            request.segments,
            stripes=request.stripes,
            go_on=self._go_on,
        )
        self.teller = Teller(self._simulator, library, self._go_on)
        self._stopped = False
        self.placements = 0
        self.of_placements = self._count()
        self.programs = 0
        self.best_default_seconds = 0.0

    @property
    def complete(self) -> bool:
        return self._library.complete and not self._stopped

    def run(self) -> list[tuple[int, Found]]:
        """The ranked programs."""
        best: list[_Placed] = []
        for least, position, reduction in self._by_bound():
            if self.placements and not self._go_on():
                break
            limit = None if self._request.per_placement else self._limit(best)
            if limit is None or least <= limit:
                found = self._finder.best(reduction, self._request.k, limit)
                best += [(*one.key, position, one) for one in found]
                if not self._request.per_placement:
                    best = sorted(best, key=lambda one: one[:4])[: self._request.k]
            self._note_default(reduction)
            self.programs += self._library.count(len(reduction.tree.digits))
            self.placements += 1
            self.watcher.placed(self.placements, self.of_placements)
        return self._ranked(best)

    def _ranked(self, best: list[_Placed]) -> list[tuple[int, Found]]:
        ranked, rank, last = [], 0, -1
        for *_, position, found in best:
            rank = 1 if self._request.per_placement and position != last else rank + 1
            last = position
            ranked.append((rank, found))
        return ranked

    def _placements(self) -> Iterable[Placement]:
        request, hierarchy = self._request, self._system.hierarchy
        if request.placement is not None:
            return [Placement(hierarchy, request.axes, request.placement)]
        return placements(hierarchy, request.axes)

    def _by_bound(self) -> Iterable[tuple[int, int, Reduction]]:
        """Each placement's bound in ticks, its position and reduction.

        The lowest bounds come first where only the best of all are asked for: once k answers are
        known, placements whose bound is above the last of them need no search.
        """
        request = self._request
        found = []
        for position, placement in enumerate(self._placements()):
            reduction = Reduction(placement, request.over, request.collapse)
            found.append((self._finder.bound_ticks(reduction), position, reduction))
        return found if request.per_placement else sorted(found, key=lambda one: one[:2])

    def _count(self) -> int:
        if self._request.placement is not None:
            return 1
        return count_placements(self._system.hierarchy, self._request.axes)

    def _limit(self, best: list[_Placed]) -> int | None:
        """The price that another answer may not exceed."""
        return best[-1][0] if len(best) == self._request.k else None

    def _go_on(self) -> bool:
        """Whether to go on; remembers that something may be missing if not."""
        going = self.watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _note_default(self, reduction: Reduction) -> None:
        request = self._request
        told = defaults(self._simulator, reduction, request.payload_bytes, request.goal)
        seconds = total_seconds(told.baseline)
        if self.placements == 0 or seconds < self.best_default_seconds:
            self.best_default_seconds = seconds


def top(
    system: str | System,
    *,
    axes: Mapping[str, int],
    reduce: str | Sequence[str],
    payload_bytes: int = 2**30,
    k: int = 10,
    max_steps: int = 5,
    algorithm: str = "auto",
    segments: int | None = None,
    request: str = "all-reduce",
) -> Report:
    """The k best placements and programs for a request, proved: the whole path in one call.

    ``system`` is a catalogue name (``dgx-h100:4``), the path of a TOML file, or a System;
    ``axes`` maps names to sizes; ``reduce`` names one or several of them; ``payload_bytes`` is the
    whole tensor on each device; ``segments`` an only number of segments to try beside one;
    ``request`` what is asked for, an all-reduce or another ``Goal``.
    Raises InputError for anything that does not fit together.
    """
    for what, given, known in (("algorithm", algorithm, Choice), ("request", request, Goal)):
        names = [one.value for one in known]
        if given not in names:
            raise InputError(f"no {what} {given!r}", hint=nearest(given, names))
    asked = Request(
        axes=tuple(Axis(name, size) for name, size in axes.items()),
        over=(reduce,) if isinstance(reduce, str) else tuple(reduce),
        payload_bytes=payload_bytes,
        k=k,
        language=Language(max_steps, goal=Goal(request)),
        choice=Choice(algorithm),
        segments=SEGMENTS if segments is None else tuple(sorted({1, segments})),
    )
    return answers(load(system) if isinstance(system, str) else system, asked)
