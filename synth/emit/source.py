"""What every emitter is given: a schedule, what it costs where, and what the caller asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from hierarchies import InputError, System
from synth.emit.mesh import Mesh, RankOrder, mesh
from synth.overlap import makespan_seconds
from synth.proof import Proved, Unknown
from synth.schedule import Exchange, Schedule
from synth.simulator import StepPrice

Files = dict[str, str | bytes]
"""What a target consists of: the content of each file by its name."""


@dataclass(frozen=True)
class Options:
    """What a caller may say about the form of what is emitted.

    * ``rank_order``: how the job's processes are numbered;
    * ``hosts``: names of the machines, in the order of the hierarchy (else host0, host1, ...);
    * ``host_level``: the level whose units are hosts (else the one called node or host);
    * ``channels``: how many channels NCCL uses, for its tuner;
    * ``made_by``: who signs the files.
    """

    rank_order: RankOrder = RankOrder.MACHINE
    hosts: tuple[str, ...] = ()
    host_level: str | None = None
    channels: int | None = None
    made_by: str = "collsynth"


@dataclass(frozen=True)
class Source:
    """A schedule on a system, with the price of each phase and what z3 said of its program.

    Prices are of one segment.
    """

    schedule: Schedule
    system: System
    prices: tuple[StepPrice, ...]
    verdict: Proved | Unknown
    options: Options = field(default_factory=Options)

    @property
    def mesh(self) -> Mesh:
        return mesh(self.schedule.reduction.placement, self.options.rank_order)

    @property
    def seconds(self) -> float:
        """What the simulator says the whole schedule takes, its segments overlapping."""
        return makespan_seconds([price.work for price in self.prices], self.schedule.segments)


class CannotExpressError(InputError):
    """A target has no way to say a step. ``step`` counts the exchanges of the schedule from 1."""


def step_of(schedule: Schedule, phase: int) -> int:
    """The step a phase belongs to: exchanges up to it, counted from 1."""
    return sum(isinstance(p, Exchange) for p in schedule.phases[: phase + 1])


def cannot(source: Source, phase: int, why: str) -> CannotExpressError:
    """The error for a phase, by its position in the schedule, that a target cannot express."""
    what = source.schedule.phases[phase]
    name = what.collective.value if isinstance(what, Exchange) else "transpose"
    return CannotExpressError(f"{name}: {why}", where=f"step {step_of(source.schedule, phase)}")
