"""The best programs for one reduction: those of a library, priced on a system.

``plan.placements`` asks for them on every placement, ``plan.sizes`` for every size,
``workload.planner`` for every collective of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from math import inf

from grammar import Instruction
from hierarchies import Reduction, Tree
from synth.collective.price.bound import bound
from synth.collective.price.choices import choices, choose_phases
from synth.collective.price.resolution import (
    PriceEstimate,
    estimate_as_shown,
    finest_resolution,
    largest_near,
)
from synth.collective.price.segments import (
    PathRanking,
    Phases,
    SegmentedPath,
    bound_ticks,
    cheapest_paths,
)
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.price.ways import OVERLAP_PICKS, LinePicker
from synth.collective.ranking.distinct import AnswerGrouping, DistinctAnswer, Member
from synth.collective.ranking.library import Labels, Library
from synth.collective.ranking.simpler_split import find_simpler_split
from synth.collective.ranking.stripes import PathStripe, PhasesOf, StripeSplit, price_of, split
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import buffer_fraction
from synth.search.best_first import Path

_Slice = tuple[Labels, int, int]
"""The labels of a path, the bytes that it is for, and in how many segments."""
_Priced = tuple[int, tuple[_Slice, ...]]
"""Paths side by side, and their price in ticks."""
_SEEDS = 4
"""How many programs that are good alone are tried beside others."""
_MOST_FOLLOWED = 2000
"""After so many choices of algorithms looked at, programs known are grouped into answers."""
_FARTHEST = 2
"""No answer stands for programs of more than so many times its least price."""


@dataclass(frozen=True)
class CandidatePart:
    """A program's steps, the bytes of the payload that it is for, and in how many segments."""

    steps: tuple[Instruction, ...]
    size_bytes: int
    segments: int


@dataclass(frozen=True)
class CandidatePrograms:
    """Programs for a reduction that run side by side, most often one.

    Where there are several, their steps take the algorithms that keep links busy for least time.
    ``key`` ranks them: ticks, number of steps, their canonical spellings.
    """

    key: tuple[int, int, tuple[str, ...]]
    reduction: Reduction
    parts: tuple[CandidatePart, ...]

    @property
    def ticks(self) -> int:
        return self.key[0]


class CandidateSearch:
    """Searches for programs that carry a payload, cut into any of some numbers of segments.

    With ``stripes`` a payload may also be split over several programs, if it may be cut at all.
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
        self.simulator = simulator
        self.payload_bytes = payload_bytes
        self.segments = segments
        self.barriers = segments == (1,)
        self.stripes = stripes and not self.barriers
        self.go_on = go_on

    def bound_ticks(self, reduction: Reduction) -> int:
        """A lower bound, in ticks, on the price of every program for the reduction."""
        goal = self.library.language.goal
        least = bound(self.simulator.system, reduction, self.payload_bytes, goal)
        return int(bound_ticks(least.seconds))

    def best(
        self, reduction: Reduction, count: int, limit: int | None = None
    ) -> list[CandidatePrograms]:
        """The ``count`` best programs in the order of their keys, none dearer than the limit.

        Where ``go_on`` answers False, the best of those looked at until then. Exact among single
        programs; of the splits over several there is one, the best found.
        """
        every = _Candidates(self, reduction)
        cheapest_ = every.cheapest_in_one if self.barriers else every.cheapest
        priced = cheapest_(count, limit)
        return sorted((every.found(one) for one in priced), key=lambda one: one.key)[:count]

    def distinct(
        self, reduction: Reduction, count: int, limit: int | None = None
    ) -> list[DistinctAnswer[CandidatePrograms]]:
        """The ``count`` best answers that prices tell apart, each told as its simplest member.

        Those dearer than the limit are left out. Where ``go_on`` answers False, or after so many
        prices that it would take too long, those known are grouped.
        """
        every = _Candidates(self, reduction)
        grouping: AnswerGrouping[CandidatePrograms] = AnswerGrouping(every.reach)
        for bound_, priced in every.in_order(grouping, limit):
            while len(grouping) < count and grouping.settle(bound_):
                pass
            if len(grouping) == count or (limit is not None and grouping.beyond(limit, bound_)):
                break
            grouping.add(every.member(priced()))
        else:
            while len(grouping) < count and grouping.settle(inf):
                pass
        answers = grouping.answers()
        return [one for one in answers if limit is None or one.what.ticks <= limit]


class _Candidates:
    """All programs for one reduction, priced when they are asked for. Mutable."""

    def __init__(self, search: CandidateSearch, reduction: Reduction) -> None:
        self._search, self._reduction = search, reduction
        self._library, self._simulator = search.library, search.simulator
        self._payload_bytes = search.payload_bytes
        self._graph = self._library.graph(len(reduction.tree.digits))
        self._spelled = self._library.spellings(reduction.tree)
        self._prices_of = cache(self._step_prices)
        self._kinds, kind_of = _kinds(self._graph.alphabet, reduction.tree)
        self._by_kind = [tuple(kind_of[label] for label in path) for path in self._paths]

    def found(self, priced: _Priced) -> CandidatePrograms:
        """Paths side by side as what they mean on the tree, spelled."""
        ticks, slices = priced
        texts = self._texts(slices)
        parts = tuple(
            CandidatePart(
                tuple(self._graph.alphabet[label].instruction for label in labels), size, segments
            )
            for labels, size, segments in slices
        )
        return CandidatePrograms((ticks, len(texts), texts), self._reduction, parts)

    def member(self, priced: _Priced) -> Member[CandidatePrograms]:
        """The same beside others, from which prices tell it or do not."""
        ticks, slices = priced
        texts, segments = self._texts(slices), max(segments for _, _, segments in slices)
        program = slices[0][0] if len(slices) == 1 else texts
        simplicity = (len(slices), segments, len(texts), texts)
        return Member(self._estimate(ticks, slices), simplicity, program, self.found(priced))

    def reach(self, estimate: PriceEstimate) -> float:
        """The largest price that measurements may not tell from a given one."""
        system = self._simulator.system
        calibration = system.calibration
        if calibration is None or system.prices == "typical":
            return largest_near(estimate.ticks, estimate.finest)
        lows = [one.low for one in calibration.residuals]
        lows += [one.low for one in calibration.strays]
        farthest: float = estimate.highest / min([1.0, *lows])
        return max(largest_near(estimate.ticks), min(farthest, _FARTHEST * estimate.ticks))

    def cheapest_in_one(self, count: int, limit: int | None) -> Iterator[_Priced]:
        """The cheapest paths where steps wait for each other."""
        for path in islice(self._in_one_segment(limit), count):
            yield path.price, ((path.labels, self._payload_bytes, 1),)

    def cheapest(self, count: int, limit: int | None) -> Iterator[_Priced]:
        """The cheapest paths, and all that tie, in segments; and the best split over several."""
        followed, go_on, stripes = self._followed(), self._search.go_on, self._search.stripes
        enough = max(count, _SEEDS) if stripes and limit is None else count
        seeds = cheapest_paths(followed, enough, limit, go_on)
        yield from (self._alone(one.path, one.segments, one.ticks) for one in seeds)
        if stripes:
            if limit is not None:
                seeds = cheapest_paths(followed, _SEEDS, None, go_on)
            yield from (self._side_by_side(one) for one in self._splits(seeds, limit)[:1])

    def in_order(
        self, grouping: AnswerGrouping[CandidatePrograms], limit: int | None
    ) -> Iterator[tuple[int, Callable[[], _Priced]]]:
        """Every program in every number of segments, with a bound in ticks, the lowest first.

        Each is priced when it is asked for. Left out are those that cannot matter: those that an
        answer stands for, and more segments that are no cheaper.
        """
        if self._search.barriers:
            for path in self._in_one_segment(None):
                yield path.price, partial(self._as_priced, path)
            return
        followed = self._followed()
        if self._search.stripes:
            seeds = cheapest_paths(followed, _SEEDS, None, self._search.go_on)
            for some in self._splits(seeds, limit):
                yield 0, partial(self._side_by_side, some)
        yield from self._one_by_one(followed, grouping)

    def _one_by_one(
        self, followed: PathRanking, grouping: AnswerGrouping[CandidatePrograms]
    ) -> Iterator[tuple[int, Callable[[], _Priced]]]:
        """Programs alone, those of one step first: whatever is left out, they are looked at."""
        least: dict[int, int] = {}
        uncut = min(self._search.segments)
        for path, labels in enumerate(self._paths):
            if len(labels) == 1:
                least[path] = uncut
                yield 0, partial(self._alone, path, uncut, followed.ticks(path, uncut))
        for one in followed:
            if (least and not self._search.go_on()) or followed.looked > _MOST_FOLLOWED:
                return
            cut_less = one.segments < least.get(one.path, one.segments + 1)
            if cut_less and not grouping.counted(self._paths[one.path]):
                least[one.path] = one.segments
                yield one.ticks, partial(self._alone, one.path, one.segments, one.ticks)

    def _as_priced(self, path: Path) -> _Priced:
        return path.price, ((path.labels, self._payload_bytes, 1),)

    def _alone(self, path: int, segments: int, ticks: int) -> _Priced:
        return ticks, ((self._paths[path], self._payload_bytes, segments),)

    def _side_by_side(self, found: StripeSplit) -> _Priced:
        slices = tuple((self._paths[s.path], s.size_bytes, s.segments) for s in found.stripes)
        return found.ticks, slices

    @property
    def _paths(self) -> list[Labels]:
        return self._library.paths(len(self._reduction.tree.digits))

    def _texts(self, slices: Sequence[_Slice]) -> tuple[str, ...]:
        return tuple(self._spelled[label] for labels, *_ in slices for label in labels)

    def _in_one_segment(self, limit: int | None) -> Iterator[Path]:
        """All paths where steps wait for each other, the cheapest first."""
        graph, spelled = self._graph, self._spelled
        prices = self._simulator.prices(graph.alphabet, self._reduction, self._payload_bytes)
        order = {text: rank for rank, text in enumerate(sorted(set(spelled)))}
        return graph.cheapest(prices, [order[text] for text in spelled], limit)

    def _followed(self) -> PathRanking:
        sizes = {count: self._payload_bytes / count for count in self._search.segments}
        works = choices(self._simulator, self._kinds, self._reduction, sizes)
        return PathRanking(self._by_kind, works, _SEEDS)

    def _splits(self, seeds: Sequence[SegmentedPath], limit: int | None) -> list[StripeSplit]:
        """The best split found over several programs, if there is a better than one; a simpler."""
        search, paths = self._search, len(self._paths)
        seeds = sorted(seeds, key=lambda one: (one.ticks, one.path))[:_SEEDS]
        ways = [self._phases_by(pick) for pick in OVERLAP_PICKS]
        every = [
            split(way, paths, seeds, self._payload_bytes, search.segments, limit, search.go_on)
            for way in (ways if self._both_ways else ways[:1])
        ]
        found = [_price_stripes(one.stripes, ways) for one in every if one]
        if not found:
            return []
        best, way = min(found, key=lambda one: (one[0].ticks, one[0].stripes))
        limit = largest_near(best.ticks, finest_resolution(self._simulator.system))
        simple = find_simpler_split(best, way, search.segments, limit)
        return [best, _price_stripes(simple.stripes, ways)[0]]

    @property
    def _both_ways(self) -> bool:
        """Whether a program may have steps that send more than they receive, and the reverse."""
        goal = self._library.language.goal
        reducing = any(link.reduces for link in self._simulator.system.links)
        return reducing and not goal.apart and (goal.rounds > 1 or goal.rooted)

    def _phases_by(self, pick: LinePicker) -> PhasesOf:
        """The phases of a path beside others, for so many bytes."""
        kinds, paths, reduction = self._kinds, self._by_kind, self._reduction
        usual = {self._payload_bytes / segments for segments in self._search.segments}

        @cache
        def moves_of(size_bytes: float) -> Sequence[Phases]:
            return self._simulator.works(kinds, reduction, size_bytes, pick)

        @cache
        def phases_of(path: int, size_bytes: float) -> Phases:
            if size_bytes in usual:
                return tuple(chain(*(moves_of(size_bytes)[kind] for kind in paths[path])))
            moves = [kinds[kind] for kind in paths[path]]
            return tuple(chain(*self._simulator.works(moves, reduction, size_bytes, pick)))

        return phases_of

    def _estimate(self, ticks: int, slices: Sequence[_Slice]) -> PriceEstimate:
        """A price, and to which sources of error it is owed."""
        prices = (
            price
            for labels, size, segments in slices
            for price in segments * self._prices_of(labels, size / segments, segments, len(slices))
        )
        return estimate_as_shown(self._simulator.system, ticks, prices)

    def _step_prices(
        self, labels: Labels, size_bytes: float, segments: int, beside: int
    ) -> list[InstructionPrice]:
        """The phases of one segment, alone by the algorithms best for the whole."""
        moves = [self._graph.alphabet[label] for label in labels]
        if beside == 1:
            return [*choose_phases(self._simulator, moves, self._reduction, size_bytes, segments)]
        each = (
            self._simulator.move(m, self._reduction, size_bytes, OVERLAP_PICKS[0]) for m in moves
        )
        return [*chain(*each)]


def _kinds(alphabet: Sequence[Move], tree: Tree) -> tuple[list[Move], list[int]]:
    """One move of each kind, and the kind of every label: moves of a kind cost the same anywhere.

    They have the same groups, buffers of the same sizes, and transposes of the same sizes.
    """
    found: dict[Hashable, int] = {}
    first: list[Move] = []
    kind_of = []
    for move in alphabet:
        size = min(buffer_fraction(kind, tree) for kind in move.buffers)
        sides = [
            tuple(buffer_fraction(shuffle.scattered, tree) for shuffle in shuffles)
            for shuffles in (move.before, move.after)
        ]
        kind = found.setdefault((move.instruction, size, *sides), len(found))
        kind_of.append(kind)
        if kind == len(first):
            first.append(move)
    return first, kind_of


def _price_stripes(
    stripes: tuple[PathStripe, ...], ways: Sequence[PhasesOf]
) -> tuple[StripeSplit, PhasesOf]:
    """Stripes with the least of their prices, and the way to take algorithms that has it."""
    priced = [(price_of(stripes, way), number) for number, way in enumerate(ways)]
    ticks, number = min((ticks, number) for ticks, number in priced if ticks is not None)
    return StripeSplit(stripes, ticks), ways[number]
