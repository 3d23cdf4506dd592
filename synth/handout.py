"""From a question to what emitters and runners are given: derived again, proved again, priced."""

from __future__ import annotations

from dataclasses import dataclass

from grammar import canonical, parse
from hierarchies import InputError, Reduction
from synth.emit import Options, Source
from synth.lowering import lower
from synth.plan import judged, one_step, priced
from synth.proof import Refuted
from synth.remembered import Remembered
from synth.semantics import Derivation, Refusal, derive
from synth.simulator import Simulator, total_seconds


class NotAnAllReduceError(InputError):
    """The program could be read, and the answer to whether it is an all-reduce is no."""


@dataclass(frozen=True)
class HandOut:
    """A source for emitters, and the price of the plain one-step all-reduce beside it."""

    source: Source
    plain_seconds: float


def derived_from_text(text: str, reduction: Reduction) -> Derivation:
    """The derivation of a program as the caller wrote it.

    Raises InputError for text that is no program, NotAnAllReduceError for one that is wrong.
    """
    program = canonical(parse(text), reduction.tree)
    derivation = derive(program, reduction.tree)
    if isinstance(derivation, Refusal):
        place = "at the end" if derivation.step is None else f"step {derivation.step + 1}"
        raise NotAnAllReduceError(
            f"the program is {derivation.kind.value}: {derivation.reason}",
            where=f"program, {place}",
            hint="'collsynth check' tells more",
        )
    return derivation


def hand_out(chosen: Remembered, options: Options) -> HandOut:
    """Derive, replay, prove, lower and price a program, whoever says it was done before.

    Raises InputError and NotAnAllReduceError as ``derived_from_text`` does.
    """
    system, reduction, size = chosen.system, chosen.reduction, chosen.payload_bytes
    derivation = derived_from_text(chosen.program, reduction)
    verdict = judged(derivation)
    if isinstance(verdict, Refuted):
        raise AssertionError(f"the rules and z3 disagree on {derivation.program}: {verdict}")
    simulator = Simulator(system, chosen.algorithm)
    prices = tuple(priced(simulator, derivation, reduction, size / chosen.segments))
    plain = total_seconds(priced(simulator, one_step(reduction.tree), reduction, size))
    schedule = lower(derivation, reduction, size, chosen.segments)
    return HandOut(Source(schedule, system, prices, verdict, options), plain)
