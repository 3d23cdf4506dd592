"""The verbs that look at machines and at what can be said on them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from grammar import Goal, list_instructions
from hierarchies import Placement, catalogue, count_placements, load_known, placements
from hierarchies.graphs import graph_of
from synth.ask.answers.graphs import GraphFormat, GraphReply
from synth.ask.answers.machines import (
    CatalogueReply,
    CountReply,
    PlacementInWords,
    PlaceReply,
    SystemReply,
)
from synth.ask.questions.fields import CostLimit, Flag
from synth.ask.questions.flags import (
    AcrossGroups,
    Axes,
    Machine,
    MaxSteps,
    OnePlacement,
    OptionalMachine,
    RequestedGoal,
)
from synth.ask.questions.named_texts import system_of
from synth.ask.questions.question import FaultyQuestion, Question, axes_of, matrix_of
from synth.ask.reply import Reply, reply, reply_of_search
from synth.collective.ranking.request import Watcher
from synth.collective.semantics.programs import Language, explore_states


class SystemsQuestion(FaultyQuestion):
    """List the known machines, or show one with its links and their sources."""

    system: Annotated[OptionalMachine, Flag("System to show in full", spelled="NAME")] = None


class GraphQuestion(FaultyQuestion):
    """Write a machine as a graph of devices, ports, switches and cables, or draw it."""

    system: Machine
    format: Annotated[
        GraphFormat | None,
        Field(strict=False),
        Flag(
            f"How it is written: {', '.join(GraphFormat)}",
            "; else as the name after -o ends",
            ending=True,
        ),
    ] = None


class PlaceQuestion(Question):
    """List every placement of parallelism axes on a system, and what frameworks do by default."""

    system: Machine
    axes: Axes
    placement: OnePlacement = None


class CountQuestion(Question):
    """Count the valid programs of a synthesis tree by their length."""

    digits: Annotated[int, CostLimit.DIGITS, Flag("Number of digits of the synthesis tree")] = (
        Field(ge=0)
    )
    max_steps: MaxSteps = 5
    across: AcrossGroups = False
    request: RequestedGoal = Goal.ALL_REDUCE


def show_systems(question: SystemsQuestion, watcher: Watcher) -> Reply:
    """The catalogue, or one system with all its numbers and their sources."""
    if question.system is not None:
        system = question.changed(system_of(question.system))
        return reply(SystemReply.like(system=system))
    return reply(CatalogueReply.like(systems=map(load_known, catalogue())))


def graph_machine(question: GraphQuestion, watcher: Watcher) -> Reply:
    """A machine as a graph in one format, and in few words what is in it."""
    # Not at the top of the file: networkx takes longer to load than all other modules together.
    from hierarchies.graphs.formats import FORMATS

    system = question.changed(system_of(question.system))
    found = graph_of(system)
    format = question.format or GraphFormat.GRAPHML
    return reply(GraphReply.of(system, found, format, FORMATS[format](system, found)))


def place(question: PlaceQuestion, watcher: Watcher) -> Reply:
    """Every placement of the axes, in order, or the one that is given; how many there are."""
    system = system_of(question.system).check_even()
    axes = axes_of(question.axes)
    every = list(placements(system.hierarchy, axes))
    if question.placement is not None:
        every = [Placement(system.hierarchy, axes, matrix_of(question.placement))]
    found = PlaceReply.like(
        question,
        system=system,
        count=count_placements(system.hierarchy, axes),
        placements=every,
        described=[PlacementInWords.of(placement, system.is_torus) for placement in every],
    )
    return reply(found)


def count(question: CountQuestion, watcher: Watcher) -> Reply:
    """How many instructions a tree admits, and how many valid programs there are by length."""
    language = Language(question.max_steps, question.across, question.request)
    graph = explore_states(question.digits, language, watcher.searching)
    choices = list_instructions(question.digits, across=question.across, goal=question.request)
    found = CountReply.like(
        question,
        graph,
        by_length=graph.count()[1:],
        instructions=len(choices),
    )
    return reply_of_search(found)
