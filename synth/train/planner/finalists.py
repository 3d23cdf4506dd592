"""A plan on the clock in full, as the verb ``simulate`` has it: every task, and proved programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from grammar.tensors.operations import Step
from hierarchies import Placement, System, row_major
from hierarchies.devices import Device
from synth.train.planner.composing import Candidate
from synth.train.plans import apply, plan_of, prepared
from synth.train.resharding.seconds import Answers
from synth.train.simulation import Overlap, Predicted, Runtime, predicted
from synth.train.simulation.groups import scores_in
from synth.train.simulation.sources import Network, Rooflines, sources

RUNTIME = Runtime(Overlap(sends=True, prefetch=1))
"""Gradients are sent as soon as they are made, parameters put together a layer ahead."""


@dataclass(frozen=True)
class Finalist:
    """A plan, where it lies, and that on the clock."""

    candidate: Candidate
    placement: Placement
    by_framework: bool
    found: Predicted

    @property
    def size_bytes(self) -> int:
        """Of the rank that needs the most memory."""
        return self.found.ranks[self.found.fullest].moment.size_bytes


def finalist(step: Step, one: Candidate, answers: Answers, device: Device) -> Finalist:
    """The step by a candidate, simulated, with what the planner ``answers`` on the system.

    Raises InputError for a plan that is not one of the step.
    """
    system = answers.system
    plan = plan_of(step, one.recipe)
    ready, program = prepared(step, plan), apply(step, plan)
    placement = Placement(system.hierarchy, one.axes, one.rows)
    rooflines = Rooflines(device, scores_in(program, plan.parts))
    seconds = sources(rooflines, Network(answers, placement))
    found = predicted(ready, plan, program, seconds, RUNTIME)
    return Finalist(one, placement, by_framework(one, system), found)


def by_framework(one: Candidate, system: System) -> bool:
    """Whether its axes lie as frameworks lay them out by themselves."""
    usual = _usual(system.hierarchy, one.axes)
    return usual is not None and usual.matrix == one.rows


_usual = lru_cache(row_major)
"""The same for all recipes of the same axes."""
