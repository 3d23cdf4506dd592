"""What choices cost: seconds of what one device computes, and of what is sent.

Both are asked of the caller, who has a machine and its planner, or measurements; ``plain_prices``
takes rates. ``seconds_of`` adds them up for a plan that is made, in which a value that several read
alike is redistributed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf

from grammar.tensors.operations import Operation, Step
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.compute.flops import flops_of, type_of
from synth.step.factors import part_of
from synth.step.redistribution import RedistributionPath, find_path
from synth.step.sharding import (
    LocalOperation,
    Plan,
    RedistributedValue,
    SentValue,
    StepProgram,
    apply,
)
from synth.step.sharding.microbatches import strip_time
from synth.step.sharding.plan import PIPE
from synth.step.sharding.stages import ONCE_PHASES
from synth.step.simulation.device import RedistributionSeconds
from synth.step.simulation.pipeline import TransferSeconds
from synth.step.work import length_of


@dataclass(frozen=True)
class Prices:
    """Seconds of an operation on a device's part, and until a value lies otherwise.

    ``handing``: of so many bytes of each device from one stage to another.
    """

    computing: Callable[[Operation], float]
    sending: RedistributionSeconds
    handing: TransferSeconds


def plain_prices(
    sizes: Mapping[str, int],
    bytes_per_second: Mapping[str, float],
    flops_per_second: float,
    memory_bytes_per_second: float = inf,
) -> Prices:
    """From rates: of each axis between its devices, of arithmetic, and of memory.

    A move over several axes goes at the rate of the slowest; latencies and launches are left out.
    From stage to stage it is the rate of ``pipe``, or takes no time.
    """

    def computing(operation: Operation) -> float:
        moved = sum(type_of(one).bytes for one in (*operation.operands, *operation.results))
        return max(flops_of(operation) / flops_per_second, moved / memory_bytes_per_second)

    @cache
    def seconds_a_byte(path: RedistributionPath) -> float:
        shares = (
            (move.least(sizes), min(bytes_per_second[axis] for axis in move.axes))
            for move in path.moves
        )
        return sum(float(share) / rate for share, rate in shares if share)

    def sending(value: Type, source: Sharding, target: Sharding) -> float:
        return value.bytes * seconds_a_byte(find_path(value, source, target, sizes))

    def handing(size: int, source: int, target: int) -> float:
        return size / bytes_per_second.get(PIPE, inf)

    return Prices(computing, sending, handing)


@dataclass(frozen=True)
class PlanSeconds:
    """Of a device of each stage, one thing after the other: nothing overlaps."""

    computing: float
    sending: float

    @property
    def all(self) -> float:
        return self.computing + self.sending


def seconds_of(step: Step, plan: Plan, prices: Prices) -> PlanSeconds:
    """The seconds of a plan's operations and redistributions, each charged once.

    What is done of each microbatch counts as often as there are microbatches, what every stage does
    itself once.
    """
    return _seconds(apply(step, plan), plan, prices, 1)


def _seconds(program: StepProgram, plan: Plan, prices: Prices, around: int) -> PlanSeconds:
    computing = sending = 0.0
    parts = plan.parts
    for at, one in enumerate(program.instructions):
        once = not program.places or program.places[at].when in ONCE_PHASES
        times = around if once else around * plan.microbatches
        match one:
            case LocalOperation(body=StepProgram() as body, operation=loop):
                inside = _seconds(body, plan, prices, times * length_of(loop))
                computing += inside.computing
                sending += inside.sending
            case LocalOperation(operation=operation, how=how):
                computing += times * prices.computing(part_of(operation, how, parts).operation)
            case RedistributedValue(value=value, path=path):
                asked = strip_time(value.type, path.source, path.target, parts)
                sending += times * prices.sending(*asked)
            case SentValue(value=value, sharding=lies, source=source, target=target):
                sent = Type(value.type.dtype, part_shape(value.type, lies, parts))
                sending += times * prices.handing(sent.bytes, source, target)
    return PlanSeconds(computing, sending)
