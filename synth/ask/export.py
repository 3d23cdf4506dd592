"""From a question to the input of emitters and runners: derived, proved and priced afresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grammar import Goal, canonical, parse
from hierarchies import InputError, Reduction, within
from synth.ask.answers.given import Remembered
from synth.collective.algorithms.runtimes import runtime
from synth.collective.emit import Options, Source
from synth.collective.price.defaults import defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import StepPrice, total_seconds
from synth.collective.ranking.answers import all_priced, of_parts
from synth.collective.ranking.how_to_get import kept, reached
from synth.collective.ranking.request import Part
from synth.collective.ranking.settings import Calls
from synth.collective.ranking.stripes import whole_bytes
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, Refusal, derive
from synth.collective.verify.rehearsal import judged
from synth.collective.verify.symbolic import Refuted


class WrongProgramError(InputError):
    """A well-formed program that does not do what was asked, such as half an all-reduce."""


@dataclass(frozen=True)
class HandOut:
    """A source for emitters, and the price of the runtime's own collective beside it."""

    source: Source
    plain_seconds: float


def derived_from_text(text: str, reduction: Reduction, goal: Goal = Goal.ALL_REDUCE) -> Derivation:
    """The derivation of a program as the caller wrote it.

    Raises InputError for text that is no program, WrongProgramError for one that is wrong.
    """
    program = canonical(parse(text), reduction.tree)
    derivation = derive(program, reduction.tree, goal)
    if isinstance(derivation, Refusal):
        place = "at the end" if derivation.step is None else f"step {derivation.step + 1}"
        raise WrongProgramError(
            f"the program is {derivation.kind.value}: {derivation.reason}",
            where=f"program, {place}",
            hint="'collsynth check' tells more",
        )
    return derivation


def hand_out(chosen: Remembered, options: Options) -> HandOut:
    """Derive, replay, prove, lower and price programs, even those of an answer that says "proved".

    Raises InputError and WrongProgramError as ``derived_from_text`` does, and InputError for a
    payload of fewer bytes than stripes, and for an operation where nothing is reduced.
    """
    reduction, size = chosen.reduction, chosen.payload_bytes
    simulator = Simulator(chosen.system, chosen.algorithm)
    sizes = whole_bytes([one.size_bytes for one in chosen.slices], size)
    parts = [
        Part(derived_from_text(one.program, reduction, chosen.goal), own, one.segments)
        for one, own in zip(chosen.slices, sizes, strict=True)
    ]
    prices = all_priced(simulator, parts, reduction)
    first, *others = sources = [
        _source(part, each, chosen, options) for part, each in zip(parts, prices, strict=True)
    ]
    plain = total_seconds(defaults(simulator, reduction, size, chosen.goal).baseline)
    told = _reached(chosen, parts, prices)
    if any(price.algorithm for each in prices for price in each):
        answer = of_parts(simulator, reduction, parts, [one.verdict for one in sources], size)
        told = (*filter(None, [kept(answer)]), *told)
    return HandOut(replace(first, beside=tuple(others), reached=told), plain)


def _reached(
    chosen: Remembered, parts: Sequence[Part], prices: Sequence[tuple[StepPrice, ...]]
) -> tuple[str, ...]:
    """How calls come to their prices: of one of the runtime's own, or those of a program."""
    goal, calls = chosen.goal, [price for each in prices for price in each]
    by_itself = Simulator(chosen.system)
    if [call.what for call in calls] != [goal.value] or parts[0].segments > 1:
        if not runtime(chosen.system).told or not calls:
            return ()  # what runs them is told nothing
        several = [(p.derivation, each, p.segments) for p, each in zip(parts, prices, strict=True)]
        first, *others = Calls.of(by_itself, chosen.reduction, several).said
        return tuple(f"{one[0].upper()}{one[1:]}." for one in (first, "; ".join(others)))
    return reached(calls[0], defaults(by_itself, chosen.reduction, parts[0].size_bytes, goal))


def _source(
    part: Part, prices: tuple[StepPrice, ...], chosen: Remembered, options: Options
) -> Source:
    """What emitters need of one stripe: its program, proved, and lowered for its bytes."""
    verdict = judged(part.derivation)
    if isinstance(verdict, Refuted):
        raise AssertionError(f"the rules and z3 disagree on {part.program}: {verdict}")
    schedule = lower(part.derivation, chosen.reduction, part.size_bytes, part.segments)
    with within("--op"):
        schedule = replace(schedule, op=chosen.op)
    return Source(schedule, chosen.system, prices, verdict, options)
