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
from grammar.tensors.primitives import MULTIPLIED
from hierarchies import InputError
from hierarchies.devices import Device
from synth.compute import Estimate, How, Section, together
from synth.compute.flops import flops_of, type_of
from synth.plan.request import Watcher
from synth.train.orders import Protocol
from synth.train.plans import Plan
from synth.train.profiles import known
from synth.train.simulation import Overlap
from synth.train.simulation.collected import collected
from synth.train.simulation.gains import gains
from synth.train.simulation.groups import scores_in
from synth.train.simulation.predicting import Predicted, Runtime, Sources, grouped, predicted
from synth.train.simulation.sources import Network, Rooflines
from synth.train.simulation.trace import trace
from synth.train.work import primitives
from synth.verbs.answers.parts import TextFile
from synth.verbs.answers.training import shards
from synth.verbs.answers.training.simulated import Asked, SimulateReply
from synth.verbs.questions.fields import Flag
from synth.verbs.questions.flags import Measure, PerhapsMachine
from synth.verbs.reply import Outcome, Reply, reply
from synth.verbs.training.machines import (
    Accelerator,
    PerhapsProfile,
    StepOnMachineQuestion,
    accelerator_of,
    profile_of,
)
from synth.verbs.training.plans import Planned
from synth.workload.files import write
from synth.workload.job import Entry, Job, JobAxis
from synth.workload.quantities import amount_of


class SimulateQuestion(StepOnMachineQuestion):
    """Put a training step on the clock: seconds, memory, what waits for what; nothing is run."""

    system: Annotated[PerhapsMachine, Flag("Where it is to run")] = None
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
        Protocol,
        Field(strict=False),
        Flag(
            "Between stages: eager: sent when ready; rendezvous: when the receiver is free, too;"
            " blocking: and the sender waits"
        ),
    ] = Protocol.EAGER
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
    def runtime(self) -> Runtime:
        """How it is carried out."""
        prefetch = self.prefetch if self.overlap == "all" else None
        overlap = Overlap(sends=self.overlap != "none", prefetch=prefetch)
        return Runtime(overlap, self.protocol, self.taken, flash=self.attention == "flash")

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


def simulated(question: SimulateQuestion, watcher: Watcher) -> Reply:
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
    network = Network.of(system, placement)
    clock = _Clock(found, question.runtime, network, device, measured.seconds if measured else {})
    whole = clock.run(clock.likely)
    asked = Asked(
        step,
        found.plan,
        found.text,
        shards.Machine(network.redistributor, by_framework),
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
    gained = list(gains(whole, clock.likely, clock.run))
    files = [TextFile(name=f"{step.name}.trace.json", text=trace(step.name, whole))]
    files += _job(step, found.plan, whole)
    answer = SimulateReply.of(asked, whole, gained, files)
    return reply(answer, Outcome.OK if answer.fits else Outcome.NO)


@dataclass
class _Clock:
    """A step that is timed from several sources of seconds; sections are estimated once."""

    planned: Planned
    runtime: Runtime
    network: Network
    device: Device
    measured: Mapping[int, Estimate]

    def __post_init__(self) -> None:
        one = self.planned
        scores = scores_in(one.program, one.plan.parts) if self.runtime.flash else frozenset()
        self._grouping = grouped(one.plan, one.program, self.runtime, self.measured)
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
    def how(self) -> How:
        """How the least known section is known."""
        return together(one for _, one in self._known.values()).how

    def run(self, sources: Sources) -> Predicted:
        one = self.planned
        told = (one.step, one.plan, one.program, sources, self.runtime)
        return predicted(*told, self._grouping)


def products(step: Step) -> tuple[int, str]:
    """Operations of all products of matrices, and the type that most of them are in."""
    found: Counter[str] = Counter()
    for one, times in primitives(step.graph):
        if one.primitive in MULTIPLIED:
            found[type_of(one.operands[0]).dtype] += times * flops_of(one)
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


def _job(step: Step, plan: Plan, found: Predicted) -> list[TextFile]:
    """The collectives as a job, which ``plan --job`` reads."""
    entries = tuple(
        Entry(
            f"{one.goal.value} of {one.size_bytes} B over {', '.join(one.over)}",
            one.goal,
            one.over,
            amount_of(f"{one.size_bytes} B"),
            amount_of(one.times),
            amount_of(round(one.hidden, 6)),
        )
        for one in collected(plan, found)
        if one.times
    )
    if not entries:
        return []
    job = Job(
        step.name,
        f"The collectives of a step of {step.name}, as simulated",
        ("collsynth simulate: hidden shares are computed on the clock",),
        tuple(JobAxis(name, (size,)) for name, size in plan.axes),
        (),
        (),
        entries,
    )
    return [TextFile(name=f"{step.name}.job.toml", text=write(job))]
