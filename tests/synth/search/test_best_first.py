"""Paths in toy puzzles, against trying every path one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from synth.search.best_first import Path, PathGraph, Puzzle, explore, join_vertices

Edge = tuple[str, str, str]
"""Source, label, target."""


@dataclass(frozen=True)
class Toy:
    """A small labelled graph with goals and prices; its vertices are letters."""

    edges: tuple[Edge, ...]
    goals: frozenset[str]
    estimate: dict[str, int]
    prices: dict[str, int]
    ranks: dict[str, int]
    max_moves: int

    def puzzle(self) -> Puzzle[str, str]:
        return Puzzle("a", self.moves, self.goals.__contains__, self.estimate.__getitem__)

    def moves(self, vertex: str) -> list[tuple[str, str]]:
        return [(label, target) for source, label, target in self.edges if source == vertex]

    def explored(self) -> PathGraph[str, str]:
        return explore(self.puzzle(), self.max_moves)

    def paths(self, vertex: str = "a", left: int | None = None) -> Iterator[tuple[Edge, ...]]:
        """Every path of at most so many moves, up to the first goal."""
        left = self.max_moves if left is None else left
        if vertex in self.goals:
            yield ()
        elif left:
            for label, target in self.moves(vertex):
                for rest in self.paths(target, left - 1):
                    yield ((vertex, label, target), *rest)

    def cheapest(self) -> list[tuple[int, tuple[str, ...]]]:
        """Price and labels of every path, in the order that is promised."""

        def order(path: tuple[Edge, ...]) -> tuple[int, int, list[int]]:
            price = sum(self.prices[label] for _, label, _ in path)
            return price, len(path), [self.ranks[label] for _, label, _ in path]

        ranked = sorted(self.paths(), key=order)
        return [(order(path)[0], tuple(label for _, label, _ in path)) for path in ranked]


def distances(edges: tuple[Edge, ...], goals: frozenset[str]) -> dict[str, int]:
    found = dict.fromkeys(goals, 0)
    for _ in edges:
        for source, _, target in edges:
            if target in found:
                found[source] = min(found.get(source, 99), 1 + found[target])
    return found


@st.composite
def toys(draw: st.DrawFn) -> Toy:
    vertices, labels = "abcde"[: draw(st.integers(1, 5))], "uvwxyz"[: draw(st.integers(1, 6))]
    every = list(product(vertices, labels, vertices))
    edges = tuple(draw(st.permutations(every))[: draw(st.integers(0, 14))])
    goals = draw(st.frozensets(st.sampled_from(vertices[-2:]), max_size=2))
    near = distances(edges, goals)
    estimate = {v: draw(st.integers(0, near.get(v, 9))) for v in vertices}
    prices = {label: draw(st.integers(0, 2)) for label in labels}
    ranks = dict(zip(labels, draw(st.permutations(range(len(labels)))), strict=True))
    return Toy(edges, goals, estimate, prices, ranks, draw(st.integers(0, 5)))


def told(toy: Toy, graph: PathGraph[str, str], limit: int | None = None) -> Iterator[Path]:
    prices = [toy.prices[label] for label in graph.alphabet]
    return graph.cheapest(prices, [toy.ranks[label] for label in graph.alphabet], limit)


def spelled(graph: PathGraph[str, str], path: Path) -> tuple[int, tuple[str, ...]]:
    return path.price, tuple(graph.alphabet[label] for label in path.labels)


@given(toys())
def test_the_count_is_of_every_path(toy: Toy) -> None:
    lengths = [len(path) for path in toy.paths()]
    graph = toy.explored()
    assert graph.count() == [lengths.count(moves) for moves in range(toy.max_moves + 1)]
    assert graph.complete


@given(toys())
def test_every_path_comes_cheapest_first(toy: Toy) -> None:
    graph = toy.explored()
    assert [spelled(graph, path) for path in told(toy, graph)] == toy.cheapest()


@given(toys(), st.integers(0, 12))
def test_the_limit_leaves_out_what_costs_more(toy: Toy, limit: int) -> None:
    graph = toy.explored()
    found = [spelled(graph, path) for path in told(toy, graph, limit)]
    assert found == [path for path in toy.cheapest() if path[0] <= limit]


@given(toys(), st.integers(0, 5))
def test_the_first_few_are_the_first_of_all(toy: Toy, k: int) -> None:
    graph = toy.explored()
    assert [spelled(graph, p) for p in islice(told(toy, graph), k)] == toy.cheapest()[:k]


@given(toys())
def test_one_graph_serves_many_prices(toy: Toy) -> None:
    graph = toy.explored()
    before = list(told(toy, graph))
    list(graph.cheapest([1] * len(graph.alphabet), range(len(graph.alphabet))))
    assert list(told(toy, graph)) == before


@given(
    toys(), st.sampled_from("abcde"), st.sampled_from("abcde"), st.sets(st.sampled_from("abcde"))
)
def test_a_graph_of_all_moves_serves_every_start_and_goal(
    toy: Toy, start: str, goal: str, barred: set[str]
) -> None:
    def free(vertex: str) -> list[tuple[str, str]]:
        return [one for one in toy.moves(vertex) if not barred & {vertex, one[1]}]

    every = join_vertices("abcde", toy.moves, toy.max_moves).among(lambda one: one not in barred)
    alone = explore(Puzzle(start, free, goal.__eq__, lambda vertex: 0), toy.max_moves)
    found = every.between(start, goal)
    assert found.vertices[0] == start
    expected = [spelled(alone, path) for path in told(toy, alone)]
    assert [spelled(found, path) for path in told(toy, found)] == expected


@given(toys(), st.sampled_from("abcde"))
def test_the_first_paths_to_a_goal_from_everywhere(toy: Toy, goal: str) -> None:
    every = join_vertices("abcde", toy.moves, toy.max_moves)
    prices = [toy.prices[label] for label in every.alphabet]
    ranks = [toy.ranks[label] for label in every.alphabet]
    found = every.towards(goal, prices, ranks)
    assert found[goal] == Path(0, ())
    for start in "abcde":
        if start != goal:
            path = next(every.between(start, goal).cheapest(prices, ranks), None)
            assert found.get(start) == path


@given(toys())
def test_distances_are_the_least_moves_to_a_goal(toy: Toy) -> None:
    found, near = toy.explored().distances(), distances(toy.edges, toy.goals)
    on_paths = {vertex for path in toy.paths() for edge in path for vertex in (edge[0], edge[2])}
    assert on_paths <= set(found)
    assert all(found[vertex] == near[vertex] for vertex in on_paths)


@given(toys())
def test_only_states_on_a_path_to_a_goal_are_kept(toy: Toy) -> None:
    graph = toy.explored()
    near = distances(toy.edges, toy.goals)
    assert graph.vertices[0] == "a"
    assert set(graph.vertices[1:]) <= set(near)
    assert {graph.vertices[goal] for goal in graph.goals} <= toy.goals
    edges = {
        (graph.vertices[source], graph.alphabet[label], graph.vertices[target])
        for source, label, target in zip(graph.sources, graph.labels, graph.targets, strict=True)
    }
    assert edges <= set(toy.edges)
    assert edges >= {edge for path in toy.paths() for edge in path}
    assert graph.sources.tolist() == sorted(graph.sources.tolist())


@given(toys(), st.integers(0, 6))
def test_a_stopped_walk_is_marked_and_reports_only_real_paths(toy: Toy, budget: int) -> None:
    needed: list[int] = []

    def watch(expanded: int) -> bool:
        needed.append(expanded)
        return True

    explore(toy.puzzle(), toy.max_moves, go_on=watch)
    assert needed == list(range(1, len(needed) + 1))
    graph = explore(toy.puzzle(), toy.max_moves, go_on=lambda expanded: expanded < budget)
    assert graph.complete == all(expanded < budget for expanded in needed)
    found = [spelled(graph, path) for path in told(toy, graph)]
    everything = toy.cheapest()
    assert found == everything if graph.complete else set(found) <= set(everything)


def test_nothing_is_to_be_done_where_the_start_is_the_goal() -> None:
    def never(vertex: int) -> list[tuple[str, int]]:
        raise AssertionError(vertex)

    graph = explore(Puzzle(0, never, lambda vertex: vertex == 0, lambda vertex: 0), 3)
    assert graph.count() == [1, 0, 0, 0]
    assert list(graph.cheapest([], [])) == [Path(0, ())]
    assert graph.complete


def test_no_way_to_the_goal_is_no_path() -> None:
    graph = explore(Puzzle(0, lambda v: [("on", v + 1)], lambda v: v < 0, lambda v: 0), 3)
    assert graph.count() == [0, 0, 0, 0]
    assert list(graph.cheapest([], [])) == []
    assert graph.complete


def test_the_estimate_saves_expansions() -> None:
    """Counting from 0 to 5 by ones: whoever is too far away is not looked at."""
    looked_at: list[int] = []

    def moves(vertex: int) -> list[tuple[str, int]]:
        looked_at.append(vertex)
        return [("up", vertex + 1), ("down", vertex - 1)]

    puzzle = Puzzle(0, moves, lambda vertex: vertex == 5, lambda vertex: abs(5 - vertex))
    assert explore(puzzle, 5).count() == [0, 0, 0, 0, 0, 1]
    assert looked_at == [0, 1, 2, 3, 4]


def test_candidates_that_tie_with_the_limit_are_kept() -> None:
    """Two ways of two moves and one of one, all at the limit: in the order of moves and ranks."""
    edges = {"a": [("x", "b"), ("y", "b"), ("w", "c")], "b": [("z", "c")], "c": []}
    puzzle = Puzzle("a", edges.__getitem__, lambda v: v == "c", lambda v: v != "c")
    graph = explore(puzzle, 2)
    prices = {"x": 1, "y": 1, "z": 2, "w": 3}
    ranks = {"x": 3, "y": 2, "z": 1, "w": 4}

    def kept(limit: int) -> list[tuple[int, str]]:
        ask = ([table[label] for label in graph.alphabet] for table in (prices, ranks))
        found = graph.cheapest(*ask, limit)
        return [(one.price, "".join(graph.alphabet[i] for i in one.labels)) for one in found]

    assert kept(3) == kept(4) == [(3, "w"), (3, "yz"), (3, "xz")]
    assert kept(2) == []


def test_large_prices_stay_exact() -> None:
    big = 1 << 58
    puzzle = Puzzle(
        0,
        lambda v: [("dear", v + 1), ("dearer", v + 1)],
        lambda vertex: vertex == 3,
        lambda vertex: 0,
    )
    graph = explore(puzzle, 3)
    order = [("dear", "dearer").index(label) for label in graph.alphabet]
    paths = list(graph.cheapest([big + rank for rank in order], order))
    assert [path.price - 3 * big for path in paths] == [0, 1, 1, 1, 2, 2, 2, 3]
