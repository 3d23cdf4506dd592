"""The best programs for one reduction: those of a library, priced on a system.

``plan`` asks it for every placement, ``sweep`` for every size, ``jobs`` for every collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from grammar import Instruction
from hierarchies import Reduction
from synth.bound import bound
from synth.library import Graph, Labels, Library
from synth.pipelines import bound_ticks, cheapest
from synth.simulator import Simulator

_Path = tuple[int, Labels, int]
"""What a path costs in ticks, its labels, and in how many segments."""


@dataclass(frozen=True)
class Found:
    """A program for a reduction: what it costs, and in how many segments.

    ``key`` ranks it: ticks, number of steps, their canonical spellings.
    """

    key: tuple[int, int, tuple[str, ...]]
    reduction: Reduction
    steps: tuple[Instruction, ...]
    segments: int = 1

    @property
    def ticks(self) -> int:
        return self.key[0]


class Finder:
    """Looks for programs that carry a payload, cut into any of some numbers of segments."""

    def __init__(
        self,
        library: Library,
        simulator: Simulator,
        payload_bytes: int,
        segments: tuple[int, ...],
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.library = library
        self._simulator = simulator
        self._payload_bytes = payload_bytes
        self._segments = segments
        self._go_on = go_on

    def bound_ticks(self, reduction: Reduction) -> int:
        """What no program for the reduction can cost less than."""
        goal = self.library.language.goal
        least = bound(self._simulator.system, reduction, self._payload_bytes, goal)
        return int(bound_ticks(least.seconds))

    def best(self, reduction: Reduction, count: int, limit: int | None = None) -> list[Found]:
        """The ``count`` best programs in the order of their keys, none dearer than the limit.

        Where ``go_on`` answers False, the best of those looked at until then.
        """
        spelled = self.library.spellings(reduction.tree)
        graph = self.library.graph(len(reduction.tree.digits))
        find = self._in_one_segment if self._segments == (1,) else self._in_segments
        found = []
        for ticks, labels, segments in find(graph, reduction, spelled, count, limit):
            texts = tuple(spelled[label] for label in labels)
            steps = tuple(graph.alphabet[label].instruction for label in labels)
            found.append(Found((ticks, len(labels), texts), reduction, steps, segments))
        return sorted(found, key=lambda one: one.key)[:count]

    def _in_one_segment(
        self,
        graph: Graph,
        reduction: Reduction,
        spelled: list[str],
        count: int,
        limit: int | None,
    ) -> Iterator[_Path]:
        """The cheapest paths where steps wait for each other."""
        prices = self._simulator.prices(graph.alphabet, reduction, self._payload_bytes)
        order = {text: rank for rank, text in enumerate(sorted(set(spelled)))}
        paths = graph.cheapest(prices, [order[text] for text in spelled], limit)
        for path in islice(paths, count):
            yield path.price, path.labels, 1

    def _in_segments(
        self,
        graph: Graph,
        reduction: Reduction,
        spelled: list[str],
        count: int,
        limit: int | None,
    ) -> Iterator[_Path]:
        """The cheapest paths, and all that tie, where the payload may be cut into segments."""
        paths = self.library.paths(len(reduction.tree.digits))
        moves = {
            segments: self._simulator.works(
                graph.alphabet, reduction, self._payload_bytes / segments
            )
            for segments in self._segments
        }
        for one in cheapest(paths, moves, count, limit, self._go_on):
            yield one.ticks, paths[one.path], one.segments
