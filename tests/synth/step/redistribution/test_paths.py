"""Redistributions: every pair of types is reached, for the least bytes, and executed right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import permutations
from math import prod

import networkx as nx
import numpy as np
import pytest

from exhaustive import Sample, sampled
from grammar.tensors.sharding import (
    ReductionKind,
    Sharding,
    Type,
    check_type,
    replicated_sharding,
    shardings,
)
from hierarchies import InputError
from replicas import carry_out, cut, mismatch, move_parts
from synth.step.redistribution import MoveKind, ShardingMove, find_path
from synth.step.redistribution.paths import CostPriority, allow_all, find_paths
from synth.step.redistribution.rules import list_moves

Pair = tuple[Sharding, Sharding]
TWO = {"data": 2, "model": 3}
THREE = {"data": 2, "model": 3, "seq": 2}
DTYPES = {"f32": np.float32, "i32": np.int32, "bool": np.bool_}


def pairs(sizes: Mapping[str, int], kind: ReductionKind = ReductionKind.SUM) -> list[Pair]:
    return list(permutations(shardings(2, tuple(sizes), [kind]), 2))


def matrix(sizes: Mapping[str, int], dtype: str = "f32") -> Type:
    """The least matrix that all axes together divide along both dimensions."""
    return Type(dtype, (prod(sizes.values()),) * 2)


def in_order(move: ShardingMove) -> bool:
    """The design's moves: an all-to-all leaves the order of its axes as it was."""
    if move.how is not MoveKind.ALL_TO_ALL:
        return True
    return move.after.dimensions[move.enters][-len(move.axes) :] == move.axes


def one_by_one(move: ShardingMove) -> bool:
    """Requests over one axis at a time."""
    return len(move.axes) == 1 or move.how is MoveKind.PERMUTE


def executed(value: Type, pair: Pair, sizes: Mapping[str, int], seed: int = 0) -> str | None:
    """What is wrong on virtual devices after the path of a pair; None if nothing is."""
    draw = np.random.default_rng(seed)
    whole = (draw.integers(-99, 100, value.shape) / 8).astype(DTYPES[value.dtype])
    path = find_path(value, *pair, sizes)
    parts = carry_out(path, cut(whole, path.source, sizes, draw), sizes)
    return mismatch(parts, whole, path.target, sizes)


def all_edges(sizes: Mapping[str, int]) -> nx.DiGraph:
    """Every move between the types over some axes, as a graph of its own search."""
    graph = nx.DiGraph()
    for one in shardings(2, tuple(sizes), [ReductionKind.SUM]):
        for move in list_moves(one, sizes, frozenset([ReductionKind.SUM])):
            cost = move.least(sizes)
            if not graph.has_edge(one, move.after) or graph[one][move.after]["cost"] > cost:
                graph.add_edge(one, move.after, cost=cost)
    return graph


def test_one_axis_is_the_table_of_moves() -> None:
    one = {"data": 2}
    paths = [find_path(Type("f32", (4, 4)), *pair, one) for pair in pairs(one)]
    assert sum(not path.requests(one) for path in paths) == 5
    assert Counter(move.how for path in paths for move in path.requests(one)) == {
        MoveKind.ALL_GATHER: 2,
        MoveKind.ALL_TO_ALL: 2,
        MoveKind.REDUCE_SCATTER: 2,
        MoveKind.ALL_REDUCE: 1,
    }
    assert all(len(path.moves) == 1 for path in paths)


@pytest.mark.parametrize(
    ("allowed", "counts"),
    [
        (in_order, {0: 69, 1: 149, 2: 78, 3: 10}),
        # An all-to-all may write its axes in another order, which saves four permutes.
        (allow_all, {0: 69, 1: 153, 2: 74, 3: 10}),
    ],
)
def test_so_many_requests_over_two_axes(
    allowed: Callable[[ShardingMove], bool], counts: dict[int, int]
) -> None:
    paths = [find_path(matrix(TWO), *pair, TWO, allowed) for pair in pairs(TWO)]
    assert len(paths) == 306
    assert Counter(len(path.requests(TWO)) for path in paths) == counts
    assert all((path.requests(TWO) == ()) == (path.least(TWO) == 0) for path in paths)


def test_price_decides_and_not_the_number_of_requests() -> None:
    """In 88 pairs the fewest requests send more bytes; in four fewer if orders may change."""
    for allowed, count in ((in_order, 88), (allow_all, 84)):
        found = Counter()
        for pair in pairs(TWO):
            [cheap, *_] = find_paths(matrix(TWO), *pair, TWO, allowed)
            [short, *_] = find_paths(matrix(TWO), *pair, TWO, allowed, CostPriority.REQUESTS)
            assert len(short.requests(TWO)) <= len(cheap.requests(TWO))
            found[short.least(TWO) > cheap.least(TWO)] += 1
        assert found[True] == count


def test_the_fewest_requests_are_those_of_another_search() -> None:
    graph = nx.DiGraph()
    for one in shardings(2, tuple(TWO), [ReductionKind.SUM]):
        for move in list_moves(one, TWO, frozenset([ReductionKind.SUM])):
            price = (1000 if move.least(TWO) else 0) + move.least(TWO)
            if not graph.has_edge(one, move.after) or graph[one][move.after]["price"] > price:
                graph.add_edge(one, move.after, price=price)
    fewest = dict(nx.all_pairs_dijkstra_path_length(graph, weight="price"))
    for source, target in pairs(TWO):
        found = find_paths(matrix(TWO), source, target, TWO, first=CostPriority.REQUESTS)[0]
        wanted = 1000 * len(found.requests(TWO)) + found.least(TWO)
        assert fewest[source][target] == wanted


@pytest.mark.parametrize(("rule", "saved"), [(in_order, 34), (allow_all, 38)])
def test_fusing_axes_saves_bytes(rule: Callable[[ShardingMove], bool], saved: int) -> None:
    def alone(move: ShardingMove) -> bool:
        return one_by_one(move) and rule(move)

    def least(pair: Pair, allowed: Callable[[ShardingMove], bool]) -> Fraction:
        return find_path(matrix(TWO), *pair, TWO, allowed).least(TWO)

    assert sum(least(pair, alone) > least(pair, rule) for pair in pairs(TWO)) == saved


def test_all_pairs_over_two_axes_are_executed_right() -> None:
    for number, pair in enumerate(pairs(TWO)):
        problem = executed(matrix(TWO), pair, TWO, seed=number)
        assert problem is None, (pair, problem)


@sampled(60, seed=1, parts=8)
def test_pairs_over_three_axes_are_executed_right(sample: Sample) -> None:
    every = pairs(THREE)
    assert len(every) == 8372
    for number, pair in enumerate(sample(every)):
        problem = executed(matrix(THREE), pair, THREE, seed=number)
        assert problem is None, (pair, problem)


@pytest.mark.parametrize("kind", [ReductionKind.MAX, ReductionKind.MIN])
@pytest.mark.parametrize("dtype", ["f32", "i32", "bool"])
def test_maxima_and_minima_are_executed_right(kind: ReductionKind, dtype: str) -> None:
    for number, pair in enumerate(pairs(TWO, kind)[::7]):
        problem = executed(matrix(TWO, dtype), pair, TWO, seed=number)
        assert problem is None, (pair, problem)


def test_replicas_of_a_partial_sum_hold_the_same_parts() -> None:
    summed, value = Sharding(((),), ((ReductionKind.SUM, "data"),)), np.arange(4.0)
    parts = cut(value, summed, TWO, np.random.default_rng(0))
    assert mismatch(parts, value, summed, TWO) is None
    parts[0, 1], parts[1, 1] = parts[1, 1], parts[0, 1]
    assert "are replicas and hold different values" in str(mismatch(parts, value, summed, TWO))


def test_sums_of_words_wrap_around() -> None:
    summed, words = Sharding(((),), ((ReductionKind.SUM, "data"),)), np.arange(6, dtype=np.uint32)
    parts = cut(words, summed, TWO, np.random.default_rng(0))
    assert mismatch(parts, words, summed, TWO) is None
    path = find_path(Type("u32", (6,)), summed, replicated_sharding(1), TWO)
    assert mismatch(carry_out(path, parts, TWO), words, replicated_sharding(1), TWO) is None


def test_no_way_by_a_third_type_costs_less_over_two_axes() -> None:
    """The search over paths against another one, over all edges: a shortest path is a metric."""
    least = dict(nx.all_pairs_dijkstra_path_length(all_edges(TWO), weight="cost"))
    for source, target in pairs(TWO):
        found = find_path(matrix(TWO), source, target, TWO).least(TWO)
        assert found == least[source][target]
        for third in least:
            assert found <= least[source][third] + least[third][target]


@sampled(60, seed=2, parts=8)
def test_the_path_is_a_shortest_one_over_three_axes(sample: Sample) -> None:
    graph = all_edges(THREE)
    for source, target in sample(pairs(THREE)):
        found = find_path(matrix(THREE), source, target, THREE)
        assert len(found.moves) <= 5
        assert found.least(THREE) == nx.dijkstra_path_length(graph, source, target, weight="cost")


def test_idle_replicas_share_an_all_reduce() -> None:
    partial = Sharding(((), ()), ((ReductionKind.SUM, "model"),))
    found = find_path(matrix(TWO), partial, replicated_sharding(2), TWO)
    assert found.least(TWO) == Fraction(7, 6)
    assert found.least(TWO) < ShardingMove(
        MoveKind.ALL_REDUCE, ("model",), partial, replicated_sharding(2)
    ).least(TWO)


def test_axes_of_one_size_are_exchanged_point_to_point() -> None:
    sizes = {"data": 4, "model": 4}
    pair = Sharding((("data",), ("model",))), Sharding((("model",), ("data",)))
    [move] = find_path(matrix(sizes), *pair, sizes).moves
    assert (move.how, move.least(sizes)) == (MoveKind.PERMUTE, Fraction(1, 16))
    assert executed(matrix(sizes), pair, sizes) is None


def test_every_move_of_every_type_is_executed_right() -> None:
    """Also those that no cheapest path takes, over axes of which two have one size."""
    sizes = {"data": 2, "model": 3, "seq": 2}
    whole = np.arange(144.0, dtype=np.float32).reshape(12, 12)
    draw = np.random.default_rng(3)
    drawn = draw.permutation(len(list(shardings(2, tuple(sizes), [ReductionKind.SUM]))))[:12]
    for place, before in enumerate(shardings(2, tuple(sizes), [ReductionKind.SUM])):
        if place not in drawn:
            continue
        for move in list_moves(before, sizes, frozenset([ReductionKind.SUM])):
            parts = move_parts(move, cut(whole, before, sizes, draw), sizes)
            assert mismatch(parts, whole, move.after, sizes) is None, str(move)


def test_a_partial_maximum_becomes_a_partial_sum_when_it_is_reduced_first() -> None:
    pair = (
        Sharding(((),), ((ReductionKind.MAX, "data"),)),
        Sharding(((),), ((ReductionKind.SUM, "data"),)),
    )
    path = find_path(Type("f32", (6,)), *pair, TWO)
    assert [str(move) for move in path.moves] == [
        "reduce-scatter (max) to dimension 0 over data",
        "widen dimension 0 to a partial sum over data",
    ]
    assert executed(Type("f32", (6,)), pair, TWO) is None


def test_no_type_on_the_way_cuts_what_does_not_divide() -> None:
    value = Type("f32", (2, 9))
    divides = []
    for one in shardings(2, tuple(TWO), [ReductionKind.SUM]):
        try:
            check_type(value, one, TWO)
        except InputError:
            continue
        divides.append(one)
    for pair in permutations(divides, 2):
        path = find_path(value, *pair, TWO)
        for move in path.moves:
            check_type(value, move.after, TWO)
        assert executed(value, pair, TWO) is None


@pytest.mark.parametrize(
    ("value", "source", "target", "says"),
    [
        (Type("f32", (4, 5)), replicated_sharding(2), Sharding(((), ("model",))), "5 elements"),
        (Type("f32", (4,)), replicated_sharding(1), Sharding((("pipe",),)), "no axis 'pipe'"),
        (Type("f32", (4,)), replicated_sharding(2), replicated_sharding(1), "1 dimensions"),
        (Type("key", (2,)), replicated_sharding(1), Sharding((("data",),)), "a key"),
        (
            Type("bool", (6,)),
            Sharding(((),), ((ReductionKind.SUM, "data"),)),
            replicated_sharding(1),
            "boolean",
        ),
        (
            Type("f32", (6,)),
            Sharding(((),), ((ReductionKind.SUM, "data"), (ReductionKind.MAX, "model"))),
            replicated_sharding(1),
            "partial in 2 ways: max, sum",
        ),
    ],
)
def test_illegal_shardings_are_refused(
    value: Type, source: Sharding, target: Sharding, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        find_path(value, source, target, TWO)


def test_an_unreachable_sharding_is_reported() -> None:
    with pytest.raises(InputError, match="no allowed moves lead"):
        find_path(
            Type("f32", (6,)),
            Sharding((("data",),)),
            replicated_sharding(1),
            TWO,
            lambda move: not move.least(TWO),
        )


def test_axes_of_size_one_send_nothing() -> None:
    sizes = {"data": 4, "model": 1}
    pair = Sharding((("model", "data"),), ()), Sharding((("data",),))
    path = find_path(Type("f32", (4,)), *pair, sizes)
    assert path.moves
    assert path.requests(sizes) == ()
    assert executed(Type("f32", (4,)), pair, sizes) is None
