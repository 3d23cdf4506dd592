"""The best programs for one reduction: those of a library, priced on a system.

``plan.placements`` asks for them on every placement, ``plan.sizes`` for every size,
``workload.planner`` for every collective of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice

from grammar import Goal, Instruction
from hierarchies import Reduction
from synth.plan.library import Labels, Library
from synth.plan.stripes import split
from synth.price.bound import bound
from synth.price.segments import Overlapped, Phases, bound_ticks, cheapest
from synth.price.step_prices import Simulator
from synth.price.ways import leanest

_Slice = tuple[Labels, int, int]
"""The labels of a path, the bytes that it is for, and in how many segments."""
_Priced = tuple[int, tuple[_Slice, ...]]
"""Paths side by side, and their price in ticks."""
_SEEDS = 4
"""How many programs that are good alone are tried beside others."""


@dataclass(frozen=True)
class FoundPart:
    """A program's steps, the bytes of the payload that it is for, and in how many segments."""

    steps: tuple[Instruction, ...]
    size_bytes: int
    segments: int


@dataclass(frozen=True)
class Found:
    """Programs for a reduction that run side by side, most often one.

    Where there are several, their steps take the algorithms that keep links busy for least time.
    ``key`` ranks them: ticks, number of steps, their canonical spellings.
    """

    key: tuple[int, int, tuple[str, ...]]
    reduction: Reduction
    parts: tuple[FoundPart, ...]

    @property
    def ticks(self) -> int:
        return self.key[0]


class CandidateSearch:
    """Searches for programs that carry a payload, cut into any of some numbers of segments.

    With ``stripes`` an all-reduce may also be split over several programs, if it may be cut at all.
    """

    def __init__(
        self,
        library: Library,
        simulator: Simulator,
        payload_bytes: int,
        segments: tuple[int, ...],
        *,
        stripes: bool = True,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.library = library
        self._simulator = simulator
        self._payload_bytes = payload_bytes
        self._segments = segments
        self._barriers = segments == (1,)
        self._stripes = stripes and not self._barriers and library.language.goal is Goal.ALL_REDUCE
        self._go_on = go_on

    def bound_ticks(self, reduction: Reduction) -> int:
        """A lower bound, in ticks, on the price of every program for the reduction."""
        goal = self.library.language.goal
        least = bound(self._simulator.system, reduction, self._payload_bytes, goal)
        return int(bound_ticks(least.seconds))

    def best(self, reduction: Reduction, count: int, limit: int | None = None) -> list[Found]:
        """The ``count`` best programs in the order of their keys, none dearer than the limit.

        Where ``go_on`` answers False, the best of those looked at until then. Exact among single
        programs; of the splits over several there is one, the best found.
        """
        spelled = self.library.spellings(reduction.tree)
        alphabet = self.library.graph(len(reduction.tree.digits)).alphabet
        if self._barriers:
            every = self._in_one_segment(reduction, spelled, count, limit)
        else:
            every = self._overlapped(reduction, count, limit)
        found = []
        for ticks, slices in every:
            texts = tuple(spelled[label] for labels, *_ in slices for label in labels)
            parts = tuple(
                FoundPart(tuple(alphabet[label].instruction for label in labels), size, segments)
                for labels, size, segments in slices
            )
            found.append(Found((ticks, len(texts), texts), reduction, parts))
        return sorted(found, key=lambda one: one.key)[:count]

    def _in_one_segment(
        self, reduction: Reduction, spelled: list[str], count: int, limit: int | None
    ) -> Iterator[_Priced]:
        """The cheapest paths where steps wait for each other."""
        graph = self.library.graph(len(reduction.tree.digits))
        prices = self._simulator.prices(graph.alphabet, reduction, self._payload_bytes)
        order = {text: rank for rank, text in enumerate(sorted(set(spelled)))}
        paths = graph.cheapest(prices, [order[text] for text in spelled], limit)
        for path in islice(paths, count):
            yield path.price, ((path.labels, self._payload_bytes, 1),)

    def _overlapped(self, reduction: Reduction, count: int, limit: int | None) -> Iterator[_Priced]:
        """The cheapest paths, and all that tie, in segments; and the best split over several."""
        depth = len(reduction.tree.digits)
        alphabet, paths = self.library.graph(depth).alphabet, self.library.paths(depth)
        works = {
            segments: self._simulator.works(alphabet, reduction, self._payload_bytes / segments)
            for segments in self._segments
        }
        enough = max(count, _SEEDS) if self._stripes and limit is None else count
        found = cheapest(paths, works, enough, limit, self._go_on)
        for one in found:
            yield one.ticks, ((paths[one.path], self._payload_bytes, one.segments),)
        if self._stripes:
            if limit is not None:
                found = cheapest(paths, works, _SEEDS, None, self._go_on)
            yield from self._split(reduction, found, limit)

    def _split(
        self, reduction: Reduction, seeds: Sequence[Overlapped], limit: int | None
    ) -> Iterator[_Priced]:
        """The best split found over several programs, if any is better than one."""
        depth = len(reduction.tree.digits)
        alphabet, paths = self.library.graph(depth).alphabet, self.library.paths(depth)
        seeds = sorted(seeds, key=lambda one: (one.ticks, one.path))[:_SEEDS]
        usual = {self._payload_bytes / segments for segments in self._segments}

        @cache
        def moves_of(size_bytes: float) -> Sequence[Phases]:
            return self._simulator.works(alphabet, reduction, size_bytes, leanest)

        @cache
        def phases_of(path: int, size_bytes: float) -> Phases:
            if size_bytes in usual:
                return tuple(chain(*(moves_of(size_bytes)[label] for label in paths[path])))
            moves = [alphabet[label] for label in paths[path]]
            return tuple(chain(*self._simulator.works(moves, reduction, size_bytes, leanest)))

        found = split(
            phases_of, len(paths), seeds, self._payload_bytes, self._segments, limit, self._go_on
        )
        if found:
            yield (
                found.ticks,
                tuple((paths[one.path], one.size_bytes, one.segments) for one in found.stripes),
            )
