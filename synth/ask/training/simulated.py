"""The verb that puts a training step on the clock: seconds, memory and a timeline, nothing run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Annotated, Literal

from pydantic import Field

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from hierarchies import InputError
from hierarchies.devices import Device
from synth.ask.answers.parts import TextFile
from synth.ask.answers.training import shards
from synth.ask.answers.training.simulated import SimulateReply, SimulationContext
from synth.ask.questions.fields import Flag
from synth.ask.questions.flags import Measure, OptionalMachine
from synth.ask.reply import Outcome, Reply, reply
from synth.ask.training.machines import (
    Accelerator,
    PerhapsProfile,
    StepOnMachineQuestion,
    accelerator_of,
    profile_of,
)
from synth.ask.training.plans import StepWithPlan
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import write
from synth.collective.workload.job import Entry, JobAxis, Workload
from synth.collective.workload.quantities import parse_amount
from synth.compute import Estimate, Provenance, Section, sum_estimates_of_section
from synth.compute.flops import flops_of
from synth.primitives import MULTIPLIED
from synth.step.profiles import known
from synth.step.schedules import TransferProtocol
from synth.step.sharding import Plan
from synth.step.simulation import Overlap
from synth.step.simulation.collected import list_collectives
from synth.step.simulation.gains import simulate_gains
from synth.step.simulation.groups import find_scores
from synth.step.simulation.predicting import (
    Sources,
    StepPrediction,
    StepRuntime,
    group_operations,
    predict_step,
)
from synth.step.simulation.sources import NetworkPrices, Rooflines
from synth.step.simulation.trace import write_trace
from synth.step.work import count_primitives


class SimulateQuestion(StepOnMachineQuestion):
    """Put a training step on the clock: seconds, memory, what waits for what; nothing is run."""

    system: Annotated[OptionalMachine, Flag("System to run on")] = None
    device: Accelerator = None
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


def simulate_step(question: SimulateQuestion, watcher: Watcher) -> Reply:
    """A step on the clock, and what would make it faster."""
    question.check_machine()
    step = question.step()
    found = question.planned(step)
    lies = question.placed(dict(found.plan.axes))
    assert lies is not None
    system, placement, by_framework = lies
    device = accelerator_of(system, question.device)
    flops, dtype = products(step)
    profile = profile_of(question.profile, device, system.devices, dtype)
    measured = profile and known(profile, found.step, found.program, found.plan.parts)
    network = NetworkPrices.of(system, placement)
    clock = _StepTimer(
        found, question.runtime, network, device, measured.seconds if measured else {}
    )
    whole = clock.run(clock.likely)
    asked = SimulationContext(
        step,
        found.plan,
        found.text,
        shards.TargetMachine(network.redistributor, by_framework),
        device.name,
        round(device.memory_bytes),
        device.peak(dtype),
        dtype,
        question.protocol,
        clock.how,
        (clock.run(clock.fast).seconds, clock.run(clock.slow).seconds),
        *size_of(step),
        flops,
        question.profile.name if question.profile else "",
        measured.kinds if measured else None,
    )
    gained = list(simulate_gains(whole, clock.likely, clock.run))
    files = [TextFile(name=f"{step.name}.trace.json", text=write_trace(step.name, whole))]
    files += _job(step, found.plan, whole)
    answer = SimulateReply.of(asked, whole, gained, files)
    return reply(answer, Outcome.OK if answer.fits else Outcome.NO)


@dataclass
class _StepTimer:
    """A step that is timed from several sources of seconds; sections are estimated once."""

    planned: StepWithPlan
    runtime: StepRuntime
    network: NetworkPrices
    device: Device
    measured: Mapping[int, Estimate]

    def __post_init__(self) -> None:
        one = self.planned
        scores = find_scores(one.program, one.plan.parts) if self.runtime.flash else frozenset()
        self._grouping = group_operations(one.plan, one.program, self.runtime, self.measured)
        rooflines = Rooflines(self.device, scores)
        known: dict[int, tuple[Section, Estimate]] = {}

        def estimated(section: Section) -> Estimate:
            if id(section) not in known:
                known[id(section)] = (section, rooflines(section))
            return known[id(section)][1]

        self._known = known
        network = (self.network.sending, self.network.handing)
        self.likely = Sources(lambda one: estimated(one).seconds, *network)
        self.fast = Sources(lambda one: estimated(one).low, *network)
        self.slow = Sources(lambda one: estimated(one).high, *network)

    @property
    def how(self) -> Provenance:
        """How the least known section is known."""
        return sum_estimates_of_section(one for _, one in self._known.values()).how

    def run(self, sources: Sources) -> StepPrediction:
        one = self.planned
        told = (one.step, one.plan, one.program, sources, self.runtime)
        return predict_step(*told, self._grouping)


def products(step: Step) -> tuple[int, str]:
    """Operations of all products of matrices, and the type that most of them are in."""
    found: Counter[str] = Counter()
    for one, times in count_primitives(step.graph):
        if one.primitive in MULTIPLIED:
            found[one.operands[0].type.dtype] += times * flops_of(one)
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


def _job(step: Step, plan: Plan, found: StepPrediction) -> list[TextFile]:
    """The collectives as a job, which ``plan --job`` reads."""
    entries = tuple(
        Entry(
            f"{one.goal.value} of {one.size_bytes} B over {', '.join(one.over)}",
            one.goal,
            one.over,
            parse_amount(f"{one.size_bytes} B"),
            parse_amount(one.times),
            parse_amount(round(one.hidden, 6)),
        )
        for one in list_collectives(plan, found)
        if one.times
    )
    if not entries:
        return []
    job = Workload(
        step.name,
        f"The collectives of a step of {step.name}, as simulated",
        ("collsynth simulate: hidden shares are computed on the clock",),
        tuple(JobAxis(name, (size,)) for name, size in plan.axes),
        (),
        (),
        entries,
    )
    return [TextFile(name=f"{step.name}.job.toml", text=write(job))]
