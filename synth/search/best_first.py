"""Cheapest paths to a goal in a graph that is discovered during the walk.

Vertices are hashable, moves are labelled, and the caller gives each label a price. ``explore``
walks the graph once; its result can be priced many times, and each pricing yields the paths to the
goal cheapest first. Prices are whole numbers so that sums do not depend on their order and ties are
exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

V = TypeVar("V", bound=Hashable)
L = TypeVar("L", bound=Hashable)
Integers = npt.NDArray[np.int64]
BEYOND = 1 << 61
"""A price above that of every path; prices of labels and their sums stay below it."""

_Partial = tuple[int, int, tuple[int, ...], int, int, tuple[int, ...]]
"""A partial path: the price of its best completion, total moves of that completion, ranks so far,
price so far, vertex, labels so far. The tuples' order is therefore the order of the answers.
"""


@dataclass(frozen=True)
class Puzzle(Generic[V, L]):
    """A shortest-path problem: a start, labelled moves, a goal, and a bound for the search.

    ``at_least`` bounds the remaining moves from below, as A*'s heuristic does. A path ends at
    the first goal it reaches.
    """

    start: V
    moves: Callable[[V], Iterable[tuple[L, V]]]
    is_goal: Callable[[V], bool]
    at_least: Callable[[V], int]


@dataclass(frozen=True)
class PathGraph(Generic[V, L]):
    """Every path of at most ``max_moves`` moves from the start to a goal, as a graph.

    Vertex 0 is the start. Edges are sorted by their source: ``sources``, ``targets`` and
    ``labels`` have one entry an edge, the labels as positions in ``alphabet``. ``complete`` is
    False if the walk was stopped: then paths may be missing.
    """

    vertices: tuple[V, ...]
    alphabet: tuple[L, ...]
    sources: Integers
    targets: Integers
    labels: Integers
    goals: Integers
    max_moves: int
    complete: bool

    def count(self) -> list[int]:
        """Returns how many paths there are of 0, 1, ..., ``max_moves`` moves."""
        reaching = [0] * len(self.vertices)
        for goal in self.goals:
            reaching[goal] = 1
        counts = [reaching[0]]
        edges = list(zip(self.sources.tolist(), self.targets.tolist(), strict=True))
        for _ in range(self.max_moves):
            before, reaching = reaching, [0] * len(self.vertices)
            for source, target in edges:
                reaching[source] += before[target]
            counts.append(reaching[0])
        return counts

    @cached_property
    def _firsts(self) -> Integers:
        """The index of each vertex's first edge, and the number of edges."""
        return np.searchsorted(self.sources, np.arange(len(self.vertices) + 1))

    @cached_property
    def _numbers(self) -> dict[V, int]:
        return {vertex: number for number, vertex in enumerate(self.vertices)}

    def among(self, keeps: Callable[[V], bool]) -> PathGraph[V, L]:
        """Returns the graph with only the moves between vertices that ``keeps`` accepts."""
        fit = np.fromiter(map(keeps, self.vertices), dtype=bool, count=len(self.vertices))
        kept = np.flatnonzero(fit[self.sources] & fit[self.targets])
        sources, targets = self.sources[kept], self.targets[kept]
        return replace(self, sources=sources, targets=targets, labels=self.labels[kept])

    def between(self, start: V, goal: V) -> PathGraph[V, L]:
        """Returns the graph with another start, and a single goal; both are vertices."""
        first, last = self._numbers[start], self._numbers[goal]
        vertices, place = list(self.vertices), np.arange(len(self.vertices))
        vertices[0], vertices[first] = vertices[first], vertices[0]
        place[0], place[first] = first, place[0]
        sources = place[self.sources]
        in_order = np.argsort(sources, kind="stable")
        kept = in_order[sources[in_order] != place[last]]
        return replace(
            self,
            vertices=tuple(vertices),
            sources=sources[kept],
            targets=place[self.targets[kept]],
            labels=self.labels[kept],
            goals=place[[last]],
        )

    def towards(self, goal: V, prices: Sequence[int], ranks: Sequence[int]) -> dict[V, Path]:
        """Returns the first cheapest path to a goal from every vertex that reaches it.

        Equivalent to the first of ``between(...).cheapest(...)`` for each vertex, but in
        one pass.
        """
        array, ranked = np.asarray(prices, dtype=np.int64), np.asarray(ranks)
        last = self._numbers[goal]
        tables = np.array(replace(self, goals=np.array([last]))._remaining(array))
        least, moves = tables.min(axis=0), tables.argmin(axis=0)
        found = {last: Path(0, ())}
        for vertex in np.argsort(moves, kind="stable").tolist():
            if vertex == last or least[vertex] >= BEYOND:
                continue
            span = slice(self._firsts[vertex], self._firsts[vertex + 1])
            labels, targets = self.labels[span], self.targets[span]
            best = np.flatnonzero(
                array[labels] + tables[moves[vertex] - 1][targets] == least[vertex]
            )
            first = best[ranked[labels[best]].argmin()]
            rest = found[int(targets[first])].labels
            found[vertex] = Path(int(least[vertex]), (int(labels[first]), *rest))
        return {self.vertices[vertex]: path for vertex, path in found.items()}

    def distances(self) -> dict[V, int]:
        """Returns the least number of moves to a goal from every vertex on a path to one."""
        ones = np.ones(len(self.alphabet), dtype=np.int64)
        tables = self._remaining(ones)
        least = np.min(tables, axis=0)
        return {v: int(n) for v, n in zip(self.vertices, least, strict=True) if n < BEYOND}

    def _remaining(self, prices: Integers) -> list[Integers]:
        """Returns, by number of moves, the least price from each vertex to a goal."""
        table = np.full(len(self.vertices), BEYOND, dtype=np.int64)
        table[self.goals] = 0
        tables = [table]
        weights = prices[self.labels]
        owners = np.unique(self.sources)
        for _ in range(self.max_moves):
            # Capped, so that repeated sums of ``BEYOND`` do not overflow int64.
            reached = np.minimum(weights + tables[-1][self.targets], BEYOND)
            table = np.full(len(self.vertices), BEYOND, dtype=np.int64)
            if len(owners):
                table[owners] = np.minimum.reduceat(reached, self._firsts[owners])
            tables.append(table)
        return tables

    def cheapest(
        self, prices: Sequence[int], ranks: Sequence[int], limit: int | None = None
    ) -> Iterator[Path]:
        """Yields every path, ordered by price, then number of moves, then ranks of its labels.

        ``prices`` and ``ranks`` have one entry for each label of the alphabet; prices are
        not negative and sum to less than ``BEYOND`` on any path. Paths that cost more than
        ``limit`` are left out. The search is A* with the exact remaining price as its
        heuristic, so k paths cost about k times their length.
        """
        remaining = self._remaining(np.asarray(prices, dtype=np.int64))
        limit = BEYOND - 1 if limit is None else limit
        heap: list[_Partial] = [
            (int(table[0]), moves, (), 0, 0, ())
            for moves, table in enumerate(remaining)
            if table[0] <= limit
        ]
        heapq.heapify(heap)
        while heap:
            _, moves, before, spent, vertex, labels = heapq.heappop(heap)
            left = moves - len(labels)
            if left == 0:
                yield Path(spent, labels)
                continue
            span = slice(self._firsts[vertex], self._firsts[vertex + 1])
            for label, target in zip(
                self.labels[span].tolist(), self.targets[span].tolist(), strict=True
            ):
                now = spent + int(prices[label])
                rest = int(remaining[left - 1][target])
                if now + rest <= limit:
                    after = (*before, ranks[label])
                    entry = (now + rest, moves, after, now, target, (*labels, label))
                    heapq.heappush(heap, entry)


@dataclass(frozen=True)
class Path:
    """A path to a goal: its price and its edges' labels, as positions in the alphabet."""

    price: int
    labels: tuple[int, ...]


def explore(
    puzzle: Puzzle[V, L], max_moves: int, *, go_on: Callable[[int], bool] = lambda expanded: True
) -> PathGraph[V, L]:
    """Walks every vertex that may be on a path of at most ``max_moves`` moves to a goal.

    ``go_on`` is called before each expansion except that of the start, with the number of expanded
    vertices, and stops the walk by returning False; the result is then not ``complete``.
    """
    numbers: dict[V, int] = {puzzle.start: 0}
    edges: list[tuple[int, L, int]] = []
    goals = {0} if puzzle.is_goal(puzzle.start) else set()
    frontier = [] if goals else [puzzle.start]
    expanded, complete = 0, True
    for left in reversed(range(max_moves)):
        fresh: list[V] = []
        for vertex in frontier:
            if expanded and not go_on(expanded):
                complete = False
                break
            expanded += 1
            for label, target in puzzle.moves(vertex):
                if target not in numbers:
                    numbers[target] = len(numbers)
                    if puzzle.is_goal(target):
                        goals.add(numbers[target])
                    elif puzzle.at_least(target) <= left:
                        fresh.append(target)
                edges.append((numbers[vertex], label, numbers[target]))
        frontier = fresh if complete else []
    return _assemble_graph(tuple(numbers), edges, goals, max_moves, complete)


def join_vertices(
    vertices: Sequence[V], moves: Callable[[V], Iterable[tuple[L, V]]], max_moves: int
) -> PathGraph[V, L]:
    """Returns all moves between given vertices, each a possible start or goal: see ``between``."""
    numbers = {vertex: number for number, vertex in enumerate(vertices)}
    edges = [
        (number, label, numbers[target])
        for vertex, number in numbers.items()
        for label, target in moves(vertex)
    ]
    return _assemble_graph(tuple(vertices), edges, set(numbers.values()), max_moves, complete=True)


def _assemble_graph(
    vertices: tuple[V, ...],
    edges: list[tuple[int, L, int]],
    goals: set[int],
    max_moves: int,
    complete: bool,
) -> PathGraph[V, L]:
    """Builds the graph of the vertices and edges from which a goal can be reached."""
    into: dict[int, list[int]] = {}
    for source, _, target in edges:
        into.setdefault(target, []).append(source)
    alive, stack = set(goals), list(goals)
    while stack:
        for source in into.get(stack.pop(), ()):
            if source not in alive:
                alive.add(source)
                stack.append(source)
    kept = sorted(alive | {0})
    renumbered = {old: new for new, old in enumerate(kept)}
    alphabet: dict[L, int] = {}
    rows = sorted(
        (renumbered[source], renumbered[target], alphabet.setdefault(label, len(alphabet)))
        for source, label, target in edges
        if source in alive and target in alive
    )
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return PathGraph(
        tuple(vertices[old] for old in kept),
        tuple(alphabet),
        sources=columns[:, 0],
        targets=columns[:, 1],
        labels=columns[:, 2],
        goals=np.array(sorted(renumbered[goal] for goal in goals), dtype=np.int64),
        max_moves=max_moves,
        complete=complete,
    )
