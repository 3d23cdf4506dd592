"""From a question to what emitters and runners are given: derived again, proved again, priced."""

from __future__ import annotations

from dataclasses import dataclass

from grammar import Goal, canonical, parse
from hierarchies import InputError, Reduction
from synth.answering import priced
from synth.defaults import defaults
from synth.emit import Options, Source
from synth.lowering import lower
from synth.proof import Refuted
from synth.rehearsal import judged
from synth.remembered import Remembered
from synth.semantics import Derivation, Refusal, derive
from synth.simulator import Simulator, total_seconds


class WrongProgramError(InputError):
    """The program could be read, and the answer to whether it does what was asked is no."""


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
    """Derive, replay, prove, lower and price a program, whoever says it was done before.

    Raises InputError and WrongProgramError as ``derived_from_text`` does.
    """
    system, reduction, size = chosen.system, chosen.reduction, chosen.payload_bytes
    derivation = derived_from_text(chosen.program, reduction, chosen.goal)
    verdict = judged(derivation)
    if isinstance(verdict, Refuted):
        raise AssertionError(f"the rules and z3 disagree on {derivation.program}: {verdict}")
    simulator = Simulator(system, chosen.algorithm)
    prices = tuple(priced(simulator, derivation, reduction, size / chosen.segments))
    plain = total_seconds(defaults(simulator, reduction, size, chosen.goal).baseline)
    schedule = lower(derivation, reduction, size, chosen.segments)
    return HandOut(Source(schedule, system, prices, verdict, options), plain)
