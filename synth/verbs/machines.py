"""The verbs that look at machines and at what can be said on them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from grammar import Goal, admitted
from hierarchies import catalogue, count_placements, known, placements
from synth.plan.request import Watcher
from synth.semantics.programs import Language, explore_states
from synth.verbs.answers.machine_parts import Machine as MachineInBrief
from synth.verbs.answers.machine_parts import MachineInFull
from synth.verbs.answers.machines import CatalogueReply, CountReply, PlaceReply, SystemReply
from synth.verbs.questions.fields import Flag, Limited
from synth.verbs.questions.flags import Across, Axes, Machine, MaxSteps, PerhapsMachine, Requested
from synth.verbs.questions.named_texts import system_of
from synth.verbs.questions.question import FaultyQuestion, Question, axes_of
from synth.verbs.reply import Outcome, Reply, reply


class SystemsQuestion(FaultyQuestion):
    """List the known machines, or show one with its links and their sources."""

    system: Annotated[PerhapsMachine, Flag("Show this one in full", spelled="NAME")] = None


class PlaceQuestion(Question):
    """List every placement of parallelism axes on a system."""

    system: Machine
    axes: Axes


class CountQuestion(Question):
    """Count the valid programs of a synthesis tree by their length."""

    digits: Annotated[int, Limited.DIGITS, Flag("Digits of the synthesis tree")] = Field(ge=0)
    max_steps: MaxSteps = 5
    across: Across = False
    request: Requested = Goal.ALL_REDUCE


def systems(question: SystemsQuestion, watcher: Watcher) -> Reply:
    """The catalogue, or one system with all its numbers and their sources."""
    if question.system is not None:
        system = question.changed(system_of(question.system))
        return reply(SystemReply.like(system=MachineInFull.of(system)))
    listed = [MachineInBrief.of(known(name)) for name in catalogue()]
    return reply(CatalogueReply.like(systems=listed))


def place(question: PlaceQuestion, watcher: Watcher) -> Reply:
    """Every placement of the axes, in order, and how many there are."""
    system = system_of(question.system).check_even()
    axes = axes_of(question.axes)
    found = PlaceReply.like(
        question,
        system=MachineInBrief.of(system),
        count=count_placements(system.hierarchy, axes),
        placements=[[list(row) for row in p.matrix] for p in placements(system.hierarchy, axes)],
    )
    return reply(found)


def count(question: CountQuestion, watcher: Watcher) -> Reply:
    """How many instructions a tree admits, and how many valid programs there are by length."""
    language = Language(question.max_steps, question.across, question.request)
    graph = explore_states(question.digits, language, watcher.searching)
    choices = admitted(question.digits, across=question.across, goal=question.request)
    found = CountReply.like(
        question,
        graph,
        by_length=graph.count()[1:],
        instructions=len(choices),
    )
    return reply(found, Outcome.OK if graph.complete else Outcome.PARTIAL)
