"""NCCL's published model of its own collectives: which algorithm and protocol it expects to win.

Facts, from NVIDIA/nccl v2.28.7-1 src/graph/tuning.cc and src/enqueue.cc, with NCCL's names:

* time = latency + bytes / bandwidth; latency = base + steps x hops, inside nodes and between;
* a ring of k ranks on n nodes takes 2 (k - 1) steps for an all-reduce, 2 (n - 1) of them between
  nodes; half as many for an all-gather or reduce-scatter, one for a broadcast or reduce. With
  several nodes an inside hop costs at least 1 us (Simple: 3). Large all-reduces by Simple over
  several nodes have 1.4 times the latency (from 64 bytes a channel and rank on);
* a tree takes 2 (k/n - 1) hops inside and 2 log2(n) between, at 0.92 of half the bandwidth, with a
  correction by size; only for all-reduces. Over several nodes each channel has a limit by
  generation of GPU (``perChMaxTreeBws``), and there is a channel for each NIC, or two for NICs of
  25 GB/s and more, where a node has at most four of them or its GPUs are older than Hopper;
* LL has half a ring's bandwidth and 1/3.8 of a tree's, LL128 0.92 and 120/128 (7/9 inside a node).
  LL has a limit (``llMaxBws``): inside a node by generation of GPU, between nodes by kind of
  processor, here that of Intel;
* a switch that reduces takes one hop, by Simple alone, at twice 0.85 of the bandwidth (Hopper; 0.74
  from Blackwell on), with one of 16 channels set apart; over several nodes all-reduces have a tree
  between. It is not used where a version has none (``nccl_versions.has_nvls``);
* sends and receives use LL up to 16 KiB (NCCL_P2P_LL_THRESHOLD).

On several nodes a ring has the bandwidth of its NICs everywhere, because the search for channels
(src/graph/search.cc) keeps a ring's inner bandwidth equal to the outer. It raises that of a tree up
to twice the outer, and on two nodes the inner bandwidth counts for both. None exceeds the links
inside a node: a channel enters by one NIC and passes the node's GPUs by their links (72 NICs of a
rack carry four times as much). NCCL takes NVLink for 0.8 of its data sheet (20 of 25 GB/s for each
link, src/graph/topo.h). Left out: CollNet, PAT, limits of LL by other processors than Intel's.

The network begins at the innermost level whose latency is above that of the devices' own level and
includes every level outside it; the children of that level are the nodes. Bandwidths are those of
the description.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log2, prod

from grammar import Collective, Goal
from hierarchies import Domain, Link, System
from synth.collective.algorithms.algorithms import Algorithm, innermost_network_level
from synth.collective.algorithms.nccl_versions import has_nvls, version_of
from synth.collective.algorithms.protocols import Protocol, protocols

RING, TREE, NVLS, NVLS_TREE = "ring", "tree", "nvls", "nvls_tree"
COLLNET_DIRECT, COLLNET_CHAIN, PAT = "collnet_direct", "collnet_chain", "pat"
SPELLINGS = {
    RING: "Ring",
    TREE: "Tree",
    NVLS: "NVLS",
    NVLS_TREE: "NVLSTree",
    COLLNET_DIRECT: "CollnetDirect",
    COLLNET_CHAIN: "CollnetChain",
    PAT: "PAT",
}
"""Values of NCCL_ALGO. NCCL reads them in any case and without underscores; files of its example
tuner use our names."""
MOST_LL_BYTES = 16384
_CHANNELS = 16


def has_algorithm(collective: Collective, algorithm: Algorithm, links: Iterable[Link]) -> bool:
    """Whether the runtime has an algorithm for a collective among devices that ``links`` join.

    Trees serve all-reduces only; reducing switches serve all-reduces and collectives in pieces;
    only all-to-alls are sent directly. Recursive halving is MPI's. A torus, which is XLA's, has
    only rings, for all-to-alls too.
    """
    torus = {link.domain for link in links} == {Domain.TORUS}
    match algorithm:
        case Algorithm.RING:
            return not collective.apart or torus
        case Algorithm.TREE:
            return collective.rounds > 1 and not torus
        case Algorithm.IN_NETWORK:
            return not collective.rooted and not collective.apart
        case Algorithm.DIRECT:
            return collective.apart
        case Algorithm.HALVING_DOUBLING:
            return False


@dataclass(frozen=True)
class Ranks:
    """A communicator in NCCL's model; ``counts``: children of one parent with ranks, by level."""

    system: System
    counts: tuple[int, ...]

    @cached_property
    def spans(self) -> tuple[int, ...]:
        """The levels that the ranks span."""
        return tuple(level for level, m in enumerate(self.counts) if m > 1)

    @cached_property
    def network(self) -> int:
        """The innermost level of the network; -1 if there is none."""
        return innermost_network_level(self.system)

    @cached_property
    def inside(self) -> tuple[int, ...]:
        """The levels inside nodes that the ranks span."""
        network = self.network
        return tuple(level for level in self.spans if level > network)

    @cached_property
    def ranks(self) -> int:
        return prod(self.counts)

    @cached_property
    def nodes(self) -> int:
        return prod(self.counts[: self.network + 1])

    @property
    def multicasts(self) -> bool:
        """Whether NCCL sets up NVLS: not where few GPUs of a node are in the communicator."""
        return not self.inside or has_nvls(
            version_of(self.system), self.ranks // self.nodes, self.nodes
        )

    def reduces(self, levels: Sequence[int]) -> bool:
        """Whether the switches of all these levels reduce."""
        return all(self.system.links[level].reduces for level in levels)

    def seconds(self, goal: Goal, name: str, protocol: Protocol, size_bytes: float) -> float:
        """The model's seconds of one algorithm by one protocol; not for all-to-alls.

        Infinite where the model gives no bandwidth: NVLS in pieces with one rank per node.
        """
        latency = self._latency_us(goal, name, protocol, size_bytes) * 1e-6
        rate = self._bytes_per_second(goal, name, protocol, size_bytes)
        return latency + size_bytes / rate if rate else inf

    def _latency_us(self, goal: Goal, name: str, protocol: Protocol, size_bytes: float) -> float:
        if name == NVLS:
            return 25.0 + 18.0 * (self.nodes > 1)
        if name == NVLS_TREE:
            return 25.0 + 2 * 20.9 * self._depth
        base, between_us = _BASE_US[name][protocol], _BETWEEN_US[name][protocol]
        inside_us = (_INSIDE_US if self._on_nvlink else _ON_PCIE_US)[name][protocol]
        if name == TREE:
            per_node = self.ranks / self.nodes
            return base + 2 * ((per_node - 1) * inside_us + self._depth * between_us)
        if self.nodes > 1:
            inside_us = max(inside_us, 3.0 if protocol is Protocol.SIMPLE else 1.0)
        inside, between = self._ring_steps(goal)
        latency = base + inside * inside_us + between * between_us
        large = size_bytes >= 64 * _CHANNELS * self.ranks
        simple = protocol is Protocol.SIMPLE and goal.rounds > 1
        return 1.4 * latency if large and simple and self.nodes > 1 else latency

    @cached_property
    def _depth(self) -> int:
        return int(log2(self.nodes))

    @cached_property
    def _on_nvlink(self) -> bool:
        """Whether nodes have NVLink: LL128 requires it, so links with LL but no LL128 are PCIe."""
        supported = protocols(self.system.links[level] for level in self.inside)
        return Protocol.LL not in supported or Protocol.LL128 in supported

    def _ring_steps(self, goal: Goal) -> tuple[int, int]:
        """Hops that are waited for, inside nodes and between nodes."""
        if goal.rooted:
            return int(self.nodes == 1), int(self.nodes > 1)
        return goal.rounds * (self.ranks - self.nodes), goal.rounds * (self.nodes - 1)

    def _bytes_per_second(
        self, goal: Goal, name: str, protocol: Protocol, size_bytes: float
    ) -> float:
        """Bytes of buffer per second, from the bytes on a link of the algorithm."""
        inside, between = self._rates
        ratio = 1.0 if goal.rooted else self.ranks / (goal.rounds * (self.ranks - 1))
        rate = inside
        if self.nodes > 1:
            rate = min(inside, between * (2 if name == TREE and self.nodes == 2 else 1))
        most = self._most_by_ll if protocol is Protocol.LL else inf
        if name == RING:
            return min(most, rate * _RING_SHARE[protocol]) * ratio
        if name == TREE:
            share = (
                7 / 9 if protocol is Protocol.LL128 and self.nodes == 1 else _TREE_SHARE[protocol]
            )
            rate = min(0.92 * rate, self._most_by_tree)
            return min(most, rate * share) / 2 * _correction(protocol, size_bytes)
        pulled = nvls_efficiency(self._nvlink_rate) * (_CHANNELS - 1) / _CHANNELS * inside
        if goal.in_pieces:
            per_node = self.ranks / self.nodes
            return min(pulled * (per_node - 1) / per_node, between if self.nodes > 1 else pulled)
        limit = {NVLS: between, NVLS_TREE: between * (2 if self.nodes == 2 else 1)}[name]
        return min(2 * pulled, limit if self.nodes > 1 else 2 * pulled) * ratio

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """Bytes a second of a rank inside its node, and of a node to others."""
        per_node = self.ranks // self.nodes
        inside = min(map(self._rate, self.inside), default=0.0)
        inside *= _NVLINK_SHARE if self._on_nvlink else 1.0
        between = 0.0
        if self.nodes > 1:
            level = self._between_nodes
            between = self._rate(level) * min(self.system.blocks(level), per_node)
        return inside or between, between

    @cached_property
    def _most_by_tree(self) -> float:
        """The limit of a tree's channels; only over several nodes, where their number is known."""
        if self.nodes == 1:
            return inf
        link = self.system.links[self._between_nodes]
        nics = max(1, round(self._rates[1] / link.bandwidth_bytes_per_second))
        twice = link.bandwidth_bytes_per_second > 25e9 and (self._generation < 2 or nics <= 4)
        return nics * (2 if twice else 1) * _TREE_CHANNEL[self._generation][self.nodes > 2]

    @property
    def _most_by_ll(self) -> float:
        if self.nodes > 1:
            return _MOST_LL_BETWEEN[self.nodes > 2]
        return _MOST_LL_INSIDE[self._generation]

    @property
    def _generation(self) -> int:
        """Volta, Ampere, Hopper or Blackwell, by NVLink; Ampere without NVLink."""
        return bisect_left(_MOST_NVLINK, self._nvlink_rate) if self._nvlink_rate else 1

    @cached_property
    def _nvlink_rate(self) -> float:
        """Bytes a second of a GPU's NVLink; 0 without."""
        return min(map(self._rate, self.inside), default=0.0) if self._on_nvlink else 0.0

    @cached_property
    def _between_nodes(self) -> int:
        """The level whose links join nodes."""
        cardinalities = self.system.hierarchy.cardinalities[: self.network + 1]
        return max(level for level, size in enumerate(cardinalities) if size > 1)

    def _rate(self, level: int) -> float:
        link = self.system.links[level]
        match link.domain:
            case Domain.SWITCH:
                return self.system.port_bytes_per_second(level)
            case Domain.RING | Domain.TORUS:
                links = 2.0 if link.wraps else 1.0
            case Domain.MESH:
                links = self.system.hierarchy.cardinalities[level] - 1.0
            case Domain.BUS:
                links = 1 / self.system.hierarchy.cardinalities[level]
        return links * link.bandwidth_bytes_per_second


def nvls_efficiency(nvlink_bytes_per_second: float) -> float:
    """The share of NVLink's bandwidth that switches reduce at (``nvlsEfficiency``)."""
    return 0.74 if nvlink_bytes_per_second > _MOST_NVLINK[-1] else HOPPER_NVLS_EFFICIENCY


def _correction(protocol: Protocol, size_bytes: float) -> float:
    """The share of its modelled bandwidth that a tree reaches, by NCCL's measured table."""
    doublings = int(size_bytes // 64).bit_length() - 1
    tenths = _TENTHS[protocol]
    return tenths[doublings] / 10 if 0 <= doublings < len(tenths) else 1.0


_S, _L, _M = Protocol.SIMPLE, Protocol.LL, Protocol.LL128
_Figures = Mapping[str, Mapping[Protocol, float]]
_BASE_US: _Figures = {RING: {_L: 6.6, _M: 14.0, _S: 8.4}, TREE: {_L: 6.8, _M: 14.0, _S: 8.4}}
_INSIDE_US: _Figures = {RING: {_L: 0.6, _M: 1.9, _S: 3.4}, TREE: {_L: 0.6, _M: 1.25, _S: 4.0}}
_ON_PCIE_US: _Figures = {RING: {_L: 1.0, _M: 2.5, _S: 5.7}, TREE: {_L: 1.0, _M: 1.9, _S: 4.0}}
_BETWEEN_US: _Figures = {RING: {_L: 2.7, _M: 4.0, _S: 14.0}, TREE: {_L: 5.0, _M: 8.5, _S: 14.0}}
_RING_SHARE = {_L: 1 / 2, _M: 0.92, _S: 1.0}
_TREE_SHARE = {_L: 1 / 3.8, _M: 120 / 128, _S: 1.0}
_NVLINK_SHARE = 0.8
HOPPER_NVLS_EFFICIENCY = 0.85
_MOST_NVLINK = 150e9, 300e9, 450e9
"""The largest NVLink rate of a GPU of each generation: Volta, Ampere, Hopper; then Blackwell."""
_TREE_CHANNEL = (18.5e9, 10e9), (23.6e9, 17.8e9), (41.4e9, 36e9), (42.8e9, 24e9)
"""The most bytes a second of a tree's channel by generation, on two nodes and on more."""
_MOST_LL_INSIDE = 39e9, 87.7e9, 141e9, 282e9
"""The most bytes a second of LL inside a node, by generation."""
_MOST_LL_BETWEEN = 39e9, 20.4e9
"""The same between nodes with Intel's processors, on two nodes and on more."""
_TENTHS: Mapping[Protocol, tuple[int, ...]] = {
    _L: (10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10),
    _M: (10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10, 10),
    _S: (9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9),
}
"""Tenths of the modelled bandwidth, by doublings of 64 bytes."""
