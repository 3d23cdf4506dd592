"""Graphs of machines: what is in them, in every format, against the links of the system itself."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import Domain, InputError, System, catalogue, load, parse_fault
from hierarchies.graphs import Join, MachineGraph, NodeKind, graph_of
from hierarchies.graphs.drawing import svg
from hierarchies.graphs.formats import dot, graphml, networkx_graph, node_link
from hierarchies.links import Wiring
from strategies import faulty, smart_systems

NAMES = [name for name in catalogue() if load(name).devices <= 300]


def cables(graph: MachineGraph) -> Counter[tuple[str, float]]:
    return Counter(
        (edge.level, edge.bandwidth_bytes_per_second or 0.0)
        for edge in graph.edges
        if edge.kind is Join.LINK
    )


def is_crossed(system: System, level: int) -> bool:
    """Whether a level joins several, or an outer one that does passes through it."""
    sizes = system.hierarchy.cardinalities
    outer = [o for o in range(level) if sizes[o] > 1 and level in system.through(o)]
    return sizes[level] > 1 or bool(outer)


def links(system: System) -> Counter[tuple[str, float]]:
    """One direction of every cable of levels other than buses, and with what is left of it."""
    wiring = Wiring(system)
    found: Counter[tuple[str, float]] = Counter()
    for level, link in enumerate(system.links):
        if link.domain is not Domain.BUS:
            crossed = range(wiring.firsts[level], wiring.firsts[level + 1])
            for number in crossed if is_crossed(system, level) else ():
                if number not in wiring.detours:
                    found[system.hierarchy.names[level], float(wiring.bandwidths[number])] += 1
    assert all(count % 2 == 0 for count in found.values())
    return Counter({key: count // 2 for key, count in found.items()})


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_of_the_catalogue_is_one_piece_with_its_links(name: str) -> None:
    system = load(name)
    graph = graph_of(system)
    assert nx.is_connected(networkx_graph(graph))
    assert cables(graph) == links(system)


def drawable(systems: st.SearchStrategy[System]) -> st.SearchStrategy[System]:
    """Those whose tori have their cables between devices."""
    return systems.filter(
        lambda system: (
            not any(link.domain is Domain.TORUS and link.through for link in system.links)
        )
    )


@given(drawable(smart_systems() | faulty()))
def test_every_link_is_one_cable_and_every_name_is_once(system: System) -> None:
    graph = graph_of(system)
    names = [node.name for node in graph.nodes]
    assert len(names) == len(set(names))
    assert {end for edge in graph.edges for end in (edge.source, edge.target)} <= {*names}
    ends = [frozenset((edge.source, edge.target)) for edge in graph.edges]
    assert len(ends) == len(set(ends))
    assert cables(graph) == links(system)
    assert [node.number for node in graph.nodes if node.kind is NodeKind.DEVICE] == [
        *range(system.devices)
    ]


def test_missing_units_are_not_in_the_graph() -> None:
    system = load("dgx-h100:2")
    lacking = system.with_faults(
        [parse_fault("node0/gpu3", system.hierarchy), parse_fault("node1/nic2", system.hierarchy)]
    )
    graph = graph_of(lacking)
    names = {node.name for node in graph.nodes}
    assert "node0/gpu3" not in names
    assert "node0/port3" not in names
    dead = [edge for edge in graph.edges if edge.kind is Join.DETOUR]
    assert {edge.source for edge in dead} == {"node1/port2"}
    assert {edge.target for edge in dead} == {f"node1/port{i}" for i in range(8) if i != 2}
    assert not any(edge.source == "node1/port2" and edge.kind is Join.LINK for edge in graph.edges)


def test_ports_hang_on_what_their_traffic_crosses() -> None:
    graph = graph_of(load("superpod-h100-oversubscribed"))
    joined = {(edge.source, edge.target) for edge in graph.edges if edge.kind is Join.ATTACHED}
    assert ("pod0/rack-switch", "pod0/port0") in joined
    assert ("pod0/rack1/node-switch", "pod0/rack1/port3") in joined
    assert ("pod0/rack1/node2/gpu5", "pod0/rack1/node2/port5") in joined


def test_traffic_through_levels_side_by_side_is_no_graph() -> None:
    system = load("l40s-pcie")
    node, socket, gpu = system.links
    beside = replace(
        system, links=(replace(node, through=("socket", "gpu")), replace(socket, through=()), gpu)
    )
    with pytest.raises(InputError, match="side by side"):
        graph_of(beside)


@given(drawable(smart_systems(most_devices=16)))
def test_texts_are_read_back_by_networkx_as_the_same_graph(system: System) -> None:
    graph = networkx_graph(graph_of(system))
    read = nx.parse_graphml(graphml(graph_of(system)))
    again = nx.node_link_graph(json.loads(node_link(graph_of(system))), edges="edges")
    for other in (read, again):
        assert dict(other.nodes(data=True)) == dict(graph.nodes(data=True))
        assert {frozenset(e[:2]): e[2] for e in other.edges(data=True)} == {
            frozenset(e[:2]): e[2] for e in graph.edges(data=True)
        }


def test_units_are_in_the_names_of_attributes() -> None:
    graph = networkx_graph(graph_of(load("dgx-h100:2")))
    assert graph.edges["node0/port0", "node-switch"] == {
        "kind": "link",
        "level": "node",
        "bandwidth_bytes_per_second": 50e9,
        "latency_seconds": pytest.approx(14e-6),
    }
    assert graph.nodes["node0/gpu-switch"] == {"kind": "switch", "level": "gpu", "reduces": True}
    assert graph.nodes["node0/gpu0"] == {"kind": "device", "number": 0}


def test_dot_has_every_node_and_edge_once() -> None:
    graph = graph_of(load("p2-v100:2"))
    text = dot(graph)
    assert text.count(" -- ") == len(graph.edges)
    assert text.count("[kind=") == len(graph.nodes)
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("name", [*catalogue(), "dgx-h100:10000"])
def test_a_drawing_is_small_for_every_size_and_well_formed(name: str) -> None:
    text = svg(load(name))
    root = ElementTree.fromstring(text)
    assert len(text) < 100_000
    assert float(root.get("width", "0")) < 1400
    assert str(load(name).hierarchy) in text


def test_a_drawing_shows_what_is_missing() -> None:
    system = load("dgx-h100:64")
    broken = svg(system.with_faults([parse_fault("node40/gpu5", system.hierarchy)]))
    assert "without node40/gpu5" in broken
    assert ">node40, 8 ports<" in broken
    assert "stroke-dasharray" in broken
    assert "stroke-dasharray" not in svg(system)
