"""What is run: models, the plans that cut them, and the rates of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from grammar.tensors.operations import Step
from synth.step.emit import write
from synth.step.models import ModelSettings, zoo_step
from synth.step.profiles import OperationBlock, ProfileEvent, list_events
from synth.step.sharding import Plan, StepProgram, apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import Overlap

RUNTIME = "torch"


@dataclass(frozen=True)
class Model:
    """A model of the zoo with sizes of its own, small enough for a core."""

    name: str
    sizes: tuple[tuple[str, int], ...]
    batch: int
    optimizer: str = "adamw"

    def __str__(self) -> str:
        sizes = ",".join(f"{name}={size}" for name, size in self.sizes)
        return f"{self.name} {sizes} batch={self.batch} {self.optimizer}"


WIDE = Model("mlp", (("width", 1024), ("layers", 4)), 512)
DEEP = Model("mlp", (("width", 512), ("layers", 10)), 1024)
DECODER = Model(
    "gpt2-tiny",
    (("width", 256), ("heads", 4), ("layers", 4), ("sequence", 64), ("vocabulary", 512)),
    8,
)


@dataclass(frozen=True)
class Case:
    """A model cut by a plan, on a network of this rate; ``overlap``: sent beside compute."""

    model: Model
    plan: str
    megabits: float
    overlap: bool = False

    @property
    def name(self) -> str:
        how = ", overlapped" if self.overlap else ""
        return f"{self.model}: {self.plan}{how}, {self.megabits:g} Mbit/s"

    @cached_property
    def planned(self) -> Planned:
        return planned(self.model, self.plan)

    @property
    def overlaps(self) -> Overlap:
        return Overlap(sends=self.overlap)

    @cached_property
    def text(self) -> str:
        one = self.planned
        return write(
            RUNTIME,
            one.step,
            one.program,
            one.plan.sizes,
            schedule=one.plan,
            overlap=self.overlap,
        )


@dataclass(frozen=True)
class Planned:
    """A step as it was traced and as its plan has it, and its blocks with their events."""

    whole: Step
    step: Step
    plan: Plan
    program: StepProgram

    @cached_property
    def pairs(self) -> list[tuple[OperationBlock, ProfileEvent]]:
        return list(list_events(RUNTIME, self.step, self.program, self.plan.parts))

    @cached_property
    def events(self) -> Mapping[str, ProfileEvent]:
        return {event.key: event for _, event in self.pairs}


@cache
def planned(model: Model, text: str) -> Planned:
    spelling = ModelSettings(batch=model.batch, optimizer=model.optimizer, unrolled=True)
    step = zoo_step(model.name, dict(model.sizes), spelling)
    plan = plan_of(step, parse_recipe(text))
    return Planned(step, prepare_step(step, plan), plan, apply(prepare_step(step, plan), plan))


DP = "data=2; batch over data"
TP = "tensor=2; weights over tensor as Megatron"
RATES = (100.0, 200.0, 400.0, 800.0)
PIPELINES = (("gpipe", 2), ("gpipe", 4), ("1f1b", 4), ("1f1b", 8))
"""Schedules, and in how many microbatches."""


def cases() -> list[Case]:
    """All that are run, by rate."""
    found = []
    for rate in RATES:
        found += [
            Case(WIDE, f"{DP}{zero}", rate) for zero in ("", *map("; zero={}".format, (1, 2, 3)))
        ]
        found += [Case(DEEP, DP, rate), Case(DEEP, f"{DP}; zero=3", rate)]
        found += [Case(DECODER, DP, rate), Case(DECODER, TP, rate)]
        found += [Case(WIDE, DP, rate, True), Case(DECODER, DP, rate, True)]
        found += [Case(DEEP, f"{DP}; zero=2", rate, True)]
        found += [
            Case(DEEP, f"pipe=2; schedule {schedule}, {count} microbatches", rate)
            for schedule, count in PIPELINES
        ]
    return found
