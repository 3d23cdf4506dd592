"""Predicts a step: times the program of a plan with seconds that the caller provides.

The caller decides the source of the seconds: rooflines and prices before anything has run, or
measurements of sections and collectives. The rest follows from the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType

from grammar.tensors.operations import Step
from synth.compute import Estimate
from synth.step.same import IdentityKey
from synth.step.schedules import PipelineSchedule, TransferProtocol
from synth.step.sharding import Plan, StepProgram, apply, prepare_step
from synth.step.sharding.program import EVERYWHERE
from synth.step.sharding.stages import ONCE_PHASES
from synth.step.simulation.device import (
    DeviceTasks,
    LinkOccupancy,
    Overlap,
    RedistributionSeconds,
    SectionSeconds,
    grouping_of,
    occupy_nothing,
    write_device,
)
from synth.step.simulation.groups import OperationGrouping, find_scores
from synth.step.simulation.memory import MemorySnapshot
from synth.step.simulation.pipeline import (
    PipelineTimeline,
    TransferOccupancy,
    TransferSeconds,
    occupy_no_link,
    simulate_pipeline,
)
from synth.step.simulation.simulation import (
    DeviceTimeline,
    RequestSummary,
    StepTimelineRow,
    simulate,
)


@dataclass(frozen=True)
class Sources:
    """Functions that return the seconds of sections, of redistributions and of stage transfers.

    ``occupancy`` and ``handing_occupancy``: the links that redistributions and transfers keep busy.
    """

    computing: SectionSeconds
    sending: RedistributionSeconds
    handing: TransferSeconds
    occupancy: LinkOccupancy = occupy_nothing
    handing_occupancy: TransferOccupancy = occupy_no_link


@dataclass(frozen=True)
class StepRuntime:
    """Settings of a runtime that executes programs.

    ``protocol``: the protocol of transfers between stages. ``taken``: the share of a device's cores
    that collectives use while they overlap computation. ``flash``: attention scores are never in
    memory. ``whole``: sections are as long as possible; otherwise operations run one by one.
    """

    overlap: Overlap = field(default_factory=Overlap)
    protocol: TransferProtocol = TransferProtocol.EAGER
    taken: float = 0.0
    flash: bool = True
    whole: bool = True


@dataclass(frozen=True)
class PipelineRank:
    """Seconds and memory of one pipeline rank; its seconds add up to those of the step.

    ``stages`` is empty if the step has no stages.
    """

    stages: tuple[int, ...]
    compute_seconds: float
    sent: tuple[RequestSummary, ...]
    idle_seconds: float
    moment: MemorySnapshot

    @property
    def exposed_seconds(self) -> float:
        return sum(summary.exposed_seconds for summary in self.sent)


@dataclass(frozen=True, eq=False)
class StepPrediction:
    """A simulated step, with microbatches or without."""

    device: DeviceTasks
    run: DeviceTimeline | PipelineTimeline

    @property
    def seconds(self) -> float:
        return self.run.seconds

    @cached_property
    def ranks(self) -> tuple[PipelineRank, ...]:
        """The ranks of the pipeline; a single rank if there is no pipeline."""
        run = self.run
        if isinstance(run, DeviceTimeline):
            return (PipelineRank((), run.compute_seconds, run.sent, 0.0, run.largest_moment),)
        return tuple(
            PipelineRank(
                tuple(sorted({key.stage for span in run.ranks[rank] for key in span.keys})),
                run.compute_seconds(rank),
                run.sent(rank),
                share * run.seconds,
                run.largest_moments[rank],
            )
            for rank, share in enumerate(run.idle_shares)
        )

    @property
    def busiest(self) -> int:
        """The rank with the smallest bubble."""
        return min(range(len(self.ranks)), key=lambda rank: self.ranks[rank].idle_seconds)

    @property
    def fullest(self) -> int:
        """The rank that needs the most memory."""
        return max(range(len(self.ranks)), key=lambda rank: self.ranks[rank].moment.size_bytes)

    def rows(self, rank: int) -> Iterator[StepTimelineRow]:
        """Yields the timeline of a rank, with the tasks of its passes."""
        if isinstance(self.run, DeviceTimeline):
            yield from self.run.rows()
        else:
            yield from self.run.rows(rank)

    def passes(self, rank: int) -> Iterator[StepTimelineRow]:
        """Yields the passes of a rank; none for a step without microbatches."""
        if isinstance(self.run, PipelineTimeline):
            yield from (span.row for span in self.run.ranks[rank])


_NOTHING: Mapping[int, Estimate] = MappingProxyType({})
"""No measurements."""


def group_operations(
    plan: Plan,
    program: StepProgram,
    runtime: StepRuntime,
    measured: Mapping[int, Estimate] = _NOTHING,
) -> OperationGrouping:
    """Returns a grouping of operations into sections, to share if a program is timed repeatedly.

    ``measured``: seconds of operations of the same program object, as in ``OperationGrouping``.
    """
    return _group_operations(
        IdentityKey(plan), IdentityKey(program), runtime, IdentityKey(measured or _NOTHING)
    )


@lru_cache(maxsize=8)
def _group_operations(
    plan_key: IdentityKey[Plan],
    program_key: IdentityKey[StepProgram],
    runtime: StepRuntime,
    measured: IdentityKey[Mapping[int, Estimate]],
) -> OperationGrouping:
    # Cached: a plan that is simulated is written twice, and its groups depend on no price. It is
    # written first to list the collectives that are to be priced.
    plan, program = plan_key.one, program_key.one
    unstored = find_scores(program, plan.parts) if runtime.flash else ()
    return grouping_of(
        plan, runtime.overlap, whole=runtime.whole, unstored=unstored, measured=measured.one
    )


def write_plan(
    step: Step,
    plan: Plan,
    sources: Sources,
    runtime: StepRuntime,
    measured: Mapping[int, Estimate] = _NOTHING,
) -> DeviceTasks:
    """Writes the tasks of a plan as a runtime executes it; ``measured``: as for grouping."""
    program = apply(step, plan)
    grouping = group_operations(plan, program, runtime, measured)
    seconds = sources.computing, sources.sending
    ready = prepare_step(step, plan)
    return write_device(
        ready, plan, program, *seconds, runtime.overlap, grouping, sources.occupancy
    )


def predict_step(
    step: Step,
    plan: Plan,
    program: StepProgram,
    sources: Sources,
    runtime: StepRuntime | None = None,
    grouping: OperationGrouping | None = None,
) -> StepPrediction:
    """Simulates the program of a plan; ``step`` is prepared for the plan.

    ``grouping``: the grouping of the same program, if the caller already has it. Raises InputError
    for a schedule with passes that the program does not separate, and for a deadlock of blocking
    transfers.
    """
    runtime = runtime or StepRuntime()
    grouping = grouping or group_operations(plan, program, runtime)
    seconds = sources.computing, sources.sending
    tasks = write_device(
        step, plan, program, *seconds, runtime.overlap, grouping, sources.occupancy
    )
    return predict_tasks(tasks, plan.order, plan.microbatches, sources, runtime)


def local_seconds(prediction: StepPrediction, microbatches: int) -> tuple[float, float]:
    """Returns the compute seconds of a step, summed over ranks, and how many were measured."""
    device, whole, measured = prediction.device, 0.0, 0.0
    for task in device.tasks:
        if not task.request:
            times, stage = 1 if task.place.when in ONCE_PHASES else microbatches, task.place.stage
            times *= len(prediction.ranks) if stage == EVERYWHERE else device.count_stages(stage)
            whole += times * task.seconds
            measured += times * task.measured
    return whole, measured


def predict_tasks(
    device: DeviceTasks,
    order: PipelineSchedule | None,
    microbatches: int,
    sources: Sources,
    runtime: StepRuntime,
) -> StepPrediction:
    """Simulates a device, or all stages that run its tasks in the order of a schedule."""
    if microbatches == 1:
        return StepPrediction(device, simulate(device, runtime.taken))
    timeline = simulate_pipeline(
        device,
        order,
        microbatches,
        sources.handing,
        runtime.protocol,
        prompt=runtime.overlap.sends,
        taken=runtime.taken,
        occupancy=sources.handing_occupancy,
    )
    return StepPrediction(device, timeline)
