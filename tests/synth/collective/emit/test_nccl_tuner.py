"""Tables are read back as NCCL's example plugin reads them: the first row that fits wins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import Goal, Program
from hierarchies import Axis, Hierarchy, InputError, Level, Reduction, load, placements
from strategies import reductions, source, valid_programs
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.emit.nccl_tuner import NAMES, TUNABLE_ALGORITHMS, write
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource
from synth.collective.semantics.schedule import Exchange

HOUSE = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
ALGORITHMS = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
TREES = {"allreduce"}


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


def text_of(made: EmitSource, channels: int = 16) -> str:
    (text,) = write(replace(made, options=replace(made.options, channels=channels))).values()
    return str(text)


def table(made: EmitSource, channels: int = 16) -> list[Row]:
    return read(text_of(made, channels))


def plain(**levels: int) -> Reduction:
    """One axis over the whole of a machine."""
    hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels.items()))
    axis = Axis("data", hierarchy.devices)
    return Reduction(next(iter(placements(hierarchy, (axis,)))), ("data",))


def _exchanges(made: EmitSource) -> list[Exchange]:
    return [phase for phase in made.schedule.phases if isinstance(phase, Exchange)]


@given(st.data(), reductions(), st.sampled_from([2**10, 2**20, 2**26]))
def test_a_tuner_file_has_exactly_the_priced_calls(
    data: st.DataObject, reduction: Reduction, size: int
) -> None:
    """Looked up as the plugin does: at its size the price's way, elsewhere nothing."""
    if len(reduction.tree.digits) > 3:
        return
    goal = data.draw(st.sampled_from([Goal.ALL_REDUCE, *Goal]))
    made = source(data.draw(valid_programs(reduction.tree, goal)), reduction, size, goal=goal)
    sent = [price for price in made.prices if price.algorithm]
    if goal is Goal.ALL_TO_ALL or any(one.algorithm not in TUNABLE_ALGORITHMS for one in sent):
        with pytest.raises(CannotExpressError):
            table(made)
        return
    try:
        rows = table(made)
    except CannotExpressError:
        assert len({one.algorithm for one in sent} | {one.protocol for one in sent}) > 2
        return
    hierarchy = reduction.placement.hierarchy
    inner = hierarchy.names.index("node") + 1 if "node" in hierarchy.names else 0
    slots = prod(hierarchy.cardinalities[inner:])
    seen = set()
    for phase, price in zip(_exchanges(made), sent, strict=True):
        for group in phase.groups.tolist():
            nodes, name = len({device // slots for device in group}), NAMES[phase.collective]
            found = lookup(rows, name, round(price.size_bytes), nodes, len(group))
            assert found
            assert price.algorithm
            assert found.way == (price.algorithm.value, price.protocol.value)
            assert found.channels == 16
            seen.add((name, nodes, len(group)))
    assert {(row.collective, row.nodes, row.ranks) for row in rows} == seen
    assert all(row.last - row.first <= 1 for row in rows)


@pytest.mark.parametrize("size", [2**20, 2**23, 2**30])
def test_a_call_by_a_switch_that_reduces_is_no_table(size: int) -> None:
    """It has rows for rings and trees: any other row would undo what is priced."""
    system = load("dgx-h100:4")
    (placement,) = placements(system.hierarchy, (Axis("data", system.devices),))
    made = replace(source(HOUSE, Reduction(placement, ("data",)), size), system=system)
    first, middle, last = made.prices
    switched = replace(made, prices=(first, replace(middle, algorithm=Algorithm.IN_NETWORK), last))
    with pytest.raises(CannotExpressError, match="rings and trees only") as caught:
        table(switched)
    assert caught.value.where == "step 2"


def test_nodes_are_counted_on_the_host_level() -> None:
    made = source(HOUSE, plain(pod=2, node=2, gpu=4))
    assert [(row.nodes, row.ranks) for row in table(made)] == [(1, 4), (4, 4), (1, 4)]
    pods = replace(made, options=EmitOptions(host_level="pod"))
    assert [(row.nodes, row.ranks) for row in table(pods)] == [(1, 4), (2, 4), (1, 4)]
    with pytest.raises(InputError, match="rack"):
        table(replace(made, options=EmitOptions(host_level="rack")))
    alone = source("all-reduce root inside", plain(rack=2, gpu=4))
    assert [(row.nodes, row.ranks) for row in table(alone)] == [(1, 8)]


def test_what_has_no_row_must_not_go_over_one_channel() -> None:
    """The plugin sets one channel before it looks: the head says what to change."""
    assert "*nChannels = 0" in text_of(source(HOUSE, plain(node=2, gpu=4)))


def test_channels_come_from_the_caller() -> None:
    made = source(HOUSE, plain(node=2, gpu=4))
    with pytest.raises(InputError, match="channels") as caught:
        write(made)
    assert "NCCL_DEBUG=INFO" in str(caught.value)
    assert "--channels N" in str(caught.value)
    for wrong in (0, -1, 65):
        with pytest.raises(InputError, match=f"{wrong} channels"):
            table(made, wrong)


def test_a_program_of_no_steps_has_no_rows() -> None:
    assert table(source(Program(()), plain(gpu=1))) == []


def test_strange_names_stay_comments() -> None:
    made = source(HOUSE, plain(node=2, gpu=4))
    named = replace(made, system=replace(made.system, name="ä # allreduce,0,1,ring,ll,1,-1,-1" * 3))
    assert table(named) == table(made)


def test_tables_are_short() -> None:
    made = source(HOUSE, plain(node=64, gpu=8))
    [name] = write(replace(made, options=EmitOptions(channels=8)))
    assert name == f"nccl_tuner_{made.stamp}.csv"
    assert len(table(made)) < 100, "early versions of the plugin read no more"
