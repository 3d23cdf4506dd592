"""The whole path as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grammar import Goal
from hierarchies import Axis, InputError, System, load, nearest
from synth.collectives.algorithms import Choice
from synth.plan.answers import AnswerMaker
from synth.plan.candidates import Found
from synth.plan.library import Library
from synth.plan.placements import PlacementSearch, ranked
from synth.plan.request import Answer, Report, Request, Watcher
from synth.price.segments import SEGMENTS
from synth.price.step_prices import Simulator
from synth.semantics.programs import Language


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
    searched = PlacementSearch(system, request, watcher, library).run()
    best = ranked(searched.best, request)
    wanted = [Wanted(rank, found, request.payload_bytes) for rank, found in best]
    found, complete = answers_to(system, request, wanted, watcher, library)
    looked = replace(searched.looked, complete=searched.looked.complete and complete)
    return Report(system, request, found, looked)


@dataclass(frozen=True)
class Wanted:
    """A program to make an answer of, with its rank and the payload it is for."""

    rank: int
    found: Found
    payload_bytes: int


def answers_to(
    system: System,
    request: Request,
    wanted: Sequence[Wanted],
    watcher: Watcher,
    library: Library,
) -> tuple[tuple[Answer, ...], bool]:
    """The answers for some programs, and whether all were judged before the work was stopped.

    Of the request only the way programs run matters: neither its payload nor its placements.
    """
    stopped: list[bool] = []

    def go_on() -> bool:
        if not watcher.go_on():
            stopped.append(True)
        return not stopped

    maker = AnswerMaker(Simulator(system, request.choice), library, go_on)
    answered = []
    for one in wanted:
        answered.append(maker.answer(one.rank, one.found, one.payload_bytes))
        watcher.judged(len(answered), len(wanted))
    return tuple(answered), not stopped


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
    whole tensor on each device; ``segments`` is the one number of segments to try beside 1, None
    for several; ``request`` what is asked for, an all-reduce or another ``Goal``.
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
