"""The whole pipeline as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hierarchies import System
from synth.collective.price.resolution import FINEST, PriceEstimate
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.answers import AnswerRequest, prove_answers
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
    """Ranks every valid program on every placement, exactly, and proves the best ones.

    Programs of one placement that prices cannot order are one answer, shown as its simplest
    member, unless the request is ``exact``. Ties are broken by fewer steps, then spelling, then
    the order of placements. Every answer is derived again from its text, replayed with every
    factor 2 and once 3, and put to z3 before it is returned.

    Requests in the same language may share a ``library``, and requests on one system with one
    choice of algorithms a ``simulator``. Raises InputError for axes or placements that do not
    fit the system.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    simulator = simulator or Simulator(system, request.choice)
    searched = PlacementSearch(simulator, request, watcher, library).run()
    best = rank_answers(searched.best, request)
    wanted = [AnswerRequest(rank, found, request.payload_bytes) for rank, found in best]
    made, complete = make_answers(simulator, wanted, watcher, library)
    looked = replace(searched.looked, complete=searched.looked.complete and complete)
    return Report(system, request, made, looked)


def make_answers(
    simulator: Simulator, wanted: Sequence[AnswerRequest], watcher: Watcher, library: Library
) -> tuple[tuple[Answer, ...], bool]:
    """Returns the answers, and whether all were judged before the work was stopped."""
    noting = StopFlag(watcher)
    answered: list[Answer] = []
    for answer in prove_answers(simulator, wanted, noting, library):
        answered.append(answer)
        watcher.judged(len(answered), len(wanted))
    return tuple(answered), not noting.stopped


def rank_with_deciding_run(
    simulator: Simulator, report: Report, watcher: Watcher, library: Library
) -> Report:
    """Adds the best single program where no answer gains or is worth a run.

    The answers may be the cheapest as priced and still useless, because no setting makes a runtime
    run their calls as priced. Then they hide a slightly slower program that is attainable. A range
    of sizes finds that program, so this function makes the verdict on a single size agree with it.
    """
    request, shown = report.request, report.answers
    default = min((answer.baseline_estimate for answer in shown), key=lambda price: price.ticks)
    whole = request.stripes and not request.per_placement and not request.exact
    if (
        not whole
        or not _is_slower_as_run(shown[0])
        or any(_is_worth_showing(answer, default) for answer in shown)
    ):
        return report
    alone = replace(request, stripes=False, k=1)
    searched = PlacementSearch(simulator, alone, QuietWatcher(watcher), library).run()
    wanted = [AnswerRequest(1, best.distinct, request.payload_bytes) for best in searched.best]
    more, complete = make_answers(simulator, wanted, QuietWatcher(watcher), library)
    more = tuple(answer for answer in more if _is_worth_showing(answer, default))
    merged = sorted([*shown, *more], key=lambda answer: answer.candidate.ticks)
    looked = replace(report.looked, complete=report.complete and complete)
    ranked = tuple(replace(answer, rank=rank) for rank, answer in enumerate(merged, start=1))
    return replace(report, answers=ranked, looked=looked)


def _is_slower_as_run(answer: Answer) -> bool:
    return answer.runtime_seconds > (1 + FINEST) * answer.candidate.seconds


def _is_worth_showing(answer: Answer, default: PriceEstimate) -> bool:
    """Whether an answer can be acted on: it surely gains, or a run decides."""
    return answer.against(default) is DefaultComparison.FASTER or bool(
        find_deciding_run(answer, default)
    )
