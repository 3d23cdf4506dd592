"""Turns candidates into answers: prices with reasons, defaults, bound and proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from grammar import Goal, Program, spell
from hierarchies import Reduction
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
"""About the seconds to prove a program, and to price an answer with its comparisons."""

_Kind = tuple[object, ...]
"""What an answer depends on in a program and its placement."""


class AnswerMaker:
    """Turns candidates into answers; replays and proves each program of a library only once.

    Answers are requested in the order of ``several``, each with its payload in bytes. Up to
    ``crew.processes`` programs are proved, and answers priced, at once; after ``crew`` stops,
    only the first is. Programs side by side are proved one by one, each for its slice; that the
    slices together achieve the request is replayed for every answer.
    """

    def __init__(
        self,
        simulator: Simulator,
        library: Library,
        crew: WorkControl,
        several: Iterable[tuple[DistinctAnswer[CandidatePrograms], int]],
    ) -> None:
        self._simulator = simulator
        self._library = library
        self._made: dict[_Kind, Answer] = {}
        self._priced: dict[int, Answer] = {}
        kinds: dict[_Kind, tuple[CandidatePrograms, int]] = {}
        for answer, size in several:
            kinds.setdefault(self._kind(answer.what, size), (answer.what, size))
        self._numbers = {kind: number for number, kind in enumerate(kinds)}
        self._questions = [*kinds.values()]
        self._parts = [_derive_found(found, library.language.goal) for found, _ in self._questions]
        self._items = items = self._to_do()
        proofs = sum(isinstance(item, Derivation) for item in items)
        seconds = proofs * _PROOF_SECONDS + len(self._questions) * _PRICE_SECONDS
        worth = seconds > WORTH_SECONDS and is_parallel(crew)
        done = map_in_forks(self._work, range(len(items)), crew, at_once=worth)
        self._done = zip(items, done, strict=False)

    def _to_do(self) -> list[Derivation | int]:
        """Returns the work in order: derivations to prove, and numbers of answers to price."""
        items: dict[object, Derivation | int] = {}
        for number, parts in enumerate(self._parts):
            for part in parts:
                if (steps := part.derivation.instructions) not in self._library.verdicts:
                    items.setdefault(steps, part.derivation)
            items[number] = number
        return [*items.values()]

    def answer(
        self, rank: int, distinct: DistinctAnswer[CandidatePrograms], payload_bytes: int
    ) -> Answer:
        """Returns the answer for a candidate, derived again from its text.

        Equivalent placements share it.
        """
        reduction = distinct.what.reduction
        kind = self._kind(distinct.what, payload_bytes)
        if kind not in self._made:
            self._made[kind] = self._answer(self._numbers[kind])
        made = self._made[kind]
        return replace(
            made,
            rank=rank,
            candidate=replace(made.candidate, reduction=reduction),
            others=distinct.others,
            least_seconds=distinct.least_ticks / TICKS_PER_SECOND,
        )

    def _kind(self, found: CandidatePrograms, payload_bytes: int) -> _Kind:
        reduction = found.reduction
        return (
            found.parts,
            payload_bytes,
            reduction.tree,
            price_class(self._simulator.system, reduction),
        )

    def _work(self, place: int) -> Verdict | Answer:
        item = self._items[place]
        return judge_symbolically(item) if isinstance(item, Derivation) else self._price(item)

    def _price(self, number: int) -> Answer:
        """Returns an answer without its verdicts."""
        (found, payload_bytes), parts = self._questions[number], self._parts[number]
        if len(parts) > 1:
            rehearse_stripes([p.derivation for p in parts], [p.size_bytes for p in parts])
        return _answer_of_found(self._simulator, found, parts, payload_bytes)

    def _answer(self, number: int) -> Answer:
        verdicts, priced = self._library.verdicts, self._priced
        while number not in priced and (work := next(self._done, None)) is not None:
            item, done = work
            if isinstance(item, Derivation):
                assert not isinstance(done, Answer)
                verdicts[item.instructions] = done
            else:
                assert isinstance(done, Answer)
                priced[item] = done
        if number not in priced:
            priced[number] = self._price(number)
        stripes = [
            replace(stripe, verdict=verdicts.get(stripe.part.derivation.instructions, _STOPPED))
            for stripe in priced[number].stripes
        ]
        return replace(priced.pop(number), stripes=tuple(stripes))


def _derive_found(found: CandidatePrograms, goal: Goal) -> list[ProgramPart]:
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
    parts = _derive_found(found, goal)
    return _answer_of_found(simulator, found, parts, payload_bytes)


def _answer_of_found(
    simulator: Simulator, found: CandidatePrograms, parts: Sequence[ProgramPart], payload_bytes: int
) -> Answer:
    """Returns the answer for a candidate, without proofs."""
    unproved = [_NOT_PROVED] * len(parts)
    return answer_of_parts(simulator, found.reduction, parts, unproved, payload_bytes, found.ticks)


def answer_of_parts(
    simulator: Simulator,
    reduction: Reduction,
    parts: Sequence[ProgramPart],
    verdicts: Sequence[Verdict],
    payload_bytes: int,
    ticks: int | None = None,
) -> Answer:
    """Returns the answer, of rank 1, for given programs and verdicts.

    ``ticks``: their price side by side, if a search has found it.
    """
    prices = price_parts(simulator, parts, reduction)
    stripes = tuple(PricedStripe(*fields) for fields in zip(parts, prices, verdicts, strict=True))
    ticks = _price_side_by_side(stripes) if ticks is None else ticks
    candidate = Candidate(reduction, tuple(parts), ticks)
    return _answer(simulator, candidate, stripes, 1, payload_bytes)


def move_answer(simulator: Simulator, answer: Answer) -> Answer:
    """Reprices the same placement and programs on another machine of the same shape."""
    return _reprice(simulator, answer, answer.candidate.parts, answer.payload_bytes)


def resize_answer(simulator: Simulator, answer: Answer, payload_bytes: int) -> Answer:
    """Reprices the same placement and single program for another payload."""
    [part] = answer.candidate.parts
    return _reprice(simulator, answer, (replace(part, size_bytes=payload_bytes),), payload_bytes)


def _reprice(
    simulator: Simulator, answer: Answer, parts: tuple[ProgramPart, ...], payload_bytes: int
) -> Answer:
    """Reprices an answer for other slices, another payload or another machine."""
    candidate = replace(answer.candidate, parts=parts)
    prices = price_parts(simulator, parts, candidate.reduction)
    stripes = tuple(
        replace(stripe, part=part, prices=part_prices)
        for stripe, part, part_prices in zip(answer.stripes, parts, prices, strict=True)
    )
    there = replace(candidate, ticks=_price_side_by_side(stripes))
    moved = _answer(simulator, there, stripes, answer.rank, payload_bytes)
    return replace(moved, others=answer.others, least_seconds=there.seconds)


def _answer(
    simulator: Simulator,
    candidate: Candidate,
    stripes: tuple[PricedStripe, ...],
    rank: int,
    payload_bytes: int,
) -> Answer:
    """Completes a candidate with defaults, bound, reasons and intervals."""
    system, reduction, goal = simulator.system, candidate.reduction, candidate.derivation.goal
    default = defaults(simulator, reduction, payload_bytes, goal)
    whole = price_phases(simulator, candidate.derivation, reduction, payload_bytes)
    called = _calls(simulator, reduction, stripes) if default.runtime.told else None
    return Answer(
        rank,
        candidate,
        payload_bytes,
        default,
        bound(system, reduction, payload_bytes, goal),
        limiting_of_stripes(
            [(stripe.prices, stripe.part.segments) for stripe in stripes], candidate.seconds
        ),
        stripes,
        total_seconds(whole),
        estimate_price(system, candidate.ticks, _all_phases(stripes)),
        estimate_price(system, sum(price.ticks for price in default.baseline), default.baseline),
        *_price_as_run(simulator, candidate, stripes, called),
        interval_of_program(system, _all_phases(stripes), candidate.seconds),
        interval_of_program(system, default.baseline),
        calls_bound=bound_by_calls(system, reduction, payload_bytes, goal),
        called=called,
        not_measured=explain_unmeasured(system, [*_all_phases(stripes), *default.baseline]),
    )


def _price_as_run(
    simulator: Simulator,
    candidate: Candidate,
    stripes: Sequence[PricedStripe],
    called: RuntimeCalls | None,
) -> tuple[PriceEstimate, tuple[InstructionPrice, ...]]:
    """Returns the price as the runtime runs it, and the first stripe's phases.

    Steps use algorithms that the runtime has: as priced if environment settings can say so,
    else those of its own choice.
    """
    system, ticks = simulator.system, candidate.ticks
    if simulator.of_runtimes is not simulator:
        prices = price_parts(simulator.of_runtimes, candidate.parts, candidate.reduction)
        stripes = [replace(s, prices=p) for s, p in zip(stripes, prices, strict=True)]
        ticks = _price_side_by_side(stripes)
        called = called and _calls(simulator.of_runtimes, candidate.reduction, stripes)
    if called and called.unsaid:
        own = zip(stripes, called.own_prices, strict=True)
        stripes = [replace(stripe, prices=prices) for stripe, prices in own]
        ticks = _price_side_by_side(stripes)
    return estimate_price(system, ticks, _all_phases(stripes)), stripes[0].prices


def _calls(
    simulator: Simulator, reduction: Reduction, stripes: Sequence[PricedStripe]
) -> RuntimeCalls:
    programs = [(s.part.derivation, s.prices, s.part.segments) for s in stripes]
    return RuntimeCalls.of(simulator, reduction, programs)


def _all_phases(stripes: Iterable[PricedStripe]) -> Iterator[InstructionPrice]:
    """Yields the phases of all segments of all stripes."""
    for stripe in stripes:
        for _ in range(stripe.part.segments):
            yield from stripe.prices


def _price_side_by_side(stripes: Sequence[PricedStripe]) -> int:
    """Returns the price in ticks of programs run side by side."""
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
        prices = price_alone(simulator, derivation, reduction, payload_bytes / count, count)
        options.append((price_ticks([price.work for price in prices], count), count, prices))
    ticks, count, prices = min(options, key=lambda option: option[:2])
    return count, prices, ticks / TICKS_PER_SECOND


def price_alone(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    segment_bytes: float,
    segments: int,
) -> tuple[InstructionPrice, ...]:
    """Returns the phases of one segment of a program that has the machine to itself.

    Its algorithms are those best for the whole program.
    """
    return choose_phases(simulator, moves(derivation), reduction, segment_bytes, segments)


def price_parts(
    simulator: Simulator, parts: Sequence[ProgramPart], reduction: Reduction
) -> list[tuple[InstructionPrice, ...]]:
    """Returns the prices of one segment of each part.

    A single program uses the algorithms best for it. Programs side by side all choose theirs in
    one of the ways in ``OVERLAP_PICKS``: the one with the least makespan.
    """
    if len(parts) == 1:
        [part] = parts
        size, count = part.size_bytes / part.segments, part.segments
        return [price_alone(simulator, part.derivation, reduction, size, count)]

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
