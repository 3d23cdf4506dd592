"""The verbs that describe machines, their placements, and the programs on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum, auto
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag

from grammar import Goal, list_instructions
from hierarchies import (
    MachineException,
    Placement,
    System,
    catalogue,
    count_placements,
    describe_axes,
    load_known,
    placements,
)
from hierarchies.graphs import Join, MachineGraph, NodeKind, graph_of
from synth.ask.answers.machine_parts import MachineInBrief, MachineInFull
from synth.ask.answers.parts import (
    AnswerPart,
    DomainName,
    GoalName,
    Matrix,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Whole,
    discriminate_by,
)
from synth.ask.answers.parts import Axes as AxisSizes
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
from synth.collective.emit.conventions import conventions
from synth.collective.ranking.request import Watcher
from synth.collective.semantics.programs import Language, explore_states


class GraphFormat(StrEnum):
    """How a graph is written: for networkx and others, for Graphviz, or as a picture."""

    GRAPHML = auto()
    JSON = auto()
    DOT = auto()
    SVG = auto()


class SystemsQuestion(FaultyQuestion):
    """List the known machines, or show one with its links and their sources."""

    system: Annotated[OptionalMachine, Flag("System to show in full", spelled="NAME")] = None

    def check_early(self) -> None:
        if self.system is not None:
            self.changed(system_of(self.system))


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

    def check_early(self) -> None:
        self.changed(system_of(self.system))


class PlaceQuestion(Question):
    """List every placement of parallelism axes on a system, and what frameworks do by default."""

    system: Machine
    axes: Axes
    placement: OnePlacement = None

    def check_early(self) -> None:
        system, axes = system_of(self.system).check_even(), axes_of(self.axes)
        next(placements(system.hierarchy, axes))
        if self.placement is not None:
            Placement(system.hierarchy, axes, matrix_of(self.placement))


class CountQuestion(Question):
    """Count the valid programs of a synthesis tree by their length."""

    digits: Annotated[int, CostLimit.DIGITS, Flag("Number of digits of the synthesis tree")] = (
        Field(ge=0)
    )
    max_steps: MaxSteps = 5
    across: AcrossGroups = False
    request: RequestedGoal = Goal.ALL_REDUCE

    def language(self) -> Language:
        """The programs that are counted. Raises InputError for what makes no sense."""
        return Language(self.max_steps, self.across, self.request)

    def check_early(self) -> None:
        self.language()


class LevelOfGraph(AnswerPart):
    """What of a graph belongs to one level."""

    name: str = Field(description="The level.")
    domain: DomainName = Field(description="How children of one parent are connected.")
    middles: Whole = Field(description="Switches, or buses.")
    ports: Whole = Field(description="Ports that are nodes: NICs and uplinks.")
    links: Whole = Field(description="Cables; both directions of one are one.")
    slowest_GB_per_s: Number | None = Field(
        description="Bandwidth of the slowest cable; null without cables."
    )
    fastest_GB_per_s: Number | None = Field(
        description="Bandwidth of the fastest cable; null without cables."
    )

    @classmethod
    def all_of(cls, system: System, graph: MachineGraph) -> list[Self]:
        """For each level, outermost first."""
        nodes = Counter((node.level, node.kind.value) for node in graph.nodes)
        rates: dict[str, list[float]] = {name: [] for name in system.hierarchy.names}
        for edge in graph.edges:
            if edge.bandwidth_bytes_per_second is not None:
                rates[edge.level].append(edge.bandwidth_bytes_per_second / 1e9)
        cables = Counter(edge.level for edge in graph.edges if edge.kind is Join.LINK)
        return [
            cls.like(
                link,
                name=name,
                middles=nodes[name, "switch"] + nodes[name, "bus"],
                ports=nodes[name, "port"],
                links=cables[name],
                slowest_GB_per_s=min(rates[name], default=None),
                fastest_GB_per_s=max(rates[name], default=None),
            )
            for name, link in zip(system.hierarchy.names, system.links, strict=True)
        ]


class Nodes(AnswerPart):
    """How many nodes a graph has, by their kinds."""

    device: Whole = Field(description="GPUs, TPUs.")
    port: Whole = Field(description="NICs, uplinks, and positions of units in a ring or mesh.")
    switch: Whole = Field(description="Switches between the children of a unit.")
    bus: Whole = Field(description="Media that children share.")


class Edges(AnswerPart):
    """How many edges a graph has, by their kinds."""

    link: Whole = Field(description="Cables.")
    attached: Whole = Field(description="Edges from units to their ports and buses.")
    detour: Whole = Field(description="Edges from dead ports to others.")


class GraphReply(ReplyModel):
    """A machine as a graph."""

    system: MachineInBrief = Field(description="The machine.")
    exceptions: list[MachineException] = Field(description="Units that are missing or slower.")
    format: GraphFormat = Field(strict=False, description="Format of the file.")
    nodes: Nodes = Field(description="Numbers of nodes by kind.")
    edges: Edges = Field(description="Numbers of edges by kind.")
    levels: list[LevelOfGraph] = Field(min_length=1, description="Outermost first.")
    files: OneFile = Field(description="The graph.")


class CatalogueReply(ReplyModel):
    """All known machines."""

    systems: list[MachineInBrief] = Field(min_length=1, description="The catalogue, in few words.")


class SystemReply(ReplyModel):
    """One machine with all its numbers and their sources."""

    system: MachineInFull = Field(description="The requested machine.")


SystemsReply = Annotated[
    Annotated[CatalogueReply, Tag("systems")] | Annotated[SystemReply, Tag("")],
    Discriminator(discriminate_by("systems")),
]


class FrameworkOrder(AnswerPart):
    """What a placement asks of a framework that counts ranks in an order of its own."""

    framework: str = Field(description="Its name.")
    default: bool = Field(description="Whether its default order gives this placement.")
    possible: bool = Field(description="False if its order does not support these axes.")
    say: str = Field(min_length=1, description="The line to write or to change, or why not.")


class PlacementInWords(AnswerPart):
    """A placement as people say it."""

    groups: list[str] = Field(
        description="For each axis of size above 1, the devices of its groups, in words."
    )
    orders: list[FrameworkOrder] = Field(description="Setting of each framework for it.")

    @classmethod
    def of(cls, placement: Placement, torus: bool) -> Self:
        return cls.like(groups=describe_axes(placement), orders=conventions(placement, torus))


class PlaceReply(ReplyModel):
    """Every placement of axes on a machine, or the one that was asked for."""

    system: MachineInBrief = Field(description="The machine.")
    axes: AxisSizes = Field(description="Sizes by name; their order is that of the rows.")
    count: Positive = Field(description="Number of placements.")
    placements: list[Matrix] = Field(description="One row an axis, one column a level.")
    described: list[PlacementInWords] = Field(description="The same in words, in that order.")


class CountReply(ReplyModel):
    """How many valid programs a tree of so many digits has."""

    request: GoalName = Field(description="Request of the programs.")
    digits: Whole = Field(description="Of the tree.")
    by_length: list[Whole] = Field(description="Valid programs of 1, 2, ... steps.")
    instructions: Whole = Field(description="Number of instructions on the tree.")
    complete: bool = Field(description="False if the search was ended.")


def _count_by_kind(kinds: type[StrEnum], found: Sequence[StrEnum]) -> dict[str, int]:
    counted = Counter(found)
    return {kind.value: counted[kind] for kind in kinds}


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
    answer = GraphReply.like(
        system=system,
        exceptions=MachineException.all_of(system),
        format=format,
        nodes=Nodes(**_count_by_kind(NodeKind, [node.kind for node in found.nodes])),
        edges=Edges(**_count_by_kind(Join, [edge.kind for edge in found.edges])),
        levels=LevelOfGraph.all_of(system, found),
        files={f"{system.name}.{format.value}": FORMATS[format](system, found)},
    )
    return reply(answer)


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
    graph = explore_states(question.digits, question.language(), watcher.searching)
    choices = list_instructions(question.digits, across=question.across, goal=question.request)
    found = CountReply.like(
        question,
        graph,
        by_length=graph.count()[1:],
        instructions=len(choices),
    )
    return reply_of_search(found)
