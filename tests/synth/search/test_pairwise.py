"""Pairwise costs: elimination and message passing against trying every choice."""

from __future__ import annotations

from itertools import product
from math import inf, isfinite

import numpy as np
import pytest

from puzzles import cheapest, drawn_pairwise
from synth.search.elimination import (
    MOST_ENTRIES,
    WidthExceeded,
    eliminate,
    min_fill,
    minimize,
    reduce_to_core,
)
from synth.search.message_passing import pass_messages
from synth.search.pairwise import Pairwise
from synth.search.space import BestFound, Infeasible, NoneFound, Optimal

NEAR = 1e-9


@pytest.mark.parametrize("block", range(10))
def test_elimination_is_trying_all(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        costs = drawn_pairwise(seed)
        found, least = eliminate(costs), cheapest(costs)
        if isfinite(least):
            assert isinstance(found, Optimal)
            assert found.seconds == costs.cost(found.state)
            assert found.seconds == pytest.approx(least, rel=NEAR)
        else:
            assert isinstance(found, Infeasible)


def test_the_bound_of_message_passing_is_never_above_nor_its_answer_below() -> None:
    closed = feasible = 0
    for seed in range(1000, 1300):
        costs = drawn_pairwise(seed)
        found, least = pass_messages(costs), cheapest(costs)
        feasible += isfinite(least)
        match found:
            case Optimal():
                closed += 1
                assert found.seconds == pytest.approx(least, rel=NEAR)
            case BestFound():
                assert found.seconds == costs.cost(found.state)
                assert found.bound * (1 - NEAR) <= least <= found.seconds * (1 + NEAR)
            case Infeasible():
                assert least == inf
            case NoneFound():
                pass
    assert closed >= 0.95 * feasible
    assert feasible > 200


@pytest.mark.parametrize(("chain", "rounds"), [(True, 2), (False, 1000)])
def test_chains_are_exact_at_once_and_trees_in_the_end(chain: bool, rounds: int) -> None:
    rng = np.random.default_rng(5)
    edges = {
        (v - 1 if chain else int(rng.integers(0, v)), v): rng.random((6, 6)) for v in range(1, 60)
    }
    tree = Pairwise([rng.random(6) for _ in range(60)], edges)
    found, exact = pass_messages(tree, rounds), eliminate(tree)
    assert isinstance(found, Optimal)
    assert isinstance(exact, Optimal)
    assert found.seconds == pytest.approx(exact.seconds, rel=NEAR)


def test_one_round_gives_an_answer() -> None:
    costs = next(
        costs
        for costs in map(drawn_pairwise, range(2000, 3000))
        if isinstance(pass_messages(costs), BestFound)
    )
    found, least = pass_messages(costs, 1), cheapest(costs)
    assert isinstance(found, BestFound)
    assert 0 <= found.bound <= least <= found.seconds
    assert found.gap == found.seconds / found.bound - 1


def test_a_table_that_is_too_large_is_not_made() -> None:
    rng = np.random.default_rng(6)
    edges = {(v, w): rng.random((9, 9)) for w in range(9) for v in range(w)}
    assert eliminate(Pairwise([rng.random(9)] * 9, edges)) == WidthExceeded(9**9)


def test_a_ring_is_as_wide_as_three_of_its_variables() -> None:
    ring = {(v, v + 1): np.zeros((2, 2)) for v in range(9)} | {(0, 9): np.zeros((2, 2))}
    assert min_fill(Pairwise([np.zeros(2)] * 10, ring))[1] == 8


def test_states_that_go_with_nothing_are_left_out() -> None:
    barred = np.array([[0.0, inf], [inf, inf]])
    alone = [np.zeros(2), np.zeros(2), np.array([0.0, 1.0])]
    kept = Pairwise(alone, {(0, 1): barred, (1, 2): np.zeros((2, 2))}).without_dead()
    assert isinstance(kept, Pairwise)
    assert [list(one) for one in kept.alone] == [[0, inf], [0, inf], [0, 1]]
    none = Pairwise(alone[:2], {(0, 1): np.full((2, 2), inf)})
    assert isinstance(none.without_dead(), Infeasible)


@pytest.mark.parametrize("block", range(5))
def test_the_core_has_the_same_least_cost(block: int) -> None:
    for seed in range(60 * block, 60 * block + 60):
        costs = drawn_pairwise(seed)
        smaller, all_of_it = reduce_to_core(costs), cheapest(costs)
        assert all(len(near) > 2 for near in smaller.costs.neighbours) or len(smaller.kept) == 1
        best = min(
            product(*(range(len(one)) for one in smaller.costs.alone)), key=smaller.costs.cost
        )
        if isfinite(all_of_it):
            found = costs.cost(smaller.completed(best))
            assert smaller.costs.cost(best) == pytest.approx(found) == pytest.approx(all_of_it)
        for entries in (1, MOST_ENTRIES):
            match minimize(costs, most_entries=entries):
                case Optimal(states, seconds):
                    assert seconds == costs.cost(states) == pytest.approx(all_of_it)
                case BestFound(states, seconds, bound):
                    assert bound * (1 - NEAR) <= all_of_it <= seconds == costs.cost(states)
                case Infeasible():
                    assert all_of_it == inf
