"""From a program that was found to an answer: prices with reasons, defaults, bound and proof."""

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
"""About so long it takes to prove a program, and to price an answer with all that is beside it."""

_Kind = tuple[object, ...]
"""What of a program and its placement its answer depends on."""


class AnswerMaker:
    """Turns programs found into answers; replays and proves each program of a library only once.

    They are to be asked for in the order of ``several``, each with its payload in bytes; of these
    so many programs are proved, and so many answers priced, at once as the crew has processes, and
    none proved after the first once it is not to go on.
    Of several side by side each is proved by itself, for its slice; that the slices make up what
    was asked is replayed for every answer.
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
        for one, size in several:
            kinds.setdefault(self._kind(one.what, size), (one.what, size))
        self._numbers = {kind: number for number, kind in enumerate(kinds)}
        self._asked = [*kinds.values()]
        self._parts = [_derive_found(found, library.language.goal) for found, _ in self._asked]
        self._items = items = self._to_do()
        proofs = sum(isinstance(item, Derivation) for item in items)
        seconds = proofs * _PROOF_SECONDS + len(self._asked) * _PRICE_SECONDS
        worth = seconds > WORTH_SECONDS and is_parallel(crew)
        done = map_in_forks(self._work, range(len(items)), crew, at_once=worth)
        self._done = zip(items, done, strict=False)

    def _to_do(self) -> list[Derivation | int]:
        """What is to be done, as it is asked for: programs to prove, and numbers of answers."""
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
        """The answer for a program that was found, derived again from its text.

        On placements that lie alike it is the same one.
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
        """An answer without its verdicts."""
        (found, payload_bytes), parts = self._asked[number], self._parts[number]
        if len(parts) > 1:
            rehearse_stripes([p.derivation for p in parts], [p.size_bytes for p in parts])
        return _answer_of_found(self._simulator, found, parts, payload_bytes)

    def _answer(self, number: int) -> Answer:
        verdicts, priced = self._library.verdicts, self._priced
        while number not in priced and (one := next(self._done, None)) is not None:
            item, done = one
            if isinstance(item, Derivation):
                assert not isinstance(done, Answer)
                verdicts[item.instructions] = done
            else:
                assert isinstance(done, Answer)
                priced[item] = done
        if number not in priced:
            priced[number] = self._price(number)
        stripes = [
            replace(one, verdict=verdicts.get(one.part.derivation.instructions, _STOPPED))
            for one in priced[number].stripes
        ]
        return replace(priced.pop(number), stripes=tuple(stripes))


def _derive_found(found: CandidatePrograms, goal: Goal) -> list[ProgramPart]:
    """The programs that were found, derived again from their texts."""
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
    """What prices say of a program that was found, which nobody has replayed or proved."""
    parts = _derive_found(found, goal)
    return _answer_of_found(simulator, found, parts, payload_bytes)


def _answer_of_found(
    simulator: Simulator, found: CandidatePrograms, parts: Sequence[ProgramPart], payload_bytes: int
) -> Answer:
    """The answer for a program that was found, as far as it is known without a proof."""
    nobody = [_NOT_PROVED] * len(parts)
    return answer_of_parts(simulator, found.reduction, parts, nobody, payload_bytes, found.ticks)


def answer_of_parts(
    simulator: Simulator,
    reduction: Reduction,
    parts: Sequence[ProgramPart],
    verdicts: Sequence[Verdict],
    payload_bytes: int,
    ticks: int | None = None,
) -> Answer:
    """The answer for programs that are given, with what is known of their proofs, of rank 1.

    ``ticks``: their price side by side, if a search has found it.
    """
    prices = price_parts(simulator, parts, reduction)
    stripes = tuple(PricedStripe(*one) for one in zip(parts, prices, verdicts, strict=True))
    ticks = _price_side_by_side(stripes) if ticks is None else ticks
    candidate = Candidate(reduction, tuple(parts), ticks)
    return _answer(simulator, candidate, stripes, 1, payload_bytes)


def move_answer(simulator: Simulator, answer: Answer) -> Answer:
    """The same placement and programs on another machine of the same shape, priced there."""
    return _reprice(simulator, answer, answer.candidate.parts, answer.payload_bytes)


def resize_answer(simulator: Simulator, answer: Answer, payload_bytes: int) -> Answer:
    """The same placement and program, one alone, for another payload, priced there."""
    [part] = answer.candidate.parts
    return _reprice(simulator, answer, (replace(part, size_bytes=payload_bytes),), payload_bytes)


def _reprice(
    simulator: Simulator, answer: Answer, parts: tuple[ProgramPart, ...], payload_bytes: int
) -> Answer:
    """An answer whose programs carry so much, or run elsewhere, with what they take then."""
    candidate = replace(answer.candidate, parts=parts)
    prices = price_parts(simulator, parts, candidate.reduction)
    stripes = tuple(
        replace(stripe, part=part, prices=each)
        for stripe, part, each in zip(answer.stripes, parts, prices, strict=True)
    )
    there = replace(candidate, ticks=_price_side_by_side(stripes))
    one = _answer(simulator, there, stripes, answer.rank, payload_bytes)
    return replace(one, others=answer.others, least_seconds=there.seconds)


def _answer(
    simulator: Simulator,
    candidate: Candidate,
    stripes: tuple[PricedStripe, ...],
    rank: int,
    payload_bytes: int,
) -> Answer:
    """A candidate with what stands beside its price: defaults, bound, reasons and intervals."""
    system, reduction, goal = simulator.system, candidate.reduction, candidate.derivation.goal
    plain = defaults(simulator, reduction, payload_bytes, goal)
    whole = price_phases(simulator, candidate.derivation, reduction, payload_bytes)
    called = _calls(simulator, reduction, stripes) if plain.runtime.told else None
    return Answer(
        rank,
        candidate,
        payload_bytes,
        plain,
        bound(system, reduction, payload_bytes, goal),
        limiting_of_stripes(
            [(stripe.prices, stripe.part.segments) for stripe in stripes], candidate.seconds
        ),
        stripes,
        total_seconds(whole),
        estimate_price(system, candidate.ticks, _all_phases(stripes)),
        estimate_price(system, sum(price.ticks for price in plain.baseline), plain.baseline),
        *_price_as_run(simulator, candidate, stripes, called),
        interval_of_program(system, _all_phases(stripes), candidate.seconds),
        interval_of_program(system, plain.baseline),
        calls_bound=bound_by_calls(system, reduction, payload_bytes, goal),
        called=called,
        not_measured=explain_unmeasured(system, [*_all_phases(stripes), *plain.baseline]),
    )


def _price_as_run(
    simulator: Simulator,
    candidate: Candidate,
    stripes: Sequence[PricedStripe],
    called: RuntimeCalls | None,
) -> tuple[PriceEstimate, tuple[InstructionPrice, ...]]:
    """The price as the runtime runs it, and the first stripe's phases.

    Steps take algorithms that it has, in ways that a line of the environment tells it; where none
    does, those of its own choice.
    """
    system, ticks = simulator.system, candidate.ticks
    if simulator.of_runtimes is not simulator:
        prices = price_parts(simulator.of_runtimes, candidate.parts, candidate.reduction)
        stripes = [replace(one, prices=each) for one, each in zip(stripes, prices, strict=True)]
        ticks = _price_side_by_side(stripes)
        called = called and _calls(simulator.of_runtimes, candidate.reduction, stripes)
    if called and called.unsaid:
        own = zip(stripes, called.own_prices, strict=True)
        stripes = [replace(one, prices=each) for one, each in own]
        ticks = _price_side_by_side(stripes)
    return estimate_price(system, ticks, _all_phases(stripes)), stripes[0].prices


def _calls(
    simulator: Simulator, reduction: Reduction, stripes: Sequence[PricedStripe]
) -> RuntimeCalls:
    programs = [(one.part.derivation, one.prices, one.part.segments) for one in stripes]
    return RuntimeCalls.of(simulator, reduction, programs)


def _all_phases(stripes: Iterable[PricedStripe]) -> Iterator[InstructionPrice]:
    """The phases of all segments of all stripes."""
    for stripe in stripes:
        for _ in range(stripe.part.segments):
            yield from stripe.prices


def _price_side_by_side(stripes: Sequence[PricedStripe]) -> int:
    """The price of programs with the phases that they have."""
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
    """The phases of a derived program with their prices and reasons."""
    for move in moves(derivation):
        yield from simulator.move(move, reduction, payload_bytes, pick)


def choose_segments(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    counts: Iterable[int],
) -> tuple[int, tuple[InstructionPrice, ...], float]:
    """The best of some numbers of segments, the prices of one segment, and the seconds of all."""
    found = []
    for count in counts:
        prices = price_alone(simulator, derivation, reduction, payload_bytes / count, count)
        found.append((price_ticks([price.work for price in prices], count), count, prices))
    ticks, count, prices = min(found, key=lambda one: one[:2])
    return count, prices, ticks / TICKS_PER_SECOND


def price_alone(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    segment_bytes: float,
    segments: int,
) -> tuple[InstructionPrice, ...]:
    """The phases of a program that has the machine to itself, by the algorithms best for the whole.

    Prices are of one of its segments.
    """
    return choose_phases(simulator, moves(derivation), reduction, segment_bytes, segments)


def price_parts(
    simulator: Simulator, parts: Sequence[ProgramPart], reduction: Reduction
) -> list[tuple[InstructionPrice, ...]]:
    """The prices of one segment of each part, by the algorithms that programs of an answer take.

    One program alone takes those that are best for it. Of several side by side all steps take
    theirs in one of the ways in ``OVERLAP_PICKS``: the one by which all end first.
    """
    if len(parts) == 1:
        [part] = parts
        size, count = part.size_bytes / part.segments, part.segments
        return [price_alone(simulator, part.derivation, reduction, size, count)]

    def seconds(each: list[tuple[InstructionPrice, ...]]) -> float:
        lanes = zip(each, parts, strict=True)
        return makespan_within(
            [Lane(tuple(p.work for p in prices), part.segments) for prices, part in lanes]
        )

    found = [
        [
            tuple(
                price_phases(
                    simulator, one.derivation, reduction, one.size_bytes / one.segments, pick
                )
            )
            for one in parts
        ]
        for pick in OVERLAP_PICKS
    ]
    return min(found, key=seconds)
