"""What the verb answers that writes a machine as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum, auto
from typing import Self

from pydantic import Field

from hierarchies import System
from hierarchies.graphs import Join, MachineGraph, NodeKind
from synth.ask.answers.machine_parts import DomainName, MachineException, MachineInBrief
from synth.ask.answers.parts import AnswerPart, Number, OneFile, ReplyModel, Whole


class GraphFormat(StrEnum):
    """How a graph is written: for networkx and others, for Graphviz, or as a picture."""

    GRAPHML = auto()
    JSON = auto()
    DOT = auto()
    SVG = auto()


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
    port: Whole = Field(description="NICs, uplinks, and where units stand in a ring or mesh.")
    switch: Whole = Field(description="Switches between the children of a unit.")
    bus: Whole = Field(description="Media that children share.")


class Edges(AnswerPart):
    """How many edges a graph has, by their kinds."""

    link: Whole = Field(description="Cables.")
    attached: Whole = Field(description="Where ports and buses hang.")
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

    @classmethod
    def of(cls, system: System, graph: MachineGraph, format: GraphFormat, text: str) -> Self:
        return cls.like(
            system=system,
            exceptions=MachineException.all_of(system),
            format=format,
            nodes=Nodes(**_count_by_kind(NodeKind, [node.kind for node in graph.nodes])),
            edges=Edges(**_count_by_kind(Join, [edge.kind for edge in graph.edges])),
            levels=LevelOfGraph.all_of(system, graph),
            files={f"{system.name}.{format.value}": text},
        )


def _count_by_kind(kinds: type[StrEnum], found: Sequence[StrEnum]) -> dict[str, int]:
    counted = Counter(found)
    return {kind.value: counted[kind] for kind in kinds}
