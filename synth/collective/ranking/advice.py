"""Recommends a placement where one collective alone cannot decide it.

A sum over ``data`` does not account for the traffic over ``model``: on the sum's fastest placement,
the rest of the job may be a hundred times slower. So where axes are left over, programs are ranked
on the given placement, or else on the frameworks' placement. Placements on which this collective
alone would be faster are listed separately. ``synth.collective.workload`` weighs the traffic of a
whole job.
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
from synth.collective.ranking.answers import AnswerRequest
from synth.collective.ranking.candidates import CandidatePrograms, CandidateSearch
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.library import Library
from synth.collective.ranking.planner import answers, make_answers, rank_with_deciding_run
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
    """Ranks as ``rank_with_deciding_run`` on the advised placement, and lists faster placements
    apart.

    Where no axis is left over, or a placement is given, nothing is listed apart. With
    ``per_placement``, the placement of frameworks comes first. Raises InputError as ``answers``
    and ``fix_placement`` do.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    placed = fix_placement(system, request)
    simulator = Simulator(system, request.choice)
    report = answers(system, placed, watcher, library, simulator)
    report = rank_with_deciding_run(simulator, report, watcher, library)
    if placed is not request:
        first = report.answers[0].candidate.ticks
        stop = StopFlag(watcher)
        limit = int(first / (1 + finest_resolution(system)))
        found = _find_faster(simulator, placed, stop, library, limit)
        last = report.answers[-1].rank
        wanted = [
            AnswerRequest(last + number, answer, request.payload_bytes)
            for number, answer in enumerate(found, start=1)
        ]
        others, judged = make_answers(simulator, wanted, watcher, library)
        complete = report.complete and judged and not stop.stopped
        looked = replace(report.looked, complete=complete)
        return replace(report, looked=looked, faster_elsewhere=others)
    if request.per_placement and find_left_over_axes(request):
        return replace(report, answers=_put_framework_first(system, report.answers))
    return report


def find_left_over_axes(request: Request) -> tuple[str, ...]:
    """Returns the axes that communicate but are not in the request."""
    names = (axis.name for axis in request.axes if axis.size > 1)
    return tuple(name for name in names if name not in request.over)


def fix_placement(system: System, request: Request) -> Request:
    """Returns the request on the placement of frameworks, or unchanged if none must be chosen.

    No choice is needed where a placement is given, every placement is requested, no axis is left
    over, or there is only one placement. Raises InputError for axes that do not fit the system, and
    where the layout of frameworks cuts a level in the middle: then there is no placement to fix.
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


def _put_framework_first(system: System, ranked: Sequence[Answer]) -> tuple[Answer, ...]:
    first = row_major_placement(system.hierarchy, ranked[0].candidate.reduction.placement.axes)
    return tuple(sorted(ranked, key=lambda a: a.candidate.reduction.placement != first))


def _find_faster(
    simulator: Simulator, request: Request, stop: StopFlag, library: Library, limit: int
) -> list[DistinctAnswer[CandidatePrograms]]:
    """Returns the best program of each of a few other placements, fastest first.

    None has a price above ``limit`` ticks. Of placements that are equivalent for this collective
    only the first counts; placements equivalent to the request's are left out.
    """
    search = CandidateSearch(
        library,
        simulator,
        request.payload_bytes,
        request.segments,
        stripes=request.stripes,
        go_on=stop.go_on,
    )
    best: list[tuple[int, int, DistinctAnswer[CandidatePrograms]]] = []

    def to_search() -> Iterator[tuple[Reduction, int, int]]:
        """Yields reductions that may be faster, lowest bound first, with the current limit."""
        bounded = [
            (search.bound_ticks(reduction), position, reduction)
            for position, reduction in _list_others(simulator.system, request)
        ]
        for bound, position, reduction in sorted(bounded, key=lambda entry: entry[:2]):
            most = best[-1][0] if len(best) == MOST_FASTER_PLACEMENTS else limit
            if bound > most or not stop.go_on():
                return
            # Listed in this process, so that the forks inherit the programs.
            library.paths(len(reduction.tree.digits))
            yield reduction, position, most

    def searched(
        task: tuple[Reduction, int, int],
    ) -> list[tuple[int, int, DistinctAnswer[CandidatePrograms]]]:
        reduction, position, most = task
        found = search.distinct(reduction, 1, most)
        return [(answer.what.ticks, position, answer) for answer in found]

    results = map_in_forks(searched, to_search(), stop, guessed=True, known=library.known)
    for fresh in results:
        best[:] = sorted([*best, *fresh], key=lambda entry: entry[:2])[:MOST_FASTER_PLACEMENTS]
    return [answer for *_, answer in best]


def _list_others(system: System, request: Request) -> Iterator[tuple[int, Reduction]]:
    """Yields the first reduction of each class but the request's own, with its position."""
    hierarchy = system.hierarchy
    assert request.placement is not None
    kept = Placement(hierarchy, request.axes, request.placement)
    seen = {price_class(system, Reduction(kept, request.over, request.collapse))}
    for position, placement in enumerate(placements(hierarchy, request.axes)):
        reduction = Reduction(placement, request.over, request.collapse)
        kind = price_class(system, reduction)
        if kind not in seen:
            seen.add(kind)
            yield position, reduction


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
    """Returns the k best programs for a request, proved, with the placement to run them on.

    ``system`` is a catalogue name (``dgx-h100:4``), the path of a TOML file, or a System; ``axes``
    maps names to sizes; ``reduce`` names one or several of them; ``payload_bytes`` is the whole
    tensor on each device; ``segments`` is the only number of segments to try in addition to 1, None
    for several; ``request`` is a ``Goal``, as "all-reduce".

    Where all axes are reduced over, all placements are ranked. Otherwise the given placement is
    used, or else the frameworks' placement, the last axis innermost; the report's
    ``faster_elsewhere`` has others. Raises InputError for arguments that do not fit together.
    """
    for what, given, known in (("algorithm", algorithm, Choice), ("request", request, Goal)):
        names = [member.value for member in known]
        if given not in names:
            raise InputError(f"no {what} {given!r}", hint=suggest_nearest(given, names))
    question = Request(
        axes=tuple(Axis(name, size) for name, size in axes.items()),
        over=(reduce,) if isinstance(reduce, str) else tuple(reduce),
        payload_bytes=payload_bytes,
        k=k,
        language=Language(max_steps, goal=Goal(request)),
        choice=Choice(algorithm),
        placement=None if placement is None else tuple(tuple(row) for row in placement),
        segments=SEGMENTS if segments is None else tuple(sorted({1, segments})),
    )
    return rank_with_advice(load(system) if isinstance(system, str) else system, question)
