"""A step predicted: what a plan makes of it, on the clock, from seconds that the caller knows.

Where seconds come from is the caller's: rooflines and the planner's prices before anything ran, or
what was measured of sections and of collectives. All else follows from the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from grammar.tensors.operations import Step
from synth.compute import Estimate
from synth.train.orders import Order, Protocol
from synth.train.plans import Plan, Program
from synth.train.plans.program import EVERYWHERE
from synth.train.plans.stages import ONCE
from synth.train.simulation.device import (
    Computing,
    Device,
    Overlap,
    Sending,
    device,
    grouping_of,
)
from synth.train.simulation.groups import Grouping, scores_in
from synth.train.simulation.memory import Moment
from synth.train.simulation.pipeline import Handing, Pipelined, pipelined
from synth.train.simulation.simulation import Row, Sent, Simulated, simulate


@dataclass(frozen=True)
class Sources:
    """Seconds: of a section on a device, of a redistribution, of bytes from stage to stage."""

    computing: Computing
    sending: Sending
    handing: Handing


@dataclass(frozen=True)
class Runtime:
    """How a runtime carries a program out.

    ``protocol`` is that of transfers between stages. ``taken``: the part of a device's cores that
    collectives need which run beside compute. ``flash``: scores of attention are never in memory.
    ``whole``: sections are as long as they may be, else operations are done one by one.
    """

    overlap: Overlap = field(default_factory=Overlap)
    protocol: Protocol = Protocol.EAGER
    taken: float = 0.0
    flash: bool = True
    whole: bool = True


@dataclass(frozen=True)
class Rank:
    """What the devices of one rank of a pipeline do: their times add up to the step's.

    ``stages`` is empty where there are none.
    """

    stages: tuple[int, ...]
    compute_seconds: float
    sent: tuple[Sent, ...]
    idle_seconds: float
    moment: Moment

    @property
    def exposed_seconds(self) -> float:
        return sum(one.exposed_seconds for one in self.sent)


@dataclass(frozen=True, eq=False)
class Predicted:
    """A step on the clock, with microbatches or without."""

    device: Device
    run: Simulated | Pipelined

    @property
    def seconds(self) -> float:
        return self.run.seconds

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """What each rank of the pipeline does; one, if there is none."""
        run = self.run
        if isinstance(run, Simulated):
            return (Rank((), run.compute_seconds, run.sent, 0.0, run.largest_moment),)
        return tuple(
            Rank(
                tuple(sorted({key.stage for one in run.ranks[rank] for key in one.keys})),
                run.compute_seconds(rank),
                run.sent(rank),
                share * run.seconds,
                run.largest_moments[rank],
            )
            for rank, share in enumerate(run.idle_shares)
        )

    @property
    def busiest(self) -> int:
        """The rank that is idle least."""
        return min(range(len(self.ranks)), key=lambda rank: self.ranks[rank].idle_seconds)

    @property
    def fullest(self) -> int:
        """The rank that needs the most memory."""
        return max(range(len(self.ranks)), key=lambda rank: self.ranks[rank].moment.size_bytes)

    def rows(self, rank: int) -> Iterator[Row]:
        """The timeline of a rank, with what its passes are made of."""
        if isinstance(self.run, Simulated):
            yield from self.run.rows()
        else:
            yield from self.run.rows(rank)

    def passes(self, rank: int) -> Iterator[Row]:
        """Those of a rank; none of a step without microbatches."""
        if isinstance(self.run, Pipelined):
            yield from (span.row for span in self.run.ranks[rank])


def grouped(
    plan: Plan,
    program: Program,
    runtime: Runtime,
    measured: Mapping[int, Estimate] = MappingProxyType({}),
) -> Grouping:
    """Which operations are one section: to be given where one program is timed several times.

    ``measured``: seconds of operations of this very program, as ``Grouping`` has them.
    """
    unstored = scores_in(program, plan.parts) if runtime.flash else ()
    return grouping_of(
        plan, runtime.overlap, whole=runtime.whole, unstored=unstored, measured=measured
    )


def predicted(
    step: Step,
    plan: Plan,
    program: Program,
    sources: Sources,
    runtime: Runtime | None = None,
    grouping: Grouping | None = None,
) -> Predicted:
    """The program of a plan on the clock; ``step`` is prepared for the plan.

    ``grouping`` is that of the same program, so that it is not worked out again. Raises
    InputError for an order whose passes the program does not tell apart, and where blocking
    transfers stand still.
    """
    runtime = runtime or Runtime()
    found = written(step, plan, program, sources, runtime, grouping)
    if not program.places:
        return Predicted(found, simulate(found, runtime.taken))
    return in_order(found, plan.order, plan.microbatches, sources.handing, runtime)


def written(
    step: Step,
    plan: Plan,
    program: Program,
    sources: Sources,
    runtime: Runtime,
    grouping: Grouping | None = None,
) -> Device:
    """The same as tasks, before they are on the clock."""
    grouping = grouping or grouped(plan, program, runtime)
    told = (sources.computing, sources.sending, runtime.overlap, grouping)
    return device(step, plan, program, *told)


def local_seconds(found: Predicted, microbatches: int) -> tuple[float, float]:
    """Seconds that a device of each rank computes in a step, and those that were measured."""
    whole = measured = 0.0
    for task in found.device.tasks:
        if not task.request:
            times = 1 if task.place.when in ONCE else microbatches
            times *= len(found.ranks) if task.place.stage == EVERYWHERE else 1
            whole += times * task.seconds
            measured += times * task.measured
    return whole, measured


def in_order(
    device: Device,
    order: Order | None,
    microbatches: int,
    handing: Handing,
    runtime: Runtime,
) -> Predicted:
    """Tasks of one microbatch on the clock, all stages doing theirs by an order."""
    found = pipelined(
        device,
        order,
        microbatches,
        handing,
        runtime.protocol,
        prompt=runtime.overlap.sends,
        taken=runtime.taken,
    )
    return Predicted(device, found)
