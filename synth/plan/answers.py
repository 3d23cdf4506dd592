"""From a program that was found to an answer: prices with reasons, defaults, bound and proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from grammar import Program, spell
from hierarchies import Reduction
from synth.plan.candidates import Found, FoundPart
from synth.plan.library import Library
from synth.plan.request import Answer, Candidate, Part, Stripe
from synth.price.bound import bound
from synth.price.defaults import defaults
from synth.price.intervals import interval
from synth.price.segments import price_ticks
from synth.price.step_prices import Simulator
from synth.price.steps import TICKS_PER_SECOND, StepPrice, limiting_side_by_side, total_seconds
from synth.price.ways import Pick, fastest, leanest
from synth.semantics.lowering import moves
from synth.semantics.rules import Derivation
from synth.verify.rehearsal import derived, judged
from synth.verify.symbolic import Unknown, Verdict


class AnswerMaker:
    """Turns programs found into answers; replays and proves each program of a library only once."""

    def __init__(
        self,
        simulator: Simulator,
        library: Library,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._simulator = simulator
        self._library = library
        self._go_on = go_on
        self._answered = 0

    def answer(self, rank: int, found: Found, payload_bytes: int) -> Answer:
        """The answer for a program that was found, derived again from its text."""
        reduction, goal = found.reduction, self._library.language.goal
        stripes = tuple(self._stripe(part, found) for part in found.parts)
        parts = tuple(stripe.part for stripe in stripes)
        candidate = Candidate(reduction, parts, found.ticks)
        plain = defaults(self._simulator, reduction, payload_bytes, goal)
        whole = priced(self._simulator, parts[0].derivation, reduction, payload_bytes)
        return Answer(
            rank,
            candidate,
            payload_bytes,
            plain,
            bound(self._simulator.system, reduction, payload_bytes, goal),
            limiting_side_by_side(
                [(stripe.prices, stripe.part.segments) for stripe in stripes], candidate.seconds
            ),
            stripes,
            total_seconds(whole),
            interval(self._simulator.system, _all_phases(stripes), candidate.seconds),
            interval(self._simulator.system, plain.baseline),
        )

    def _stripe(self, part: FoundPart, found: Found) -> Stripe:
        """One program, derived again from its text, priced and judged."""
        reduction = found.reduction
        program = Program(tuple(spell(step, reduction.tree) for step in part.steps))
        derivation = derived(program, reduction.tree, self._library.language.goal)
        size = part.size_bytes / part.segments
        pick = pick_of(len(found.parts))
        return Stripe(
            Part(derivation, part.size_bytes, part.segments),
            tuple(priced(self._simulator, derivation, reduction, size, pick)),
            self._verdict(derivation),
        )

    def _verdict(self, derivation: Derivation) -> Verdict:
        """Replays and proof, unless the work was stopped; the first answer is always judged."""
        verdicts, steps = self._library.verdicts, derivation.instructions
        if steps not in verdicts:
            if self._answered and not self._go_on():
                return Unknown("the work was stopped before z3 was asked")
            verdicts[steps] = judged(derivation)
        self._answered += 1
        return verdicts[steps]


def _all_phases(stripes: Iterable[Stripe]) -> Iterator[StepPrice]:
    """The phases of all segments of all stripes."""
    for stripe in stripes:
        for _ in range(stripe.part.segments):
            yield from stripe.prices


def pick_of(stripes: int) -> Pick:
    """How the steps of so many programs side by side choose their algorithms.

    Alone a step takes the fastest; beside others the one that leaves links free soonest.
    """
    return leanest if stripes > 1 else fastest


def priced(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    pick: Pick = fastest,
) -> Iterator[StepPrice]:
    """The phases of a derived program with their prices and reasons."""
    for move in moves(derivation):
        yield from simulator.move(move, reduction, payload_bytes, pick)


def in_segments(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    counts: Iterable[int],
) -> tuple[int, tuple[StepPrice, ...], float]:
    """The best of some numbers of segments, the prices of one segment, and the seconds of all."""
    found = []
    for count in counts:
        prices = tuple(priced(simulator, derivation, reduction, payload_bytes / count))
        found.append((price_ticks([price.work for price in prices], count), count, prices))
    ticks, count, prices = min(found, key=lambda one: one[:2])
    return count, prices, ticks / TICKS_PER_SECOND
