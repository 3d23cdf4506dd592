"""Graphs read as levels: what is written comes back, whatever its nodes are called."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from each import each
from exhaustive import examples
from hierarchies import Domain, InputError, System, catalogue, load, parse_fault, read
from hierarchies.graphs import MachineGraph, NodeKind, graph_of
from hierarchies.graphs.formats import graphml, node_link
from hierarchies.importers import Blank, Draft, StatedValue, draft_to_toml, import_texts
from strategies import faulty, smart_systems

SMALL = [name for name in catalogue() if load(name).devices <= 300]


def imported(text: str, name: str = "g") -> Draft:
    return import_texts("graph", {name: text})


def filled(draft: Draft) -> System:
    """The system of a draft; what no graph says is filled with something."""
    levels = tuple(
        level.having(
            {
                key: StatedValue(1e-6, "test")
                for key in ("latency_us",)
                if isinstance(level.entries()[key], Blank)
            }
        )
        for level in draft.levels
    )
    return read(
        draft_to_toml(
            replace(draft, levels=levels, memory_bytes_per_second=StatedValue(1e12, "test"))
        )
    )


def renamed(graph: MachineGraph, seed: int, *, labels: bool) -> MachineGraph:
    """The same with nodes of other names in another order; without labels of levels if asked."""
    names = [node.name for node in graph.nodes]
    order = random.Random(seed).sample(range(len(names)), len(names))
    new = {name: f"n{number}" for name, number in zip(names, order, strict=True)}
    nodes = [replace(node, name=new[node.name], number=None) for node in graph.nodes]
    edges = [
        replace(edge, source=new[edge.source], target=new[edge.target]) for edge in graph.edges
    ]
    if not labels:
        nodes = [replace(node, level="") for node in nodes]
        edges = [replace(edge, level="") for edge in edges]
    random.Random(seed + 1).shuffle(nodes)
    random.Random(seed + 2).shuffle(edges)
    return MachineGraph(graph.name, tuple(nodes), tuple(edges))


def same(one: MachineGraph, other: MachineGraph) -> bool:
    """Whether two graphs are one but for names, as far as colours refined over and over tell.

    Exact search takes for ever on graphs as alike as these. What colours cannot tell (one circle of
    six from two of three) distances do.
    """
    return hashed(one) == hashed(other)


def hashed(graph: MachineGraph) -> tuple[str, list[int]]:
    """Edges are made nodes, so that all have a label."""
    made = subdivided(graph)
    colours = nx.weisfeiler_lehman_graph_hash(made, node_attr="label", iterations=12)
    ways = nx.single_source_shortest_path_length
    devices = [node.name for node in graph.nodes if node.kind is NodeKind.DEVICE]
    return colours, sorted(sum(ways(made, device).values()) for device in devices)


def subdivided(graph: MachineGraph) -> nx.Graph[object]:
    made: nx.Graph[object] = nx.Graph()
    for node in graph.nodes:
        rate = node.bandwidth_bytes_per_second
        made.add_node(node.name, label=f"{node.kind} {rounded(rate)} {node.reduces}")
    for edge in graph.edges:
        middle = (edge.source, edge.target)
        made.add_node(middle, label=f"{edge.kind} {rounded(edge.bandwidth_bytes_per_second)}")
        made.add_edge(edge.source, middle)
        made.add_edge(middle, edge.target)
    return made


def rounded(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.6g}"


@pytest.mark.parametrize("write", [graphml, node_link])
@each("name", SMALL)
def test_a_machine_of_the_catalogue_comes_back(
    name: str, write: Callable[[MachineGraph], str]
) -> None:
    system = load(name)
    back = filled(imported(write(graph_of(system))))
    assert back.hierarchy == system.hierarchy
    for one, other in zip(back.links, system.links, strict=True):
        for key in ("domain", "through", "reduces"):
            assert getattr(one, key) == getattr(other, key)
        assert one.latency_seconds == pytest.approx(other.latency_seconds)
    # Several ports of one device are one cable of the graph.
    for level, link in enumerate(system.links):
        inside = system.hierarchy.devices_in_child(level)
        assert back.links[level].ports == min(link.ports, inside)
        assert back.port_bytes_per_second(level) == pytest.approx(
            system.port_bytes_per_second(level)
        )


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize(
    "name",
    ["dgx-h100:3", "mi300x:2", "dgx1-v100:2", "l40s-pcie:2", "tpu-v4-pod-slice:3", "p2-a100:2"],
)
def test_levels_are_found_under_any_names(name: str, labels: bool) -> None:
    graph = graph_of(load(name))
    for seed in range(3):
        back = filled(imported(graphml(renamed(graph, seed, labels=labels))))
        assert same(graph_of(back), graph)


def nested(system: System) -> bool:
    """Tori only as the innermost levels, and no level that nothing tells from another.

    A torus outside of a switch or ring lies across it; the switch of an only child joins the same
    devices as what is inside.
    """
    sizes, names = system.hierarchy.cardinalities, system.hierarchy.names
    passed = {name for link in system.links for name in link.through}
    if any(size == 1 and name in passed for size, name in zip(sizes, names, strict=True)):
        return False
    domains = [link.domain for link in system.links]
    outer = [d for d, c in zip(domains, system.hierarchy.cardinalities, strict=True) if c > 1]
    torus = [domain is Domain.TORUS for domain in outer]
    behind = any(link.domain is Domain.TORUS and link.through for link in system.links)
    return bool(outer) and torus == sorted(torus) and not behind


@given(smart_systems(most_devices=24), st.integers(0, 2**16), st.booleans())
@examples(12, 150)
def test_any_name_survives_writing_and_reading(system: System, seed: int, labels: bool) -> None:
    assume(nested(system))
    graph = graph_of(system)
    back = filled(imported(graphml(renamed(graph, seed, labels=labels))))
    assert same(graph_of(back), graph)


NO_TORUS = [domain for domain in Domain if domain is not Domain.TORUS]


@given(faulty(12, kinds=NO_TORUS), st.integers(0, 2**16))
@examples(10, 100)
def test_slower_and_dead_ports_come_back(system: System, seed: int) -> None:
    """One cable of a torus has no name as a fault, so a torus with a slower one is refused."""
    assume(nested(system))
    graph = graph_of(system)
    draft = imported(node_link(renamed(graph, seed, labels=True)))
    assert same(graph_of(filled(draft)), graph)


@pytest.mark.parametrize(
    "fault",
    [("node1/nic2", 0.5), ("node1/nic2", 0.0), ("node2", 0.25), ("node0/gpu3", 0.5)],
)
def test_a_known_fault_comes_back_by_its_name(fault: tuple[str, float]) -> None:
    system = load("dgx-h100:3")
    broken = system.with_faults([parse_fault(fault[0], system.hierarchy, fault[1])])
    back = filled(imported(graphml(graph_of(broken))))
    assert same(graph_of(back), graph_of(broken))
    shares = {one.name(back.hierarchy): one.share for one in back.faults}
    if fault[0] == "node2":
        assert shares == {f"node2/port{i}": 0.25 for i in range(8)}
    else:
        assert list(shares.values()) == [pytest.approx(fault[1])]


def test_missing_devices_are_exceptions() -> None:
    system = load("dgx-h100:3")
    lacking = system.with_faults([parse_fault("node1/gpu7", system.hierarchy)])
    back = filled(imported(graphml(graph_of(lacking))))
    assert str(back.hierarchy) == "3 node x 8 gpu"
    assert len(back.missing) == 1
    assert same(graph_of(back), graph_of(lacking))


# What others write.


TACOS_RING = "4\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n" + "".join(
    f"{a},{b},500,50\n" for i in range(4) for a, b in ((i, (i + 1) % 4), ((i + 1) % 4, i))
)


def test_a_ring_of_tacos() -> None:
    draft = imported(TACOS_RING)
    [level] = draft.levels
    assert (level.domain, level.count) == (
        StatedValue("ring", "TACOS's topology"),
        StatedValue(4, "TACOS's topology"),
    )
    assert level.bandwidth_bytes_per_second == StatedValue(50e9, "TACOS's topology")
    assert isinstance(level.latency_seconds, StatedValue)
    assert level.latency_seconds.value == pytest.approx(500e-9)


def test_a_slower_link_of_tacos_is_an_exception() -> None:
    slow = TACOS_RING.replace("0,1,500,50", "0,1,500,10").replace("1,0,500,50", "1,0,500,10")
    [lack] = imported(slow).lacks
    assert (lack.unit, lack.bandwidth_share) == ("gpu0-gpu1", pytest.approx(0.2))
    with pytest.raises(InputError, match="'0' to '1' has 1e\\+10, the other way 5e\\+10"):
        imported(TACOS_RING.replace("0,1,500,50", "0,1,500,10"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TACOS_RING.replace("500", "5" * 5000, 1), "line 3: a line of 50"),
        (TACOS_RING + "\n" * 600_001, "600011 lines"),
        (",,,\n,", "neither GraphML, JSON nor TACOS's CSV"),
    ],
    ids=["long", "lines", "nothing"],
)
def test_lines_that_are_none_of_tacos(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        imported(text)
    assert said in str(refused.value)


def test_one_way_links_are_no_hierarchy() -> None:
    one_way = "3\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n0,1,500,50\n1,2,500,50\n2,0,500,50\n"
    with pytest.raises(InputError, match="a link from '0' to '1', but not back"):
        imported(one_way)


def msccl(links: list[list[int]], switches: list[object] | None = None) -> str:
    found = {"msccl_type": "topology", "name": "t", "links": links, "switches": switches or []}
    return json.dumps(found)


def test_msccl_counts_links() -> None:
    mesh = [[0 if a == b else 2 for a in range(4)] for b in range(4)]
    [level] = imported(msccl(mesh)).levels
    assert level.domain == StatedValue("mesh", "MSCCL's topology")
    assert isinstance(level.bandwidth_bytes_per_second, Blank)
    assert "2, without a unit" in level.bandwidth_bytes_per_second.source
    inside = json.dumps({"msccl_type": "algorithm", "topology": json.loads(msccl(mesh))})
    assert imported(inside).levels == imported(msccl(mesh)).levels


def test_limits_on_each_device_of_msccl_are_a_switch() -> None:
    full = [[0 if a == b else 1 for a in range(4)] for b in range(4)]
    limits: list[object] = []
    for device in range(4):
        others = [other for other in range(4) if other != device]
        limits.append([[device], others, 1, f"node_{device}_out"])
        limits.append([others, [device], 1, f"node_{device}_in"])
    [level] = imported(msccl(full, limits)).levels
    assert level.domain == StatedValue("switch", "MSCCL's topology")
    with pytest.raises(InputError, match="switches that limit only some"):
        imported(msccl(full, limits[:4]))


DGX1 = [
    [0, 2, 1, 1, 2, 0, 0, 0],
    [2, 0, 1, 2, 0, 1, 0, 0],
    [1, 1, 0, 2, 0, 0, 2, 0],
    [1, 2, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2, 1, 1],
    [0, 1, 0, 0, 2, 0, 1, 2],
    [0, 0, 2, 0, 1, 1, 0, 2],
    [0, 0, 0, 1, 1, 2, 2, 0],
]


def te_ccl(table: list[list[float]], switches: list[int] | None = None) -> str:
    alpha = [[7e-7 if cell else -1 for cell in row] for row in table]
    found = {"capacity": table, "alpha": alpha, "switch_indices": switches or [], "chunk_size": 0.5}
    return json.dumps(found)


def test_a_hybrid_mesh_is_refused_with_its_maximum_flows() -> None:
    """A DGX-1, 25 GB/s a link: ForestColl's optimum for it is 171.43 GB/s."""
    with pytest.raises(InputError, match="neither a ring, a mesh nor a torus") as caught:
        imported(te_ccl([[50 * cell for cell in row] for row in DGX1]))
    assert "an all-gather of 171.4 GB/s" in str(caught.value)


def test_te_ccl_has_switches_and_units() -> None:
    table = [[0.0] * 5 for _ in range(5)]
    for device in range(1, 5):
        table[0][device] = table[device][0] = 100.0
    [level] = imported(te_ccl(table, [0])).levels
    assert level.domain == StatedValue("switch", "TE-CCL's topology")
    assert level.bandwidth_bytes_per_second == StatedValue(50e9, "TE-CCL's topology")
    assert level.latency_seconds == StatedValue(7e-7, "TE-CCL's topology")


def test_switches_joined_without_ports_are_a_tree() -> None:
    graph = nx.Graph()
    for rack in range(3):
        graph.add_edge("spine", f"leaf{rack}", bandwidth_Gbps=800)
        for host in range(4):
            graph.add_edge(f"leaf{rack}", f"host{rack}-{host}", bandwidth_Gbps=400)
    draft = imported("\n".join(nx.generate_graphml(graph)))
    assert [(level.name, level.count.value) for level in draft.levels] == [  # type: ignore[union-attr]
        ("node", 3),
        ("gpu", 4),
    ]
    assert draft.levels[0].bandwidth_bytes_per_second == StatedValue(100e9, "GraphML")
    assert draft.levels[0].through == ("gpu",)


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ([("a", "b"), ("b", "c"), ("b", "d")], "'a' has 1 of them, 'b' 3"),
        ([("a", "sw1"), ("b", "sw1"), ("c", "d")], "different kinds of units join devices"),
        (
            [("a", "sw1"), ("b", "sw1"), ("c", "sw2"), ("d", "sw2")],
            "2 parts that are not connected",
        ),
        ([("a", "sw1"), ("b", "sw1"), ("b", "sw2"), ("c", "sw2")], "'b' is in overlapping"),
        ([("a", "sw1"), ("b", "sw1"), ("sw1", "sw2")], "sw2"),
    ],
)
def test_the_first_irregularity_is_named(edges: list[tuple[str, str]], problem: str) -> None:
    graph = nx.Graph()
    graph.add_edges_from(edges, bandwidth_GB_per_s=50)
    with pytest.raises(InputError, match=problem) as caught:
        imported(json.dumps(nx.node_link_data(graph, edges="edges")))
    assert "not a hierarchy" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "<graphml/>",
        "<svg/>",
        "{}",
        "[1, 2]",
        '{"nodes": 1, "edges": 2}',
        '{"nodes": [{"id": 1}], "edges": []}',
        '{"nodes": [{"id": 1}, {"id": 2}], "edges": [{"source": 1, "target": 3}]}',
        '{"nodes": [{"id": 1}, {"id": 2}], "edges": [{"source": 1, "target": 1}]}',
        '{"nodes": [1], "edges": []}',
        '{"links": [[1, 2], [1]]}',
        '{"links": [[0, "x"], [1, 0]]}',
        '{"links": [[0, 1], [1, 0]], "switches": [1]}',
        '{"capacity": [[0, 1], [1, 0]], "alpha": [[0]]}',
        '{"capacity": [[0, 1e999], [1, 0]]}',
        "4\n",
        "4\nSrc,Dest\n0,1\n",
        "x\nSrc,Dest,Latency (ns),Bandwidth (GB/s)\n",
        "hello",
        '<!DOCTYPE g [<!ENTITY a "b">]><graphml><graph/>&a;</graphml>',
        "<a>" * 300,
        '{"nodes": ' + "[" * 2000,
    ],
)
def test_invalid_graphs_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        imported(text)


def test_a_switch_that_joins_nothing_is_left_out_and_named() -> None:
    edges = [
        {"source": "switch0", "target": f"gpu{gpu}", "bandwidth_GB_per_s": 100} for gpu in range(4)
    ]
    nodes = [{"id": name} for name in ("switch0", "switch9", *(f"gpu{gpu}" for gpu in range(4)))]
    draft = import_texts("graph", {"f": json.dumps({"nodes": nodes, "edges": edges})})
    assert [level.count.value for level in draft.levels] == [4]  # type: ignore[union-attr]
    assert "left out, as they are not connected: switch9" in draft.notes
    nodes[-1] = {"id": "gpu9"}
    with pytest.raises(InputError, match="gpu"):
        import_texts("graph", {"f": json.dumps({"nodes": nodes, "edges": edges})})
