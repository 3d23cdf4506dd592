"""The whole path as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hierarchies import System
from synth.collective.price.resolution import FINEST, PriceEstimate
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import AnswerMaker
from synth.collective.ranking.candidates import CandidatePrograms
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.how_to_get import find_deciding_run
from synth.collective.ranking.library import Library
from synth.collective.ranking.placements import PlacementSearch, rank_answers
from synth.collective.ranking.request import (
    Answer,
    DefaultComparison,
    QuietWatcher,
    Report,
    Request,
    StopFlag,
    Watcher,
)


def answers(
    system: System,
    request: Request,
    watcher: Watcher | None = None,
    library: Library | None = None,
    simulator: Simulator | None = None,
) -> Report:
    """Rank every valid program on every placement, exactly, and prove the best ones.

    Programs of one placement that prices cannot tell apart are one answer, told as its simplest
    member, unless the request is ``exact``. Ties: fewer steps, then spelling, then the order of
    placements. Every answer is derived again from its text, replayed with every factor 2 and once
    3, and put to z3 before it is returned.
    Questions in the same language may share a ``library``, those on one system by one choice of
    algorithms a ``simulator``. Raises InputError for axes or placements that do not fit the system.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    simulator = simulator or Simulator(system, request.choice)
    searched = PlacementSearch(simulator, request, watcher, library).run()
    best = rank_answers(searched.best, request)
    wanted = [AnswerRequest(rank, one, request.payload_bytes) for rank, one in best]
    found, complete = make_answers(simulator, wanted, watcher, library)
    looked = replace(searched.looked, complete=searched.looked.complete and complete)
    return Report(system, request, found, looked)


@dataclass(frozen=True)
class AnswerRequest:
    """A program to make an answer of, with its rank and the payload it is for."""

    rank: int
    found: DistinctAnswer[CandidatePrograms]
    payload_bytes: int


def make_answers(
    simulator: Simulator,
    wanted: Sequence[AnswerRequest],
    watcher: Watcher,
    library: Library,
) -> tuple[tuple[Answer, ...], bool]:
    """The answers for some programs, and whether all were judged before the work was stopped."""
    noting = StopFlag(watcher)
    several = [(one.found, one.payload_bytes) for one in wanted]
    maker = AnswerMaker(simulator, library, noting, several)
    answered = []
    for one in wanted:
        answered.append(maker.answer(one.rank, one.found, one.payload_bytes))
        watcher.judged(len(answered), len(wanted))
    return tuple(answered), not noting.stopped


def rank_with_deciding_run(
    simulator: Simulator, report: Report, watcher: Watcher, library: Library
) -> Report:
    """The same, and the best program alone, where of the answers none gains, or is worth a run.

    They may be the fastest as priced and be so for nobody: no variable tells a runtime to take
    their calls so. Then they hide what is a little slower as priced, and can be had. That is what a
    range of sizes finds, so that a size has one verdict in both.
    """
    request, every = report.request, report.answers
    default = min((one.baseline_estimate for one in every), key=lambda one: one.ticks)
    whole = request.stripes and not request.per_placement and not request.exact
    if (
        not whole
        or not _is_slower_as_run(every[0])
        or any(_is_worth_showing(one, default) for one in every)
    ):
        return report
    alone = replace(request, stripes=False, k=1)
    searched = PlacementSearch(simulator, alone, QuietWatcher(watcher), library).run()
    wanted = [AnswerRequest(1, one.distinct, request.payload_bytes) for one in searched.best]
    more, complete = make_answers(simulator, wanted, QuietWatcher(watcher), library)
    more = tuple(one for one in more if _is_worth_showing(one, default))
    both = sorted([*every, *more], key=lambda one: one.candidate.ticks)
    looked = replace(report.looked, complete=report.complete and complete)
    ranks = tuple(replace(one, rank=rank) for rank, one in enumerate(both, start=1))
    return replace(report, answers=ranks, looked=looked)


def _is_slower_as_run(answer: Answer) -> bool:
    return answer.runtime_seconds > (1 + FINEST) * answer.candidate.seconds


def _is_worth_showing(answer: Answer, default: PriceEstimate) -> bool:
    """Whether there is something to do about an answer: it surely gains, or a run decides."""
    return answer.against(default) is DefaultComparison.FASTER or bool(
        find_deciding_run(answer, default)
    )
