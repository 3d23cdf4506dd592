"""The verb that simulates a training step without running it: seconds, memory and a timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Annotated, Literal

from pydantic import Field

from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from hierarchies.devices import Device
from synth.ask.answers.training.simulated import (
    Limit,
    MachineOfSimulation,
    MeasuredOfStep,
    RankOfStep,
    SimulateReply,
    SpeedOfCompute,
    share_of,
)
from synth.ask.questions.fields import Flag
from synth.ask.questions.flags import Measure, OptionalMachine
from synth.ask.questions.named_texts import system_of
from synth.ask.reply import Outcome, Reply, reply
from synth.ask.training.machines import (
    Accelerator,
    FrameworkName,
    PerhapsPrecision,
    PerhapsProfile,
    StepOnMachineQuestion,
    TargetMachine,
    accelerator_of,
    profile_of,
)
from synth.ask.training.plans import StepWithPlan
from synth.collective.ranking.oracle import ProgramPrices
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import write
from synth.collective.workload.job import Entry, JobAxis, Workload
from synth.collective.workload.quantities import parse_amount
from synth.compute import Estimate, Provenance, Section, sum_estimates_of_section
from synth.compute.flops import flops_of
from synth.compute.precision import product_peak, set_precision
from synth.compute.runtimes import IDEAL, set_framework
from synth.primitives import MULTIPLIED
from synth.step.frameworks import FRAMEWORKS
from synth.step.profiles import Kinds, known
from synth.step.redistribution.seconds import NetworkPrices
from synth.step.schedules import TransferProtocol
from synth.step.sharding import Plan
from synth.step.simulation import Overlap
from synth.step.simulation.collected import list_collectives
from synth.step.simulation.pipeline import PASSES
from synth.step.simulation.predicting import (
    PipelineRank,
    Sources,
    StepPrediction,
    StepRuntime,
    group_operations,
    predict_step,
)
from synth.step.simulation.simulation import StepTimelineRow
from synth.step.simulation.sources import Rooflines, build_sources, simulate_gains
from synth.step.simulation.spans import split_communication
from synth.step.simulation.trace import write_trace
from synth.step.work import count_primitives

MOST_ROWS = 2_000
"""Rows of a timeline in an answer: of more, the longest."""


class SimulateQuestion(StepOnMachineQuestion):
    """Put a training step on the clock: seconds, memory, what waits for what; nothing is run."""

    system: Annotated[OptionalMachine, Flag("System to run on")] = None
    device: Accelerator = None
    precision: PerhapsPrecision = None
    framework: Annotated[
        FrameworkName,
        Flag(
            "Framework whose compute is predicted, from published steps",
            f": {', '.join(FRAMEWORKS)}; {IDEAL}: as fast as the device's best kernels",
        ),
    ] = ""
    profile: PerhapsProfile = None
    overlap: Annotated[
        Literal["none", "gradients", "all"],
        Flag(
            "What is sent beside compute: none; gradients: what a step makes, as soon as it is"
            " made; all: parameters that are put together, too"
        ),
    ] = "gradients"
    prefetch: Annotated[
        int,
        Field(ge=0, le=64),
        Flag("How many layers before they are read parameters are asked for, by --overlap all"),
    ] = 1
    protocol: Annotated[
        TransferProtocol,
        Field(strict=False),
        Flag(
            "Between stages: eager: sent when ready; rendezvous: when the receiver is free, too;"
            " blocking: and the sender waits"
        ),
    ] = TransferProtocol.EAGER
    taken: Annotated[
        Measure,
        Field(ge=0, lt=1, strict=False),
        Flag("The part of a device's cores that collectives need which run beside compute"),
    ] = 0.0
    attention: Annotated[
        Literal["flash", "plain"],
        Flag("flash: as one operation, scores are never in memory; plain: as the model says"),
    ] = "flash"

    @property
    def runtime(self) -> StepRuntime:
        """How it is carried out."""
        prefetch = self.prefetch if self.overlap == "all" else None
        overlap = Overlap(sends=self.overlap != "none", prefetch=prefetch)
        return StepRuntime(overlap, self.protocol, self.taken, flash=self.attention == "flash")

    def step(self) -> Step:
        """The step, in which each replica of a recipe normalises its own samples, as frameworks do.

        Each of its microbatches, too. Raises InputError for a recipe that is not understood.
        """
        self.check_model()
        recipe = self.recipe()
        parts = recipe.replicas * recipe.microbatches if recipe else 1
        return self.read(parse_step, gcd(self.batch, parts))

    def check_machine(self) -> None:
        """Raises InputError where no machine is given."""
        if self.system is None:
            raise InputError("on which machine?", where="SYSTEM", hint="as in dgx-h100:8")

    def check_step(self, step: Step | ShardedStep | None) -> None:
        self.check_machine()
        super().check_step(step)
        assert self.system is not None
        system = system_of(self.system)
        device = set_precision(accelerator_of(system, self.device), self.precision)
        profile_of(self.profile, device, system.devices)


def simulate_step(question: SimulateQuestion, watcher: Watcher) -> Reply:
    """A step on the clock, and what would make it faster."""
    question.check_machine()
    step = question.step()
    planned = question.planned(step)
    machine = question.placed(dict(planned.plan.axes))
    assert machine is not None
    _, dtype = products(step)
    device = accelerator_of(machine.system, question.device)
    device = set_framework(set_precision(device, question.precision, dtype), question.framework)
    profile = profile_of(question.profile, device, machine.system.devices, dtype)
    measured = profile and known(profile, planned.step, planned.program, planned.plan.parts)
    network = NetworkPrices(ProgramPrices(machine.system, stripes=False), machine.placement)
    seconds = measured.seconds if measured else {}
    clock = _StepTimer(planned, question.runtime, network, device, seconds)
    answer = _answer(question, step, machine, clock, measured.kinds if measured else None)
    return reply(answer, Outcome.OK if answer.fits else Outcome.NO)


def _answer(
    question: SimulateQuestion,
    step: Step,
    machine: TargetMachine,
    clock: _StepTimer,
    kinds: Kinds | None,
) -> SimulateReply:
    """All that is to be said of a step on the clock."""
    plan, device, found = clock.planned.plan, clock.device, clock.run(clock.likely)
    ranks, seconds = found.ranks, found.seconds
    busiest, moment = ranks[found.busiest], ranks[found.fullest].moment
    (flops, dtype), (samples, tokens) = products(step), size_of(step)
    rate = flops / seconds if seconds else 0.0
    files = {f"{step.name}.trace.json": write_trace(step.name, found)}
    if job := _job(step, plan, found):
        files[f"{step.name}.job.toml"] = write(job)
    gains = sorted(simulate_gains(found, clock.likely, clock.run), key=lambda gain: gain.seconds)
    profile = question.profile.name if question.profile else ""
    return SimulateReply.like(
        found,
        plan,
        question.runtime,
        name=step.name,
        plan=clock.planned.text,
        machine=MachineOfSimulation.like(
            device=device.name,
            device_bytes=round(device.memory_bytes),
            peak_flops_per_second=product_peak(device, dtype),
            dtype=dtype,
            precision=device.precision,
            **machine.keys,
        ),
        compute_source=clock.how,
        speed=SpeedOfCompute.of(device, question.framework),
        measured=MeasuredOfStep.of(profile, kinds, found, plan.microbatches),
        interval=(clock.run(clock.fast).seconds, clock.run(clock.slow).seconds),
        samples=samples,
        tokens=tokens,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        flops=flops,
        utilisation=rate / (plan.devices * product_peak(device, dtype)),
        limit=_limit(busiest),
        idle_share=share_of(sum(rank.idle_seconds for rank in ranks) / len(ranks), seconds),
        sent=busiest.sent,
        handed_bytes=max(found.device.handed.values(), default=0),
        memory=moment,
        fits=moment.size_bytes <= round(device.memory_bytes),
        gains=[
            (gain.what, gain.seconds, seconds / gain.seconds - 1 if gain.seconds else 0.0)
            for gain in gains
        ],
        ranks=[
            RankOfStep.of(found, rank, _longest_rows(found, number))
            for number, rank in enumerate(ranks)
        ],
        files=files,
    )


def _limit(rank: PipelineRank) -> Limit:
    parts: dict[Limit, float] = {
        "computing": rank.compute_seconds,
        "communication": rank.exposed_seconds,
        "idle": rank.idle_seconds,
    }
    return max(parts, key=lambda limit: parts[limit])


def _longest_rows(found: StepPrediction, rank: int) -> list[StepTimelineRow]:
    """The rows of a rank; of very many the longest. Where passes are, what is in them may wait."""
    most = MOST_ROWS // len(found.ranks)
    rows = list(found.passes(rank))
    if len(rows) <= most:
        rows = list(split_communication(found.rows(rank)))
    if len(rows) > most:
        rows = sorted(rows, key=_row_order, reverse=True)[:most]
        rows.sort(key=lambda row: (row.stream, row.begin_seconds))
    return rows


def _row_order(row: StepTimelineRow) -> tuple[bool, float]:
    """Passes before what they are made of, then the longest."""
    return row.stream == PASSES, row.end_seconds - row.begin_seconds


@dataclass
class _StepTimer:
    """A step that is timed from several sources of seconds; sections are estimated once."""

    planned: StepWithPlan
    runtime: StepRuntime
    network: NetworkPrices
    device: Device
    measured: Mapping[int, Estimate]

    def __post_init__(self) -> None:
        planned = self.planned
        self._grouping = group_operations(
            planned.plan, planned.program, self.runtime, self.measured
        )
        rooflines = Rooflines.of(
            self.device, planned.step, planned.plan, planned.program, flash=self.runtime.flash
        )
        known: dict[int, tuple[Section, Estimate]] = {}

        def estimated(section: Section) -> Estimate:
            if id(section) not in known:
                known[id(section)] = (section, rooflines(section))
            return known[id(section)][1]

        self._known = known
        self.likely = build_sources(estimated, self.network)
        self.fast = replace(self.likely, computing=lambda section: estimated(section).low)
        self.slow = replace(self.likely, computing=lambda section: estimated(section).high)

    @property
    def how(self) -> Provenance:
        """How the least known section is known."""
        return sum_estimates_of_section(estimate for _, estimate in self._known.values()).how

    def run(self, sources: Sources) -> StepPrediction:
        planned = self.planned
        return predict_step(
            planned.step, planned.plan, planned.program, sources, self.runtime, self._grouping
        )


def products(step: Step) -> tuple[int, str]:
    """Operations of all products of matrices, and the type that most of them are in."""
    found: Counter[str] = Counter()
    for operation, times in count_primitives(step.graph):
        if operation.primitive in MULTIPLIED:
            found[operation.operands[0].type.dtype] += times * flops_of(operation)
    [(dtype, _)] = found.most_common(1) or [("f32", 0)]
    return sum(found.values()), dtype


def size_of(step: Step) -> tuple[int, int]:
    """Samples and tokens of a batch: those of its first input that has them."""
    batch = [
        (label, value)
        for label, role, value in zip(step.labels, step.roles, step.graph.inputs, strict=True)
        if role == "batch" and value.type.shape
    ]
    if not batch:
        return 1, 0
    tokens = [value.type.elements for label, value in batch if label.endswith("tokens")]
    return batch[0][1].type.shape[0], tokens[0] if tokens else 0


def _job(step: Step, plan: Plan, found: StepPrediction) -> Workload | None:
    """The collectives as a job, which ``plan --job`` reads; None if there are none."""
    entries = tuple(
        Entry(
            f"{collective.goal.value} of {collective.size_bytes} B"
            f" over {', '.join(collective.over)}",
            collective.goal,
            collective.over,
            parse_amount(f"{collective.size_bytes} B"),
            parse_amount(collective.times),
            parse_amount(round(collective.hidden, 6)),
        )
        for collective in list_collectives(plan, found)
        if collective.times
    )
    if not entries:
        return None
    return Workload(
        step.name,
        f"The collectives of a step of {step.name}, as simulated",
        ("collsynth simulate: hidden shares are computed on the clock",),
        tuple(JobAxis(name, (size,)) for name, size in plan.axes),
        (),
        (),
        entries,
    )
