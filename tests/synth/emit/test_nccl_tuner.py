"""Tables are read back as NCCL's example plugin reads them: the first row that fits wins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import Collective, Goal, Groups, Instruction, Program, instructions
from hierarchies import Axis, Hierarchy, InputError, Level, Reduction, load, placements
from hierarchies.fabric import Cast, cast
from strategies import reductions, source, valid_programs
from synth.collectives.algorithms import Algorithm, Choice
from synth.emit import CannotExpressError, Source
from synth.emit.nccl_tuner import NAMES, PROTOCOLS, Communicator, leaves, write
from synth.emit.nccl_tuner import _cost as cost
from synth.emit.source import Options
from synth.price.step_prices import Simulator
from synth.semantics.schedule import Exchange

HOUSE = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
SIZES = sorted({max(0, 2**n + d) for n in range(41) for d in (-1, 0, 1)})
ALGORITHMS = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
TREES = {"allreduce"}
WAYS = {Algorithm.RING: "ring", Algorithm.TREE: "tree"}


@dataclass(frozen=True)
class Row:
    collective: str
    first: int
    last: int
    way: tuple[str, str]
    channels: int
    nodes: int
    ranks: int


def read(text: str) -> list[Row]:
    """The rows, as the plugin cuts them out of lines of fewer than 256 bytes."""
    rows = []
    for line in text.split("\n"):
        assert len(line.encode()) < 255
        assert not line.startswith(" ")
        if not line or line.startswith("#"):
            continue
        words = line.split(",")
        assert len(words) == 8, line
        collective, first, last, algorithm, protocol, *numbers = words
        rows.append(
            Row(collective, int(first), int(last), (algorithm, protocol), *map(int, numbers))
        )
    for row in rows:
        assert row.collective in {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
        assert row.way[0] in ALGORITHMS
        assert row.way[1] in {"ll", "ll128", "simple"}
        assert row.way[0] == "ring" or row.collective in TREES, "NCCL has no such tree"
        assert 0 <= row.first <= row.last < 2**64
    return rows


def lookup(
    rows: list[Row],
    collective: str,
    size: int,
    nodes: int,
    ranks: int,
    ignored: Collection[tuple[str, str]] = (),
) -> Row | None:
    for row in rows:
        if (
            row.collective == collective
            and row.first <= size <= row.last
            and row.nodes in (-1, nodes)
            and row.ranks in (-1, ranks)
            and row.way not in ignored
        ):
            return row
    return None


PRICED = "# the calls of the program at its size"


def text_of(made: Source, channels: int = 16) -> str:
    (text,) = write(replace(made, options=replace(made.options, channels=channels))).values()
    return str(text)


def table(made: Source, channels: int = 16) -> list[Row]:
    """The rows for all sizes: those for the size of the program stand before them."""
    return read(text_of(made, channels).partition(PRICED)[2].partition("\n\n")[2])


def plain(**levels: int) -> Reduction:
    """One axis over the whole of a machine."""
    hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels.items()))
    axis = Axis("data", hierarchy.devices)
    return Reduction(next(iter(placements(hierarchy, (axis,)))), ("data",))


@pytest.mark.parametrize(("machine", "size"), [("dgx-a100:4", 2**16), ("p2-a100:4", 2**26)])
def test_calls_of_the_program_go_as_they_are_priced(machine: str, size: int) -> None:
    """At its size; what NCCL's tables have no row for is left to the rows for all sizes."""
    system = load(machine)
    (placement,) = placements(system.hierarchy, (Axis("data", system.devices),))
    made = replace(source(HOUSE, Reduction(placement, ("data",)), size), system=system)
    simulator = Simulator(system)
    prices = tuple(
        simulator.exchange(leaf.collective, _roles(made, number), exchange.size_bytes)
        for number, (leaf, exchange) in enumerate(zip(leaves(made), _exchanges(made), strict=True))
    )
    rows = read(text_of(replace(made, prices=prices)))
    for leaf, price in zip(leaves(made), prices, strict=True):
        row = lookup(rows, NAMES[leaf.collective], round(price.size_bytes), leaf.nodes, leaf.ranks)
        assert row
        assert price.algorithm
        if price.algorithm in PROTOCOLS:
            assert row.way == (price.algorithm.value, price.protocol.value)
            assert row.last - row.first <= 1


def _exchanges(made: Source) -> list[Exchange]:
    return [phase for phase in made.schedule.phases if isinstance(phase, Exchange)]


def _roles(made: Source, number: int) -> Cast:
    reduction = made.schedule.reduction
    steps = instructions(made.schedule.program, reduction.tree, made.schedule.goal)
    groups = steps[number].groups
    return cast(reduction, groups.free, groups.zero)


@given(st.data(), reductions())
def test_every_leaf_has_a_row_for_every_size(data: st.DataObject, reduction: Reduction) -> None:
    if len(reduction.tree.digits) > 3:
        return
    goal = data.draw(st.sampled_from([Goal.ALL_REDUCE, *Goal]))
    made = source(data.draw(valid_programs(reduction.tree, goal)), reduction, goal=goal)
    if goal is Goal.ALL_TO_ALL:
        with pytest.raises(CannotExpressError, match="asks no tuner"):
            table(made)
        return
    rows = table(made)
    hierarchy = reduction.placement.hierarchy
    inner = hierarchy.names.index("node") + 1 if "node" in hierarchy.names else 0
    slots = prod(hierarchy.cardinalities[inner:])
    for phase in made.schedule.phases:
        if isinstance(phase, Exchange):
            for group in phase.groups.tolist():
                nodes = len({device // slots for device in group})
                for size in (0, 1, phase.size_bytes, 2**40):
                    found = lookup(rows, NAMES[phase.collective], size, nodes, len(group))
                    assert found
                    assert found.channels == 16
                    assert (found.nodes, found.ranks) == (nodes, len(group))


def test_every_size_of_every_communicator_hits_one_row() -> None:
    made = source(HOUSE, plain(node=8, gpu=8))
    rows = table(made, channels=24)
    for name, (nodes, ranks) in product(NAMES.values(), [(1, 8), (8, 8), (8, 64), (3, 7), (1, 1)]):
        for size in SIZES:
            found = lookup(rows, name, size, nodes, ranks)
            assert found
            assert found.channels == 24


def test_what_nccl_rules_out_still_has_its_channels() -> None:
    rows = table(source(HOUSE, plain(node=8, gpu=8)))
    for name in NAMES.values():
        for ignored in (
            [("ring", "simple")],
            [("ring", "ll128"), ("tree", "ll128")],
            [("ring", "simple"), ("tree", "simple"), ("ring", "ll128"), ("tree", "ll128")],
        ):
            for size in (1, 2**20, 2**40):
                found = lookup(rows, name, size, 8, 8, ignored)
                assert found
                assert found.channels == 16


def test_rows_of_a_communicator_follow_without_a_gap() -> None:
    rows = table(source(HOUSE, plain(node=8, gpu=8)))
    named = [row for row in rows if row.ranks != -1]
    for who in {(row.collective, row.nodes, row.ranks) for row in named}:
        mine = [row for row in named if (row.collective, row.nodes, row.ranks) == who]
        assert [row.first for row in mine] == [0, *(row.last + 1 for row in mine[:-1])]
        assert mine[-1].last == 2**64 - 1
        assert all(a.way != b.way for a, b in pairwise(mine))


@pytest.mark.parametrize("machine", ["dgx-h100:8", "p2-a100:4", "dgx1-v100:2", "mi300x:4"])
def test_ring_and_tree_meet_where_the_simulator_says(machine: str) -> None:
    system = load(machine)
    (placement,) = placements(system.hierarchy, (Axis("data", system.devices),))
    reduction = Reduction(placement, ("data",))
    made = replace(source("all-reduce root inside", reduction), system=system)
    free = Groups(tuple(range(len(reduction.tree.digits))))
    roles = cast(reduction, free.free, free.zero)
    seconds = {
        way: Simulator(system, choice).lines(Collective.ALL_REDUCE, roles)[0].seconds
        for way, choice in (("ring", Choice.RING), ("tree", Choice.TREE))
    }
    rows = table(made)
    named = [row for row in rows if row.ranks != -1]
    edges = {size for row in named for size in (row.first, row.first + 1, row.last)}
    for size in sorted(edges | set(SIZES)):
        found = lookup(named, "allreduce", size, system.hierarchy.cardinalities[0], system.devices)
        assert found
        other = {"ring": "tree", "tree": "ring"}[found.way[0]]
        assert seconds[found.way[0]](size) <= seconds[other](size)


def test_protocols_are_the_fastest_of_nccls_model() -> None:
    made = source(HOUSE, plain(node=8, gpu=8))
    rows = table(made)
    for leaf in leaves(made):
        for size in SIZES:
            row = lookup(rows, NAMES[leaf.collective], size, leaf.nodes, leaf.ranks)
            assert row
            (line,) = (line for line in leaf.lines if WAYS[line.algorithm] == row.way[0])
            costs = {
                protocol.name: start + size * slope
                for protocol in PROTOCOLS[line.algorithm]
                for start, slope in [cost(leaf, line, protocol, 16)]
            }
            assert costs[row.way[1]] == min(costs.values())


def test_nccls_published_latency_of_a_ring_and_a_tree() -> None:
    """64 ranks on 8 nodes: 14 hops between nodes of the ring's 126; 14 and 6 of the tree's."""
    (flat,) = leaves(source("all-reduce root inside", plain(node=8, gpu=8)))
    assert (flat.nodes, flat.ranks) == (8, 64)
    ring, tree = flat.lines
    ll, _, simple = PROTOCOLS[Algorithm.RING]
    assert cost(flat, ring, ll, 16)[0] == pytest.approx((6.6 + 112 * 0.6 + 14 * 2.7) * 1e-6)
    assert cost(flat, ring, simple, 16)[0] == pytest.approx((8.4 + 112 * 3.4 + 14 * 14) * 1e-6)
    assert cost(flat, ring, simple, 16)[1] == pytest.approx(ring.seconds_per_byte)
    ll, ll128, simple = PROTOCOLS[Algorithm.TREE]
    assert cost(flat, tree, ll, 16)[0] == pytest.approx((6.8 + 14 * 0.6 + 6 * 5) * 1e-6)
    assert cost(flat, tree, ll128, 16)[1] == pytest.approx(tree.seconds_per_byte * 128 / 120)
    assert cost(flat, tree, simple, 16)[1] == pytest.approx(tree.seconds_per_byte)


def test_a_protocol_is_capped_by_its_channels() -> None:
    (flat,) = leaves(source("all-reduce root inside", plain(gpu=8)))
    fast = replace(flat.lines[0], loads=(("gpu", 1e-15),))
    huge = Communicator(flat.collective, flat.nodes, flat.ranks, (fast,))
    ll, ll128, _ = PROTOCOLS[Algorithm.RING]
    assert cost(huge, fast, ll, 16)[1] == pytest.approx(2 * 7 / 8 / 39e9)
    assert cost(huge, fast, ll128, 4)[1] == pytest.approx(2 * 7 / 8 / 80e9)
    assert cost(huge, fast, ll128, 8)[1] == pytest.approx(2 * 7 / 8 / 160e9)


def test_nodes_are_counted_on_the_host_level() -> None:
    made = source(HOUSE, plain(pod=2, node=2, gpu=4))
    found = [(leaf.nodes, leaf.ranks) for leaf in leaves(made)]
    assert found == [(1, 4), (4, 4), (1, 4)]
    pods = replace(made, options=Options(host_level="pod"))
    assert [(leaf.nodes, leaf.ranks) for leaf in leaves(pods)] == [(1, 4), (2, 4), (1, 4)]
    with pytest.raises(InputError, match="rack"):
        table(replace(made, options=Options(host_level="rack")))
    alone = source("all-reduce root inside", plain(rack=2, gpu=4))
    assert [(leaf.nodes, leaf.ranks) for leaf in leaves(alone)] == [(1, 8)]


def test_leaves_name_their_collectives() -> None:
    made = source(HOUSE, plain(node=2, gpu=4))
    collectives = [leaf.collective for leaf in leaves(made)]
    assert collectives == [Collective.REDUCE_SCATTER, Collective.ALL_REDUCE, Collective.ALL_GATHER]
    assert [len(leaf.lines) for leaf in leaves(made)] == [1, 2, 1]
    assert Instruction(collectives[1], Groups((0,))).collective is Collective.ALL_REDUCE


def test_channels_come_from_the_caller() -> None:
    made = source(HOUSE, plain(node=2, gpu=4))
    with pytest.raises(InputError, match="channels") as caught:
        write(made)
    assert "NCCL_DEBUG=INFO" in str(caught.value)
    assert "--channels N" in str(caught.value)
    for wrong in (0, -1, 65):
        with pytest.raises(InputError, match=f"{wrong} channels"):
            table(made, wrong)


def test_a_program_of_no_steps_still_has_a_whole_table() -> None:
    rows = table(source(Program(()), plain(gpu=1)))
    assert {row.collective for row in rows} == set(NAMES.values())
    assert all(row.ranks == -1 for row in rows)


def test_strange_names_stay_comments() -> None:
    made = source(HOUSE, plain(node=2, gpu=4))
    named = replace(made, system=replace(made.system, name="ä # allreduce,0,1,ring,ll,1,-1,-1" * 3))
    assert table(named) == table(made)


def test_tables_are_short() -> None:
    made = source(HOUSE, plain(node=64, gpu=8))
    [name] = write(replace(made, options=Options(channels=8)))
    assert name == f"nccl_tuner_{made.stamp}.csv"
    assert len(table(made)) < 100, "early versions of the plugin read no more"
