from __future__ import annotations

from itertools import product
from math import ceil, log2, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from exhaustive import examples
from grammar import Collective
from hierarchies import Domain, Link
from price_oracle import in_order_trees, two_trees
from synth.collective.algorithms.algorithms import (
    RECIPES,
    Algorithm,
    AlgorithmRecipe,
    Choice,
    offered_algorithms,
    recipe_at,
)
from synth.collective.algorithms.traffic import cycle, pairs, parents, tree_peak

PLAIN, SMART = Link(Domain.SWITCH, 1.0, 0.0), Link(Domain.SWITCH, 1.0, 0.0, reduces=True)
AR, RS, AG = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER
ROOTED = (Collective.REDUCE, Collective.BROADCAST)
ROWS = pytest.mark.parametrize(
    ("collective", "algorithm", "recipe"),
    [(*key, recipe) for key, recipe in RECIPES.items()],
    ids=lambda part: getattr(part, "value", ""),
)
MEMBERS = (
    st.lists(st.integers(1, 9), min_size=1, max_size=4)
    .map(tuple)
    .filter(lambda members: prod(members) > 1)
)


def fits(recipe: AlgorithmRecipe, members: tuple[int, ...]) -> bool:
    return prod(members) > 1 and recipe.fits(members)


def depth(tree: dict[int, int], node: int) -> int:
    return 1 + depth(tree, tree[node]) if node in tree else 0


@ROWS
@each("m", range(2, 65))
def test_demand_counts_the_busiest_as_one(
    collective: Collective, algorithm: Algorithm, recipe: AlgorithmRecipe, m: int
) -> None:
    if not fits(recipe, (m,)):
        return
    demand = recipe.demand(m)
    assert demand.shape == (m, m)
    assert (demand >= 0).all()
    assert not demand.diagonal().any()
    assert max(demand.sum(axis=0).max(), demand.sum(axis=1).max()) == pytest.approx(1)


@each("m", range(2, 65))
def test_a_double_binary_tree_reaches_everyone_twice(m: int) -> None:
    first, second = parents(m)
    for tree in (first, second):
        assert len(tree) == m - 1
        [root] = set(range(m)) - set(tree)
        assert all(parent in range(m) for parent in tree.values())
        below = [list(tree.values()).count(node) for node in range(m)]
        assert max(below) <= 2
        assert max(depth(tree, node) for node in range(m)) <= ceil(log2(m))
        assert below[root] == 1
    assert [first, second] == two_trees(m)


@each("m", range(4, 65))
def test_who_has_two_children_in_one_tree_has_none_in_the_other(m: int) -> None:
    """For even m no device is inner in both; for odd m the first is, with one child in each."""
    below = [[list(tree.values()).count(node) for node in range(m)] for tree in parents(m)]
    both = {node for node in range(m) if below[0][node] and below[1][node]}
    assert both == (set() if m % 2 == 0 else {0})
    assert all(below[0][node] == below[1][node] == 1 for node in both)


@each("m", range(1, 65))
def test_tree_peak_is_what_the_busiest_node_of_two_explicit_trees_sends_or_gets(m: int) -> None:
    sent = np.zeros((m, m))
    for tree in two_trees(m):
        for child, parent in tree.items():
            sent[child, parent] += 0.5
            sent[parent, child] += 0.5
    assert tree_peak(m) == max(sent.sum(axis=0).max(), sent.sum(axis=1).max())


@each("m", range(2, 65))
def test_rooted_trees_as_priced_exist(m: int) -> None:
    """Two trees over all but the first, both hung below it: a buffer for the busiest, and as
    many waits as priced. (Sanders, Speck, Träff 2009)
    """
    trees = in_order_trees(m - 1)
    load = np.zeros((m, m))
    for tree in trees:
        [root] = set(range(m - 1)) - set(tree)
        load[1 + root, 0] += 0.5
        for child, parent in tree.items():
            load[1 + child, 1 + parent] += 0.5
        deepest = 1 + max(depth(tree, node) for node in range(m - 1))
        for collective in ROOTED:
            assert deepest <= RECIPES[collective, Algorithm.TREE].waits((m,), 0)
    busiest = max(load.sum(axis=0).max(), load.sum(axis=1).max())
    for collective in ROOTED:
        assert busiest <= RECIPES[collective, Algorithm.TREE].crossing((m,), 0)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize("m", [2, 3, 4, 5, 8, 13, 16])
def test_a_whole_buffer_reaches_the_first_in_a_reduce_and_it_need_not_send(
    algorithm: Algorithm, m: int
) -> None:
    """The demand of the pair of trees of an all-reduce, whose roots differ, is not a reduce."""
    recipe = RECIPES[Collective.REDUCE, algorithm]
    moved = recipe.crossing((m,), 0) * recipe.demand(m)
    assert moved[:, 0].sum() == pytest.approx(1)
    assert moved[0].sum() == 0


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize("m", [2, 3, 4, 5, 8, 13, 16])
def test_a_broadcast_gives_everyone_but_the_first_one_buffer(algorithm: Algorithm, m: int) -> None:
    recipe = RECIPES[Collective.BROADCAST, algorithm]
    moved = recipe.crossing((m,), 0) * recipe.demand(m)
    assert moved.sum(axis=0).tolist() == pytest.approx([0.0] + [1.0] * (m - 1))


@ROWS
@given(MEMBERS)
@examples(15, 100)
def test_every_cut_between_children_is_crossed_enough(
    collective: Collective, algorithm: Algorithm, recipe: AlgorithmRecipe, members: tuple[int, ...]
) -> None:
    """A child holds ``inside`` members of k: what must leave or enter it, spread over them.

    A switch that adds up needs every child's buffer once, and no more.
    """
    if not fits(recipe, members):
        return
    k = prod(members)
    for level, m in enumerate(members):
        if m == 1:
            continue
        parts = prod(members[: level + 1])
        inside = prod(members[level + 1 :])
        outer = sum(recipe.crossing(members, j) for j in range(level) if members[j] > 1)
        leaves = inside * (recipe.crossing(members, level) + outer)
        least = {AR: 2 * (parts - 1) / parts, RS: 1 - inside / k, AG: 1 - inside / k}
        least[Collective.ALL_TO_ALL] = inside * (k - inside) / k
        if algorithm is Algorithm.IN_NETWORK:
            least[AR] = 1.0
        assert leaves >= least.get(collective, (parts - 1) / parts) * (1 - 1e-12)


@ROWS
@given(MEMBERS)
@examples(15, 100)
def test_what_splits_sends_no_more_in_sum_than_its_outermost_level_asks(
    collective: Collective, algorithm: Algorithm, recipe: AlgorithmRecipe, members: tuple[int, ...]
) -> None:
    """By pieces a member sends rounds x (k - 1)/k of the buffer, over all levels together."""
    passing = algorithm in (Algorithm.TREE, Algorithm.IN_NETWORK)
    passing |= (collective, algorithm) == (Collective.ALL_TO_ALL, Algorithm.RING)
    if not fits(recipe, members) or collective in ROOTED or passing:
        return
    k, rounds = prod(members), 2 if collective is AR else 1
    total = sum(recipe.crossing(members, level) for level in range(len(members)))
    assert total == pytest.approx(rounds * (k - 1) / k)


@ROWS
@given(MEMBERS, st.data())
@examples(15, 100)
def test_levels_without_choice_change_nothing(
    collective: Collective,
    algorithm: Algorithm,
    recipe: AlgorithmRecipe,
    members: tuple[int, ...],
    data: st.DataObject,
) -> None:
    if not fits(recipe, members):
        return
    place = data.draw(st.integers(0, len(members)))
    longer = (*members[:place], 1, *members[place:])
    assert recipe.fits(longer)
    for level in range(len(members)):
        moved = level + (level >= place)
        if members[level] > 1:
            assert recipe.crossing(longer, moved) == recipe.crossing(members, level)
            assert recipe.waits(longer, moved) == recipe.waits(members, level)


@given(MEMBERS)
def test_a_ring_passes_every_piece_along_all_edges_but_one(members: tuple[int, ...]) -> None:
    for collective, rounds in ((AR, 2), (RS, 1), (AG, 1), *((one, 1) for one in ROOTED)):
        ring = RECIPES[collective, Algorithm.RING]
        steps = sum(ring.waits(members, level) for level in range(len(members)))
        assert steps - ring.spared == rounds * (prod(members) - 1)


@given(MEMBERS)
def test_halves_of_an_all_reduce(members: tuple[int, ...]) -> None:
    for algorithm in (Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.DIRECT):
        whole, half, other = (RECIPES[c, algorithm] for c in (AR, RS, AG))
        if not fits(whole, members):
            continue
        for level, m in enumerate(members):
            if m == 1:
                continue
            for quantity in ("crossing", "waits"):
                first, second = (getattr(r, quantity)(members, level) for r in (half, other))
                assert getattr(whole, quantity)(members, level) == first + second
            assert (whole.demand(m) == half.demand(m)).all()
            assert (whole.demand(m) == other.demand(m)).all()
        k = prod(members)
        assert whole.memory(k) == pytest.approx(half.memory(k) + other.memory(k))


@each("m", range(2, 20))
def test_cycle_and_pairs(m: int) -> None:
    ring, everyone = cycle(m), pairs(m)
    for i, j in product(range(m), repeat=2):
        assert (ring[i, j] > 0) == ((i - j) % m in (1, m - 1))
        assert (everyone[i, j] > 0) == (i != j)
    assert ring.sum(axis=0).tolist() == pytest.approx([1.0] * m)
    assert everyone.sum(axis=0).tolist() == pytest.approx([1.0] * m)


@pytest.mark.parametrize("collective", Collective)
def test_every_collective_has_a_ring_for_every_group(collective: Collective) -> None:
    recipe = RECIPES[collective, Algorithm.RING]
    for members in product(range(1, 5), repeat=3):
        assert recipe.fits(members)


@given(st.sampled_from(Collective), MEMBERS)
def test_what_is_offered(collective: Collective, members: tuple[int, ...]) -> None:
    links = [PLAIN] * len(members)
    every = offered_algorithms(collective, members, links, Choice.AUTO)
    assert len(set(every)) == len(every)
    assert every[0] is Algorithm.RING
    assert Algorithm.IN_NETWORK not in every
    assert all(RECIPES[collective, algorithm].fits(members) for algorithm in every)
    assert offered_algorithms(collective, members, links, Choice.RING) == [Algorithm.RING]
    [tree] = offered_algorithms(collective, members, links, Choice.TREE)
    without = {RS: Algorithm.RING, AG: Algorithm.RING, Collective.ALL_TO_ALL: Algorithm.DIRECT}
    assert tree is without.get(collective, Algorithm.TREE)


@given(MEMBERS, st.data())
def test_where_switches_add_up(members: tuple[int, ...], data: st.DataObject) -> None:
    """One level of those a group spans is enough for what has a tree; else all must reduce."""
    links = [PLAIN if data.draw(st.booleans()) else SMART for _ in members]
    spans = [link.reduces for link, m in zip(links, members, strict=True) if m > 1]
    for collective in (AR, RS, AG, *ROOTED):
        enough = all(spans) if collective in (RS, AG) else any(spans)
        every = offered_algorithms(collective, members, links, Choice.AUTO)
        assert (Algorithm.IN_NETWORK in every) is enough
    assert Algorithm.IN_NETWORK not in offered_algorithms(
        Collective.ALL_TO_ALL, members, links, Choice.AUTO
    )


@each("m", range(2, 65))
def test_a_switch_that_adds_up_saves_sending(m: int) -> None:
    """Out of a port go (m + 1)/m buffers where a ring sends 2 (m - 1)/m: from 4 members on less."""
    inside = recipe_at(AR, Algorithm.IN_NETWORK, Domain.SWITCH, reduces=True).crossing((m,), 0)
    ring = RECIPES[AR, Algorithm.RING].crossing((m,), 0)
    assert inside == pytest.approx((m + 1) / m)
    assert (inside < ring) is (m > 3)
    for collective in (RS, AG):
        whole = recipe_at(collective, Algorithm.IN_NETWORK, Domain.SWITCH, reduces=True)
        assert whole.crossing((m,), 0) == 1 > RECIPES[collective, Algorithm.RING].crossing((m,), 0)


@pytest.mark.parametrize("collective", [AR, *ROOTED])
@pytest.mark.parametrize("domain", Domain)
def test_where_no_switch_adds_up_a_tree_does(collective: Collective, domain: Domain) -> None:
    inside, tree = (
        recipe_at(collective, algorithm, domain)
        for algorithm in (Algorithm.IN_NETWORK, Algorithm.TREE)
    )
    for m in range(2, 9):
        assert inside.crossing((2, m, 3), 1) == tree.crossing((2, m, 3), 1)
        assert inside.waits((2, m, 3), 1) == tree.waits((2, m, 3), 1)
        assert (inside.demand(m) == tree.demand(m)).all()


@each("k", range(2, 30))
def test_an_all_to_all_around_a_ring_passes_every_piece_the_shorter_way(k: int) -> None:
    ring = RECIPES[Collective.ALL_TO_ALL, Algorithm.RING]
    hops = [min((i - j) % k, (j - i) % k) for i, j in product(range(k), repeat=2)]
    assert ring.crossing((k,), 0) == pytest.approx(sum(hops) / k / k)
    assert ring.waits((k,), 0) >= max(hops)


@pytest.mark.parametrize(
    ("members", "algorithm", "is_offered"),
    [
        ((4, 8), Algorithm.HALVING_DOUBLING, True),
        ((4, 6), Algorithm.HALVING_DOUBLING, False),
        ((1, 6, 1), Algorithm.DIRECT, True),
        ((2, 6), Algorithm.DIRECT, True),
    ],
)
def test_where_halving_and_direct_exchange_fit(
    members: tuple[int, ...], algorithm: Algorithm, is_offered: bool
) -> None:
    links = [PLAIN] * len(members)
    assert (algorithm in offered_algorithms(AR, members, links, Choice.AUTO)) is is_offered


def test_direct_exchange_turns_no_corners_in_a_torus() -> None:
    def direct(*members: int) -> bool:
        links = [Link(Domain.TORUS, 1.0, 0.0)] * 2
        return Algorithm.DIRECT in offered_algorithms(AR, members, links, Choice.AUTO)

    assert direct(1, 4)
    assert direct(4, 1)
    assert not direct(4, 4)
