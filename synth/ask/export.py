"""From a question to the input of emitters and runners, derived, proved and priced again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grammar import Goal, canonicalize, parse
from hierarchies import Reduction, error_context
from synth.ask.answers.given import EarlierAnswer
from synth.ask.reply import WrongProgramError
from synth.collective.algorithms.runtimes import runtime_of_system
from synth.collective.emit.source import EmitOptions, EmitSource, PricedRange
from synth.collective.price.defaults import defaults
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, total_seconds
from synth.collective.ranking.answers import answer_of_parts, price_parts
from synth.collective.ranking.how_to_get import explain_call, explain_kept_default
from synth.collective.ranking.request import ProgramPart
from synth.collective.ranking.settings import RuntimeCalls
from synth.collective.ranking.sizes import find_ranges
from synth.collective.ranking.stripes import round_to_bytes
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.rules import Derivation, Refusal, derive
from synth.collective.semantics.truth_tables import check_depth
from synth.collective.verify.rehearsal import judge_symbolically
from synth.collective.verify.symbolic import Refuted

_MOST_DIGITS = 6
"""The states of larger trees need more than a few KiB, so only the worker derives programs."""


@dataclass(frozen=True)
class EmitInput:
    """A source for emitters, and the price of the runtime's own collective."""

    source: EmitSource
    plain_seconds: float


def derive_text(text: str, reduction: Reduction, goal: Goal = Goal.ALL_REDUCE) -> Derivation:
    """Returns the derivation of a program as the caller wrote it.

    Raises InputError for text that is not a program, WrongProgramError for an incorrect program.
    """
    program = canonicalize(parse(text), reduction.tree)
    derivation = derive(program, reduction.tree, goal)
    if isinstance(derivation, Refusal):
        place = "at the end" if derivation.step is None else f"step {derivation.step + 1}"
        raise WrongProgramError(
            f"the program is {derivation.kind.value}: {derivation.reason}",
            where=f"program, {place}",
            hint="'collsynth check' tells more",
        )
    return derivation


def check_derivation(text: str, reduction: Reduction, goal: Goal) -> None:
    """Raises InputError for text that is not a program; on small trees also if it is incorrect."""
    if len(reduction.tree.digits) <= _MOST_DIGITS:
        derive_text(text, reduction, goal)
    else:
        check_depth(len(reduction.tree.digits))
        canonicalize(parse(text), reduction.tree)


def prepare_emit_input(
    chosen: EarlierAnswer, options: EmitOptions, *, by_size: bool = False
) -> EmitInput:
    """Derive, replay, prove, lower and price programs, even those of an answer that says "proved".

    ``by_size``: the target has rows for ranges of sizes, which are then found.
    Raises InputError and WrongProgramError as ``derive_text`` does, and InputError for a
    payload of fewer bytes than stripes, and for an operation where nothing is reduced.
    """
    reduction, size = chosen.reduction, chosen.payload_bytes
    simulator = Simulator(chosen.system, chosen.algorithm)
    sizes = round_to_bytes([stripe.size_bytes for stripe in chosen.slices], size)
    parts = [
        ProgramPart(derive_text(stripe.program, reduction, chosen.goal), own, stripe.segments)
        for stripe, own in zip(chosen.slices, sizes, strict=True)
    ]
    prices = price_parts(simulator, parts, reduction)
    first, *others = sources = [
        _source(part, each, chosen, options) for part, each in zip(parts, prices, strict=True)
    ]
    plain = total_seconds(defaults(simulator, reduction, size, chosen.goal).baseline)
    told = _price_conditions(chosen, parts, prices)
    ranges: tuple[PricedRange, ...] = ()
    if any(price.algorithm for each in prices for price in each):
        answer = answer_of_parts(
            simulator, reduction, parts, size, [source.verdict for source in sources]
        )
        told = (*filter(None, [explain_kept_default(answer)]), *told)
        if by_size and not others:
            ranges = find_ranges(simulator, answer, chosen.ends)
    source = replace(first, beside=tuple(others), reached=told, ranges=ranges)
    return EmitInput(source, plain)


def _price_conditions(
    chosen: EarlierAnswer,
    parts: Sequence[ProgramPart],
    prices: Sequence[tuple[InstructionPrice, ...]],
) -> tuple[str, ...]:
    """Returns the conditions of the calls' prices, for the runtime's own call or for a program."""
    goal, calls = chosen.goal, [price for each in prices for price in each]
    by_itself = Simulator(chosen.system)
    if [call.what for call in calls] != [goal.value] or parts[0].segments > 1:
        if not runtime_of_system(chosen.system).told or not calls:
            return ()  # this runtime accepts no settings for its calls
        several = [(p.derivation, each, p.segments) for p, each in zip(parts, prices, strict=True)]
        first, *others = RuntimeCalls.of(by_itself, chosen.reduction, several).said
        return tuple(
            f"{sentence[0].upper()}{sentence[1:]}." for sentence in (first, "; ".join(others))
        )
    return explain_call(calls[0], defaults(by_itself, chosen.reduction, parts[0].size_bytes, goal))


def _source(
    part: ProgramPart,
    prices: tuple[InstructionPrice, ...],
    chosen: EarlierAnswer,
    options: EmitOptions,
) -> EmitSource:
    """Returns the emitters' input for a stripe: its program, proved and lowered for its bytes."""
    verdict = judge_symbolically(part.derivation)
    if isinstance(verdict, Refuted):
        raise AssertionError(f"the rules and z3 disagree on {part.program}: {verdict}")
    schedule = lower(part.derivation, chosen.reduction, part.size_bytes, part.segments)
    with error_context("--op"):
        schedule = replace(schedule, op=chosen.op)
    return EmitSource(schedule, chosen.system, prices, verdict, options)
