"""Prices of choices: seconds of a device's computation, and of communication.

The caller supplies both, from a machine and its planner or from measurements; ``plain_prices``
derives them from rates. ``seconds_of`` adds them up for a finished plan, in which a value is
redistributed once for all readers with equal shardings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf

from grammar.tensors.operations import Operation, Step
from grammar.tensors.sharding import Sharding, Type, part_shape
from synth.compute.flops import flops_of
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
    """Functions that return the seconds of operations on a device's part, and of communication.

    ``sending`` prices redistributions; ``handing`` prices sends of each device's bytes from one
    stage to another.
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
    """Returns prices from the rates of each axis, of arithmetic, and of memory.

    A move over several axes has the rate of the slowest axis; latencies and launches are left out.
    Sends between stages have the rate of ``pipe``, or are free without that axis.
    """

    def computing(operation: Operation) -> float:
        values = (*operation.operands, *operation.results)
        memory_bytes = sum(value.type.bytes for value in values)
        return max(flops_of(operation) / flops_per_second, memory_bytes / memory_bytes_per_second)

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
    """Seconds of a device of each stage, added up: nothing overlaps."""

    computing: float
    sending: float

    @property
    def all(self) -> float:
        return self.computing + self.sending


def seconds_of(step: Step, plan: Plan, prices: Prices) -> PlanSeconds:
    """Returns the seconds of a plan's operations and redistributions, each counted once.

    Instructions that run in each microbatch count once per microbatch; instructions that run on
    every stage count once.
    """
    return _seconds(apply(step, plan), plan, prices, 1)


def _seconds(program: StepProgram, plan: Plan, prices: Prices, repetitions: int) -> PlanSeconds:
    computing = sending = 0.0
    parts = plan.parts
    for at, instruction in enumerate(program.instructions):
        once = not program.places or program.places[at].when in ONCE_PHASES
        times = repetitions if once else repetitions * plan.microbatches
        match instruction:
            case LocalOperation(body=StepProgram() as body, operation=loop):
                inside = _seconds(body, plan, prices, times * length_of(loop))
                computing += inside.computing
                sending += inside.sending
            case LocalOperation(operation=operation, how=how):
                computing += times * prices.computing(part_of(operation, how, parts).operation)
            case RedistributedValue(value=value, path=path):
                stripped = strip_time(value.type, path.source, path.target, parts)
                sending += times * prices.sending(*stripped)
            case SentValue(value=value, sharding=sharding, source=source, target=target):
                sent = Type(value.type.dtype, part_shape(value.type, sharding, parts))
                sending += times * prices.handing(sent.bytes, source, target)
    return PlanSeconds(computing, sending)
