"""What a variable that one collective of a job needs does to the job's other collectives.

NCCL_ALGO and NCCL_PROTO hold for a whole process: for every call of a collective, and before
``PER_COLLECTIVE`` for every call of any. A call that NCCL has no such algorithm for is refused; the
older versions take a ring instead (NVIDIA/nccl, src/graph/tuning.cc, v2.23.4-1 and v2.24.3-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grammar import Collective, Goal
from hierarchies.fabric import Cast, roles_of
from synth.collective.algorithms.nccl_model import RING
from synth.collective.algorithms.nccl_versions import PER_COLLECTIVE
from synth.collective.price.defaults import ALGORITHMS, defaults_of_call
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice, price_of_line, total_seconds
from synth.collective.ranking.answers import stripes_as_run
from synth.collective.ranking.how_to_get import AdviceKind, advise, seconds_as_advised
from synth.collective.ranking.request import Answer
from synth.collective.ranking.settings import Way
from synth.collective.semantics.lowering import moves
from synth.events.overlap import Lane, makespan_within


@dataclass(frozen=True)
class SideEffect:
    """A call of another answer, at ``position``, that a variable changes.

    ``seconds``: as advised for it without the variable; ``seconds_with``: with it, None if NCCL
    refuses the call.
    """

    position: int
    seconds: float
    seconds_with: float | None


def find_side_effects(
    simulator: Simulator, answers: Sequence[Answer]
) -> list[tuple[SideEffect, ...]]:
    """Returns, for each answer of a job, what its variables change of the other answers."""
    found = []
    for own, answer in enumerate(answers):
        ways = ways_set(answer)
        effects = []
        for position, other in enumerate(answers):
            if position == own or not ways or not other.defaults.baseline:
                continue
            before = seconds_as_advised(other)
            after = seconds_under(simulator, other, ways)
            if after is None or abs(after - before) > 1e-9 * before:
                effects.append(SideEffect(position, before, after))
        found.append(tuple(effects))
    return found


def ways_set(answer: Answer) -> Mapping[str, Way]:
    """Returns the ways, by collective, that the variables of an answer's advice set."""
    if not answer.gains:
        return {}
    how = advise(answer)
    if how.by is AdviceKind.ENVIRONMENT:
        [price] = answer.runtime_prices
        names = answer.defaults.options
        name = next(name for name in names if ALGORITHMS.get(name) is price.algorithm)
        return {price.what: (name, price.protocol)}
    if how.by is AdviceKind.FILE and answer.called and answer.called.line:
        return {call.price.what: call.way for call in answer.called.apart}
    return {}


def seconds_under(simulator: Simulator, answer: Answer, ways: Mapping[str, Way]) -> float | None:
    """Returns the seconds of an answer as advised if these ways are set, too; None if NCCL refuses
    a call.

    A program's calls that these ways do not concern go as the answer says that they are run.
    """
    run = stripes_as_run(simulator, answer.candidate, answer.stripes, answer.called)
    simulator, reduction = simulator.of_runtimes, answer.candidate.reduction
    if not answer.gains or advise(answer).by is AdviceKind.NOTHING:
        roles = roles_of(reduction, tuple(range(len(reduction.tree.digits))), ())
        collective = Collective(answer.goal.value)
        own = answer.defaults.baseline[0]
        call = price_call(simulator, collective, roles, answer.payload_bytes, ways, own)
        return None if call is None else total_seconds([call])
    lanes = []
    for stripe in run:
        steps, phases = iter(moves(stripe.part.derivation)), []
        for price in stripe.prices:
            if price.algorithm is not None:
                step = next(steps).instruction
                roles = roles_of(reduction, step.groups.free, step.groups.zero)
                size = price.size_bytes
                call = price_call(simulator, step.collective, roles, size, ways, price)
                if call is None:
                    return None
                price = call
            phases.append(price.work)
        lanes.append(Lane(tuple(phases), stripe.part.segments))
    return makespan_within(lanes)


def price_call(
    simulator: Simulator,
    collective: Collective,
    roles: Cast,
    size_bytes: float,
    ways: Mapping[str, Way],
    otherwise: InstructionPrice,
) -> InstructionPrice | None:
    """Returns the price of a call if these ways are set; None if NCCL refuses the call.

    ``otherwise`` is its price where they do not concern it. NCCL composes an all-to-all of sends,
    which no variable concerns.
    """
    if not ways or Goal(collective.value).apart:
        return otherwise
    default = defaults_of_call(simulator, collective, roles, size_bytes)
    every = default.version < PER_COLLECTIVE
    way = next(iter(ways.values())) if every else ways.get(collective.value)
    if way is None:
        return otherwise
    name, protocol = way
    if name not in default.options:
        if not every:
            return None
        name = RING
    lines = simulator.by(collective, ALGORITHMS[name], roles)
    line = next((line for line in lines if line.protocol is protocol), None)
    return price_of_line(collective.value, line, size_bytes) if line else None
