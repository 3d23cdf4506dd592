"""Maximum flows on graphs: known optima, and an oracle that tries every cut."""

from __future__ import annotations

from itertools import combinations

import pytest

from hierarchies import Domain, Hierarchy, Link, System, load
from hierarchies.graphs import Edge, MachineGraph, Node, NodeKind, graph_of
from hierarchies.graphs.flow import flow_rates


def nodes_of(nodes: int, gpus: int, inside: float, across: float, nics: int) -> System:
    links = (
        Link(Domain.SWITCH, across * 1e9, 0.0, nics),
        Link(Domain.SWITCH, inside * 1e9, 0.0),
    )
    return System("s", "", Hierarchy.of(node=nodes, gpu=gpus), links, 1e12)


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (nodes_of(2, 8, 300, 25, 8), 346.67),
        (nodes_of(2, 16, 270, 12.5, 1), 25.0),
        (nodes_of(4, 4, 450, 50, 4), 266.67),
        (load("dgx1-v100:1"), 171.43),
    ],
)
def test_optima_of_forestcoll(system: System, expected: float) -> None:
    rate = flow_rates(graph_of(system)).all_gather_bytes_per_second
    assert rate / 1e9 == pytest.approx(expected, abs=0.005)


def drawn(edges: dict[tuple[str, str], float], switches: str = "") -> MachineGraph:
    names = sorted({end for pair in edges for end in pair})
    kinds = {name: NodeKind.SWITCH if name in switches else NodeKind.DEVICE for name in names}
    return MachineGraph(
        "g",
        tuple(Node(name, kinds[name]) for name in names),
        tuple(Edge(*pair, bandwidth_bytes_per_second=rate) for pair, rate in edges.items()),
    )


def by_every_cut(graph: MachineGraph) -> float:
    """The least of what leaves a part for each device in it, over all parts that lack a device."""
    names = [node.name for node in graph.nodes]
    devices = {node.name for node in graph.nodes if node.kind is NodeKind.DEVICE}
    least = float("inf")
    for size in range(1, len(names)):
        for part in combinations(names, size):
            held = len(devices & {*part})
            if 0 < held < len(devices):
                leaving = sum(
                    edge.bandwidth_bytes_per_second or 0.0
                    for edge in graph.edges
                    if (edge.source in part) != (edge.target in part)
                )
                least = min(least, leaving / held)
    return least * len(devices)


IRREGULAR = [
    drawn({("a", "b"): 2, ("b", "c"): 1, ("c", "d"): 2}),
    drawn({("a", "b"): 2, ("b", "c"): 1, ("c", "d"): 2, ("d", "a"): 5, ("a", "c"): 1}),
    drawn({("a", "s"): 3, ("b", "s"): 3, ("c", "s"): 1, ("a", "b"): 4}, "s"),
    drawn({("a", "s"): 3, ("b", "s"): 3, ("s", "t"): 2, ("c", "t"): 3, ("d", "t"): 1}, "st"),
]


@pytest.mark.parametrize("graph", IRREGULAR)
def test_against_every_cut(graph: MachineGraph) -> None:
    assert flow_rates(graph).all_gather_bytes_per_second == pytest.approx(by_every_cut(graph))


def test_a_shared_port_is_no_way_between_its_devices() -> None:
    """Two GPUs a node on one NIC of 10 GB/s: into the other node, no more than that."""
    rates = flow_rates(graph_of(nodes_of(2, 2, 1, 10, 1)))
    assert rates.broadcast_bytes_per_second == pytest.approx(10e9)


def test_devices_that_nothing_joins() -> None:
    graph = MachineGraph("g", (Node("a", NodeKind.DEVICE), Node("b", NodeKind.DEVICE)), ())
    assert flow_rates(graph).all_gather_bytes_per_second == 0
