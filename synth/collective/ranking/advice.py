"""The placement that an answer recommends: one collective alone cannot choose among them.

A sum over ``data`` says nothing of what ``model`` sends, and where it is fastest by itself the rest
of the job may wait a hundred times as long. So where axes are left over, programs are ranked on the
placement that is given, else on the one that frameworks lay out. Placements on which this one
collective would be faster stand apart. What a whole job sends is weighed by
``synth.collective.workload``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from grammar import Goal
from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    count_placements,
    load,
    placements,
    row_major_placement,
    suggest_nearest,
)
from hierarchies.fabric import price_class
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.resolution import finest_resolution
from synth.collective.price.segments import SEGMENTS
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.candidates import CandidatePrograms, CandidateSearch
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import (
    AnswerRequest,
    answers,
    make_answers,
    rank_with_deciding_run,
)
from synth.collective.ranking.request import Answer, Report, Request, StopFlag, Watcher
from synth.collective.semantics.programs import Language
from synth.search.forks import map_in_forks

MOST_FASTER_PLACEMENTS = 3
"""How many other placements are shown."""


def rank_with_advice(
    system: System,
    request: Request,
    watcher: Watcher | None = None,
    library: Library | None = None,
) -> Report:
    """The answers of ``planner.with_a_run`` on the placement that is kept, and faster ones apart.

    Where no axis is left over, or a placement is given, those answers and no more. With
    ``per_placement`` the placement of frameworks comes first. Raises InputError as ``answers`` and
    ``fix_placement`` do.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    placed = fix_placement(system, request)
    simulator = Simulator(system, request.choice)
    report = answers(system, placed, watcher, library, simulator)
    report = rank_with_deciding_run(simulator, report, watcher, library)
    if placed is not request:
        first = report.answers[0].candidate.ticks
        elsewhere = _FasterPlacements(simulator, placed, watcher, library)
        found = elsewhere.under(int(first / (1 + finest_resolution(system))))
        last = report.answers[-1].rank
        wanted = [
            AnswerRequest(last + number, one, request.payload_bytes)
            for number, one in enumerate(found, start=1)
        ]
        others, judged = make_answers(simulator, wanted, watcher, library)
        complete = report.complete and judged and not elsewhere.stopped
        looked = replace(report.looked, complete=complete)
        return replace(report, looked=looked, faster_elsewhere=others)
    if request.per_placement and find_left_over_axes(request):
        return replace(report, answers=_put_framework_first(system, report.answers))
    return report


def find_left_over_axes(request: Request) -> tuple[str, ...]:
    """The axes that send something of which the request says nothing."""
    names = (axis.name for axis in request.axes if axis.size > 1)
    return tuple(name for name in names if name not in request.over)


def fix_placement(system: System, request: Request) -> Request:
    """The request on the placement of frameworks; unchanged where nothing is to be chosen.

    That is where a placement is given, every placement is asked for, no axis is left over, or
    there is only one placement. Raises InputError for axes that do not fit the system, and where
    frameworks cut a level in the middle: then there is no placement that could be kept.
    """
    others = find_left_over_axes(request)
    if request.placement is not None or request.per_placement or not others:
        return request
    if count_placements(system.hierarchy, request.axes) == 1:
        return request
    placement = row_major_placement(system.hierarchy, request.axes)
    if placement is None:
        sizes = ", ".join(f"{axis.name}={axis.size}" for axis in request.axes)
        raise InputError(
            f"{sizes}, laid out with the last axis innermost, cuts a level of {system.hierarchy} "
            f"in the middle, and {' and '.join(others)} is not reduced over",
            hint="say what every axis sends, or choose a placement: 'collsynth place' lists them",
        )
    return replace(request, placement=placement.matrix, by_framework=True)


def _put_framework_first(system: System, every: Sequence[Answer]) -> tuple[Answer, ...]:
    first = row_major_placement(system.hierarchy, every[0].candidate.reduction.placement.axes)
    return tuple(sorted(every, key=lambda one: one.candidate.reduction.placement != first))


class _FasterPlacements:
    """The best program of every other placement, as far as it is faster. One use."""

    def __init__(
        self, simulator: Simulator, request: Request, watcher: Watcher, library: Library
    ) -> None:
        self._system = simulator.system
        self._request = request
        self._noting = StopFlag(watcher)
        self._library = library
        self._search = CandidateSearch(
            library,
            simulator,
            request.payload_bytes,
            request.segments,
            stripes=request.stripes,
            go_on=self._noting.go_on,
        )
        self._best: list[tuple[int, int, DistinctAnswer[CandidatePrograms]]] = []

    @property
    def stopped(self) -> bool:
        """Whether the work was, so that something may be missing."""
        return self._noting.stopped

    def under(self, limit: int) -> list[DistinctAnswer[CandidatePrograms]]:
        """The best few whose price is not above the limit, fastest first.

        Placements that lie alike for this collective count as one: the first of them.
        """
        found = map_in_forks(
            self._searched,
            self._to_search(limit),
            self._noting,
            guessed=True,
            known=self._library.known,
        )
        for some in found:
            self._best = sorted([*self._best, *some], key=lambda one: one[:2])[
                :MOST_FASTER_PLACEMENTS
            ]
        return [found for _, _, found in self._best]

    def _to_search(self, limit: int) -> Iterator[tuple[Reduction, int, int]]:
        """What may be faster, the lowest bound first, each with the limit as it is by then."""
        placed = sorted(self._bounds(), key=lambda one: one[:2])
        for bound, position, reduction in placed:
            if len(self._best) == MOST_FASTER_PLACEMENTS:
                limit = self._best[-1][0]
            if bound > limit or not self._noting.go_on():
                return
            self._library.paths(len(reduction.tree.digits))
            yield reduction, position, limit

    def _searched(
        self, one: tuple[Reduction, int, int]
    ) -> list[tuple[int, int, DistinctAnswer[CandidatePrograms]]]:
        """The best of one placement, if it is not above the limit."""
        reduction, position, limit = one
        found = self._search.distinct(reduction, 1, limit)
        return [(one.what.ticks, position, one) for one in found]

    def _bounds(self) -> Iterator[tuple[int, int, Reduction]]:
        """The bound of each kind of reduction in ticks, and the position of its placement.

        But for the kind that is kept: no other of it is faster.
        """
        request, hierarchy = self._request, self._system.hierarchy
        assert request.placement is not None
        kept = Placement(hierarchy, request.axes, request.placement)
        seen = {price_class(self._system, Reduction(kept, request.over, request.collapse))}
        for position, placement in enumerate(placements(hierarchy, request.axes)):
            reduction = Reduction(placement, request.over, request.collapse)
            kind = price_class(self._system, reduction)
            if kind not in seen:
                seen.add(kind)
                yield self._search.bound_ticks(reduction), position, reduction


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
    placement: Sequence[Sequence[int]] | None = None,
) -> Report:
    """The k best programs for a request, proved, and the placement to run them on, in one call.

    ``system`` is a catalogue name (``dgx-h100:4``), the path of a TOML file, or a System;
    ``axes`` maps names to sizes; ``reduce`` names one or several of them; ``payload_bytes`` is the
    whole tensor on each device; ``segments`` is the one number of segments to try beside 1, None
    for several; ``request`` what is asked for, an all-reduce or another ``Goal``.

    All placements are ranked where all axes are reduced over. Where some are not, it is the
    ``placement`` given, else the one that frameworks lay out, the last axis innermost; the report's
    ``faster_elsewhere`` has others. Raises InputError for anything that does not fit together.
    """
    for what, given, known in (("algorithm", algorithm, Choice), ("request", request, Goal)):
        names = [one.value for one in known]
        if given not in names:
            raise InputError(f"no {what} {given!r}", hint=suggest_nearest(given, names))
    asked = Request(
        axes=tuple(Axis(name, size) for name, size in axes.items()),
        over=(reduce,) if isinstance(reduce, str) else tuple(reduce),
        payload_bytes=payload_bytes,
        k=k,
        language=Language(max_steps, goal=Goal(request)),
        choice=Choice(algorithm),
        placement=None if placement is None else tuple(tuple(row) for row in placement),
        segments=SEGMENTS if segments is None else tuple(sorted({1, segments})),
    )
    return rank_with_advice(load(system) if isinstance(system, str) else system, asked)
