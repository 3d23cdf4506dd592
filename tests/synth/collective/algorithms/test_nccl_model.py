"""NCCL's model, against figures that others have worked out from it by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from grammar import Goal
from hierarchies import load
from synth.collective.algorithms.nccl_model import NVLS, NVLS_TREE, RING, TREE, Ranks
from synth.collective.algorithms.protocols import Protocol

LL, LL128, SIMPLE = Protocol.LL, Protocol.LL128, Protocol.SIMPLE
AR = Goal.ALL_REDUCE
HUGE = 2.0**40


def microseconds(name: str, way: str, protocol: Protocol, goal: Goal = AR) -> float:
    """The latency: what next to nothing takes, on all devices of a machine."""
    return ranks(name).seconds(goal, way, protocol, 1e-9) * 1e6


def gigabytes_per_second(name: str, way: str, protocol: Protocol, goal: Goal = AR) -> float:
    """The bandwidth: bytes of buffer a second, without the latency."""
    found = ranks(name)
    return (
        HUGE
        / (found.seconds(goal, way, protocol, 2 * HUGE) - found.seconds(goal, way, protocol, HUGE))
        / 1e9
    )


def ranks(name: str) -> Ranks:
    system = load(name)
    return Ranks(system, system.hierarchy.cardinalities)


@pytest.mark.parametrize(
    ("name", "way", "protocol", "expected"),
    [
        # 8 GPUs on NVLink: base + 14 hops of a ring, base + 2 x 7 of a tree.
        ("dgx-h100:1", RING, SIMPLE, 56.0),
        ("dgx-h100:1", RING, LL128, 40.6),
        ("dgx-h100:1", RING, LL, 15.0),
        ("dgx-h100:1", TREE, SIMPLE, 64.4),
        ("dgx-h100:1", TREE, LL128, 31.5),
        ("dgx-h100:1", TREE, LL, 15.2),
        ("dgx-h100:1", NVLS, SIMPLE, 25.0),
        # 32 nodes of 8: 448 hops inside and 62 between; 7 and 5, up and down.
        ("dgx-h100:32", RING, SIMPLE, 8.4 + 448 * 3.4 + 62 * 14),
        ("dgx-h100:32", RING, LL, 6.6 + 448 * 1.0 + 62 * 2.7),
        ("dgx-h100:32", TREE, SIMPLE, 204.4),
        ("dgx-h100:32", TREE, LL, 6.8 + 2 * (7 * 0.6 + 5 * 5.0)),
        ("dgx-h100:32", NVLS_TREE, SIMPLE, 25 + 2 * 5 * 20.9),
        # On PCIe, through both sockets: 8.4 + 14 hops of 5.7.
        ("l40s-pcie:1", RING, SIMPLE, 88.2),
        ("l40s-pcie:1", RING, LL, 6.6 + 14 * 1.0),
    ],
)
def test_latencies_of_an_all_reduce(
    name: str, way: str, protocol: Protocol, expected: float
) -> None:
    assert microseconds(name, way, protocol) == pytest.approx(expected)


@pytest.mark.parametrize("goal", [Goal.REDUCE_SCATTER, Goal.ALL_GATHER])
def test_half_a_ring_has_half_the_steps(goal: Goal) -> None:
    whole, half = (microseconds("dgx-h100:4", RING, SIMPLE, one) - 8.4 for one in (AR, goal))
    assert half == pytest.approx(whole / 2)
    whole, half = (gigabytes_per_second("dgx-h100:4", RING, SIMPLE, one) for one in (AR, goal))
    assert half == pytest.approx(2 * whole)


@pytest.mark.parametrize("goal", [Goal.REDUCE, Goal.BROADCAST])
@pytest.mark.parametrize(("name", "hop"), [("dgx-h100:1", 3.4), ("dgx-h100:4", 14.0)])
def test_a_chain_is_waited_for_once(goal: Goal, name: str, hop: float) -> None:
    assert microseconds(name, RING, SIMPLE, goal) == pytest.approx(8.4 + hop)


@pytest.mark.parametrize(
    ("name", "way", "protocol", "expected"),
    [
        ("dgx-h100:1", RING, SIMPLE, 360 * 8 / 14),
        ("dgx-h100:1", RING, LL128, 0.92 * 360 * 8 / 14),
        ("dgx-h100:1", TREE, SIMPLE, 0.92 * 360 / 2),
        ("dgx-h100:1", TREE, LL, 0.92 * 360 / 2 / 3.8),
        ("dgx-h100:1", NVLS, SIMPLE, 2 * 0.85 * 15 / 16 * 360 * 8 / 14),
        ("dgx-h100:4", RING, SIMPLE, 360 * 32 / 62),
        ("dgx-h100:4", NVLS_TREE, SIMPLE, 400 * 32 / 62),
        # Switches of Blackwell reduce at 0.74.
        ("dgx-b200:1", NVLS, SIMPLE, 2 * 0.74 * 15 / 16 * 720 * 8 / 14),
        ("dgx1-v100:1", RING, SIMPLE, 120 * 8 / 14),
        # LL has a limit: by GPU inside a node, by processor on two nodes and on more.
        ("dgx1-v100:1", RING, LL, 39 * 8 / 14),
        ("dgx-h100:1", RING, LL, 141 * 8 / 14),
        ("dgx-h100:2", RING, LL, 39 * 16 / 30),
        ("dgx-h100:4", RING, LL, 20.4 * 32 / 62),
        ("dgx-h100:4", TREE, LL, 20.4 / 2),
        ("p2-a100:4", RING, SIMPLE, 8 * 64 / 126),
    ],
)
def test_bandwidths_of_an_all_reduce(
    name: str, way: str, protocol: Protocol, expected: float
) -> None:
    """Of a link's bandwidth a ring has k / (2 (k - 1)), a tree half; NVLink counts for 0.8."""
    assert gigabytes_per_second(name, way, protocol) == pytest.approx(expected)


def test_on_two_nodes_a_ring_is_as_fast_as_the_nics_and_a_tree_up_to_twice_as_fast() -> None:
    """Four GPUs and NICs of 25 GB/s a node, as Snellius, where trees reached 156 GB/s (busbw)."""
    system = load("dgx-h100:2x4")
    slow = replace(system.links[0], bandwidth_bytes_per_second=25e9)
    found = Ranks(replace(system, links=(slow, system.links[1])), (2, 4))
    ring, tree = (HUGE / (found.seconds(AR, way, SIMPLE, HUGE) * 1e9) for way in (RING, TREE))
    assert ring == pytest.approx(100 * 8 / 14, rel=1e-3)
    # Four channels of 41.4 GB/s at most, by NCCL's table for Hopper: less than 0.92 x 200.
    assert tree == pytest.approx(4 * 41.4 / 2, rel=1e-3)


def test_large_rings_over_nodes_wait_longer() -> None:
    found = ranks("dgx-h100:4")
    border = 64 * 16 * 32
    before, after = (found.seconds(AR, RING, SIMPLE, size) for size in (border - 1, border))
    assert after / before == pytest.approx(1.4, rel=1e-2)


def test_trees_of_middle_sizes_fall_short() -> None:
    """64 bytes and all between it and 128 have the first entry of the table; huge ones the last."""
    found = ranks("dgx-h100:1")
    sizes = [64.0 * 2**n for n in range(24)]
    rates = [
        size / (found.seconds(AR, TREE, SIMPLE, size) - 64.4e-6) / (0.92 * 180e9) for size in sizes
    ]
    assert rates[0] == pytest.approx(0.9, rel=1e-3)
    assert min(rates) == pytest.approx(0.5, rel=1e-3)
    assert rates[-1] == pytest.approx(0.9)
    assert found.seconds(AR, TREE, SIMPLE, 63) < inf


@pytest.mark.parametrize(
    ("name", "nodes", "inside"),
    [
        ("dgx-h100:4", 4, (1,)),
        ("superpod-h100-oversubscribed:2", 32, (3,)),
        ("l40s-pcie:3", 3, (1, 2)),
        ("tpu-v4-pod-slice", 1, (0, 1, 2)),
        ("mi300x:2", 2, (1,)),
    ],
)
def test_what_the_nodes_are(name: str, nodes: int, inside: tuple[int, ...]) -> None:
    found = ranks(name)
    assert (found.nodes, found.inside) == (nodes, inside)


def test_one_rank_a_node_has_the_bandwidth_of_its_nic() -> None:
    found = Ranks(load("dgx-h100:4"), (4, 1))
    assert found.seconds(AR, RING, SIMPLE, HUGE) == pytest.approx(HUGE / 50e9 * 6 / 4, rel=1e-3)


@pytest.mark.parametrize("goal", [Goal.REDUCE_SCATTER, Goal.ALL_GATHER])
def test_switches_have_nothing_to_add_up_in_nodes_of_one_rank(goal: Goal) -> None:
    system = load("dgx-h100:4")
    smart = replace(system, links=tuple(replace(link, reduces=True) for link in system.links))
    found = Ranks(smart, (4, 1))
    assert found.seconds(goal, NVLS, Protocol.SIMPLE, 1e9) == inf
    assert found.seconds(goal, RING, Protocol.SIMPLE, 1e9) < inf
