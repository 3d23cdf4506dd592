"""Turns candidates into answers: prices with reasons, defaults, bound and proof."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar import Goal, Program, spell
from hierarchies import Reduction, System
from hierarchies.fabric import price_class
from synth.collective.price.bound import bound, bound_by_calls
from synth.collective.price.choices import choose_phases
from synth.collective.price.defaults import defaults
from synth.collective.price.intervals import explain_unmeasured, interval_of_program
from synth.collective.price.resolution import PriceEstimate, estimate_price
from synth.collective.price.segments import price_ticks
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import (
    TICKS_PER_SECOND,
    InstructionPrice,
    limiting_of_stripes,
    ticks_of,
    total_seconds,
)
from synth.collective.price.ways import OVERLAP_PICKS, LinePicker, pick_fastest
from synth.collective.ranking.candidates import CandidatePrograms
from synth.collective.ranking.distinct import DistinctAnswer
from synth.collective.ranking.library import Library
from synth.collective.ranking.request import Answer, Candidate, PricedStripe, ProgramPart
from synth.collective.ranking.settings import RuntimeCalls
from synth.collective.semantics.lowering import moves
from synth.collective.semantics.rules import Derivation
from synth.collective.verify.rehearsal import derive_valid, judge_symbolically, rehearse_stripes
from synth.collective.verify.symbolic import Unknown, Verdict
from synth.events.overlap import Lane, makespan_within
from synth.search.forks import WORTH_SECONDS, WorkControl, is_parallel, map_in_forks

_NOT_PROVED = Unknown("nobody has asked z3")
_STOPPED = Unknown("the work was stopped before z3 was asked")
_PROOF_SECONDS, _PRICE_SECONDS = 0.04, 0.006
"""Approximate seconds to prove a program, and to price an answer with its comparisons."""


@dataclass(frozen=True)
class AnswerRequest:
    """A program to turn into an answer, with its rank and payload."""

    rank: int
    found: DistinctAnswer[CandidatePrograms]
    payload_bytes: int

    def kind(self, system: System) -> Hashable:
        """Everything that the answer depends on except its rank; the same for equivalent
        placements.
        """
        programs, reduction = self.found.what, self.found.what.reduction
        placed = price_class(system, reduction)
        return programs.parts, self.payload_bytes, reduction.tree, placed


def prove_answers(
    simulator: Simulator, wanted: Sequence[AnswerRequest], crew: WorkControl, library: Library
) -> Iterator[Answer]:
    """Yields the answers in order, each derived again from its text.

    Each program of a library is replayed and proved only once. Up to ``crew.processes`` programs
    are proved, and answers priced, at once; after ``crew`` stops, only the first is completed.
    Concurrent programs are proved one by one, each for its slice; a replay of every answer checks
    that the slices together achieve the request.
    """
    kinds = [each.kind(simulator.system) for each in wanted]
    derived: dict[Hashable, tuple[AnswerRequest, list[ProgramPart]]] = {}
    for kind, each in zip(kinds, wanted, strict=True):
        if kind not in derived:
            derived[kind] = each, _derive_parts(each.found.what, library.language.goal)
    items = _list_work({kind: parts for kind, (_, parts) in derived.items()}, library)

    def work(place: int) -> Verdict | Answer:
        item = items[place]
        if isinstance(item, Derivation):
            return judge_symbolically(item)
        request, parts = derived[item]
        if len(parts) > 1:
            rehearse_stripes([p.derivation for p in parts], [p.size_bytes for p in parts])
        found, size = request.found.what, request.payload_bytes
        return answer_of_parts(simulator, found.reduction, parts, size, ticks=found.ticks)

    proofs = sum(isinstance(item, Derivation) for item in items)
    seconds = proofs * _PROOF_SECONDS + len(derived) * _PRICE_SECONDS
    worth = seconds > WORTH_SECONDS and is_parallel(crew)
    done = zip(items, map_in_forks(work, range(len(items)), crew, at_once=worth), strict=False)
    priced: dict[Hashable, Answer] = {}
    for kind, each in zip(kinds, wanted, strict=True):
        while kind not in priced:
            # After a stop no more results come: the price is then computed here, without a proof.
            item, result = next(done, None) or (kind, work(items.index(kind)))
            if isinstance(result, Answer):
                priced[item] = result
            elif isinstance(item, Derivation):
                library.learn(item, result)
        yield _complete_answer(priced[kind], each, library)


def _list_work(
    parts: Mapping[Hashable, Sequence[ProgramPart]], library: Library
) -> list[Derivation | Hashable]:
    """Returns the work in order: derivations to prove, and the kinds of answers to price."""
    items: dict[Hashable, Derivation | Hashable] = {}
    for kind, programs in parts.items():
        for part in programs:
            if library.verdict(part.derivation) is None:
                items.setdefault(part.derivation.instructions, part.derivation)
        items[kind] = kind
    return [*items.values()]


def _complete_answer(priced: Answer, request: AnswerRequest, library: Library) -> Answer:
    """Adds rank, placement and verdicts to an answer that equivalent requests share."""
    verdicts = library.verdicts
    return replace(
        priced,
        rank=request.rank,
        candidate=replace(priced.candidate, reduction=request.found.what.reduction),
        stripes=tuple(
            replace(stripe, verdict=verdicts.get(stripe.part.derivation.instructions, _STOPPED))
            for stripe in priced.stripes
        ),
        others=request.found.others,
        least_seconds=request.found.least_ticks / TICKS_PER_SECOND,
    )


def _derive_parts(found: CandidatePrograms, goal: Goal) -> list[ProgramPart]:
    """Derives a candidate's programs again from their texts."""
    tree = found.reduction.tree
    return [
        ProgramPart(
            derive_valid(Program(tuple(spell(step, tree) for step in part.steps)), tree, goal),
            part.size_bytes,
            part.segments,
        )
        for part in found.parts
    ]


def unproved_answer(
    simulator: Simulator, found: CandidatePrograms, goal: Goal, payload_bytes: int
) -> Answer:
    """Prices a candidate without replaying or proving it."""
    parts = _derive_parts(found, goal)
    return answer_of_parts(simulator, found.reduction, parts, payload_bytes, ticks=found.ticks)


def move_answer(simulator: Simulator, answer: Answer) -> Answer:
    """Reprices the same placement and programs on another machine of the same shape."""
    return _reprice(simulator, answer, answer.candidate.parts, answer.payload_bytes)


def resize_answer(simulator: Simulator, answer: Answer, payload_bytes: int) -> Answer:
    """Reprices the same placement and single program for another payload."""
    [part] = answer.candidate.parts
    return _reprice(simulator, answer, (replace(part, size_bytes=payload_bytes),), payload_bytes)


def _reprice(
    simulator: Simulator, answer: Answer, parts: Sequence[ProgramPart], payload_bytes: int
) -> Answer:
    """Reprices an answer for other slices, another payload or another machine."""
    verdicts = [stripe.verdict for stripe in answer.stripes]
    reduction = answer.candidate.reduction
    moved = answer_of_parts(simulator, reduction, parts, payload_bytes, verdicts)
    seconds = moved.candidate.seconds
    return replace(moved, rank=answer.rank, others=answer.others, least_seconds=seconds)


def answer_of_parts(
    simulator: Simulator,
    reduction: Reduction,
    parts: Sequence[ProgramPart],
    payload_bytes: int,
    verdicts: Sequence[Verdict] | None = None,
    ticks: int | None = None,
) -> Answer:
    """Returns the answer, of rank 1, for given programs, with defaults, bound and intervals.

    ``ticks``: their concurrent price, if a search has found it.
    """
    prices = price_parts(simulator, parts, reduction)
    judged = verdicts or [_NOT_PROVED] * len(parts)
    stripes = tuple(PricedStripe(*fields) for fields in zip(parts, prices, judged, strict=True))
    ticks = _price_side_by_side(stripes) if ticks is None else ticks
    candidate = Candidate(reduction, tuple(parts), ticks)
    system, goal = simulator.system, candidate.derivation.goal
    default = defaults(simulator, reduction, payload_bytes, goal)
    whole = [*price_phases(simulator, candidate.derivation, reduction, payload_bytes)]
    called = None
    if default.runtime.told:
        called = RuntimeCalls.of(simulator, reduction, [stripe.priced for stripe in stripes])
    phases = [*_all_phases(stripes)]
    least = bound(system, reduction, payload_bytes, goal)
    return Answer(
        1,
        candidate,
        payload_bytes,
        default,
        least,
        limiting_of_stripes(
            [(stripe.prices, stripe.part.segments) for stripe in stripes], candidate.seconds
        ),
        stripes,
        total_seconds(whole),
        estimate_price(system, ticks, phases),
        estimate_price(system, sum(price.ticks for price in default.baseline), default.baseline),
        *_price_as_run(simulator, candidate, stripes, called),
        interval_of_program(system, phases, candidate.seconds, least.seconds),
        interval_of_program(system, default.baseline, least_seconds=least.seconds),
        calls_bound=bound_by_calls(least, system, reduction, payload_bytes, goal),
        called=called,
        not_measured=explain_unmeasured(system, [*phases, *default.baseline]),
    )


def _price_as_run(
    simulator: Simulator,
    candidate: Candidate,
    stripes: Sequence[PricedStripe],
    called: RuntimeCalls | None,
) -> tuple[PriceEstimate, tuple[InstructionPrice, ...]]:
    """Returns the price as the runtime runs it, and the first stripe's phases."""
    run = stripes_as_run(simulator, candidate, stripes, called)
    ticks = candidate.ticks if run is stripes else _price_side_by_side(run)
    return estimate_price(simulator.system, ticks, _all_phases(run)), run[0].prices


def stripes_as_run(
    simulator: Simulator,
    candidate: Candidate,
    stripes: Sequence[PricedStripe],
    called: RuntimeCalls | None,
) -> Sequence[PricedStripe]:
    """Returns the stripes as the runtime runs them; the given ones if that is as priced.

    Steps use algorithms that the runtime has: as priced if environment settings can select them,
    else those of its own choice.
    """
    runtime = simulator.of_runtimes
    if runtime is not simulator:
        prices = price_parts(runtime, candidate.parts, candidate.reduction)
        stripes = [replace(s, prices=p) for s, p in zip(stripes, prices, strict=True)]
        priced = [stripe.priced for stripe in stripes]
        called = called and RuntimeCalls.of(runtime, candidate.reduction, priced)
    if called and called.unsaid:
        own = zip(stripes, called.own_prices, strict=True)
        stripes = [replace(stripe, prices=prices) for stripe, prices in own]
    return stripes


def _all_phases(stripes: Iterable[PricedStripe]) -> Iterator[InstructionPrice]:
    """Yields the phases of all segments of all stripes."""
    for stripe in stripes:
        for _ in range(stripe.part.segments):
            yield from stripe.prices


def _price_side_by_side(stripes: Sequence[PricedStripe]) -> int:
    """Returns the price in ticks of concurrent programs."""
    lanes = [
        Lane(tuple(price.work for price in stripe.prices), stripe.part.segments)
        for stripe in stripes
    ]
    if len(lanes) == 1:
        return price_ticks(lanes[0].phases, lanes[0].segments)
    return ticks_of(makespan_within(lanes))


def price_phases(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    pick: LinePicker = pick_fastest,
) -> Iterator[InstructionPrice]:
    """Yields the phases of a derived program with their prices and reasons."""
    for move in moves(derivation):
        yield from simulator.move(move, reduction, payload_bytes, pick)


def choose_segments(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    counts: Iterable[int],
) -> tuple[int, tuple[InstructionPrice, ...], float]:
    """Returns the best number of segments, one segment's prices, and the total seconds."""
    options = []
    for count in counts:
        size = payload_bytes / count
        prices = choose_phases(simulator, moves(derivation), reduction, size, count)
        options.append((price_ticks([price.work for price in prices], count), count, prices))
    ticks, count, prices = min(options, key=lambda option: option[:2])
    return count, prices, ticks / TICKS_PER_SECOND


def price_parts(
    simulator: Simulator, parts: Sequence[ProgramPart], reduction: Reduction
) -> list[tuple[InstructionPrice, ...]]:
    """Returns the prices of one segment of each part.

    A single program uses the algorithms that are best for it. Concurrent programs all use the same
    rule of ``OVERLAP_PICKS``: the rule with the least makespan.
    """
    if len(parts) == 1:
        [part] = parts
        size, count = part.size_bytes / part.segments, part.segments
        return [choose_phases(simulator, moves(part.derivation), reduction, size, count)]

    def seconds(option: list[tuple[InstructionPrice, ...]]) -> float:
        lanes = zip(option, parts, strict=True)
        return makespan_within(
            [Lane(tuple(p.work for p in prices), part.segments) for prices, part in lanes]
        )

    options = [
        [
            tuple(
                price_phases(
                    simulator, part.derivation, reduction, part.size_bytes / part.segments, pick
                )
            )
            for part in parts
        ]
        for pick in OVERLAP_PICKS
    ]
    return min(options, key=seconds)
