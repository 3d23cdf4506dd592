"""The best programs for one reduction, priced on a system.

``ranking.placements`` searches them on every placement, ``ranking.sizes`` for every size, and
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
from synth.collective.ranking.distinct import (
    AnswerGrouping,
    DistinctAnswer,
    Member,
    find_simpler_split,
)
from synth.collective.ranking.library import Labels, Library
from synth.collective.ranking.stripes import (
    PathStripe,
    PhasesOf,
    StripeSplit,
    price_of,
    split,
)
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import buffer_fraction
from synth.search.best_first import Path

_Slice = tuple[Labels, int, int]
"""The labels of a path, its bytes, and its number of segments."""
_Priced = tuple[int, tuple[_Slice, ...]]
"""The price in ticks of concurrent paths, and the paths."""
_SEEDS = 4
"""How many of the best single programs are tried together with others."""
_MOST_FOLLOWED = 2000
"""After this many algorithm choices, the programs known are grouped into answers."""
_FARTHEST = 2
"""No answer stands for programs whose prices exceed its least price by more than this factor."""


@dataclass(frozen=True)
class CandidatePart:
    """A program's steps, its bytes of the payload, and its number of segments."""

    steps: tuple[Instruction, ...]
    size_bytes: int
    segments: int


@dataclass(frozen=True)
class CandidatePrograms:
    """Programs for a reduction that run concurrently, most often a single program.

    Concurrent programs use the algorithms that keep links busy for the least time. ``key`` is the
    sort key: ticks, number of steps, canonical spellings.
    """

    key: tuple[int, int, tuple[str, ...]]
    reduction: Reduction
    parts: tuple[CandidatePart, ...]

    @property
    def ticks(self) -> int:
        return self.key[0]


class CandidateSearch:
    """Searches programs for a payload cut into any of the given numbers of segments.

    With ``stripes``, a payload that may be cut may also be split over several programs.
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
        """Returns a lower bound, in ticks, on every program for the reduction."""
        goal = self.library.language.goal
        least = bound(self.simulator.system, reduction, self.payload_bytes, goal)
        return int(bound_ticks(least.seconds))

    def best(
        self, reduction: Reduction, count: int, limit: int | None = None
    ) -> list[CandidatePrograms]:
        """Returns the ``count`` best programs by key, with prices of at most ``limit`` ticks.

        If ``go_on`` returns False, returns the best seen so far. The search is exact among single
        programs; of the splits over several programs only the best found is included.
        """
        candidates = _Candidates(self, reduction)
        find = candidates.cheapest_in_one if self.barriers else candidates.cheapest
        programs = (candidates.found(priced) for priced in find(count, limit))
        return sorted(programs, key=lambda program: program.key)[:count]

    def distinct(
        self, reduction: Reduction, count: int, limit: int | None = None
    ) -> list[DistinctAnswer[CandidatePrograms]]:
        """Returns the ``count`` best answers that prices can order.

        Each is shown as its simplest member; members above ``limit`` are left out. If ``go_on``
        returns False, or after a fixed effort, the programs known so far are grouped.
        """
        candidates = _Candidates(self, reduction)
        grouping: AnswerGrouping[CandidatePrograms] = AnswerGrouping(candidates.reach)
        for bound_, priced in candidates.in_order(grouping, limit):
            enough = grouping.settle_up_to(count, bound_)
            if enough or (limit is not None and grouping.beyond(limit, bound_)):
                break
            grouping.add(candidates.member(priced()))
        else:
            grouping.settle_up_to(count, inf)
        answers = grouping.answers()
        return [each for each in answers if limit is None or each.what.ticks <= limit]


class _Candidates:
    """All programs for one reduction, priced on demand. Mutable."""

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
        """Returns the programs that priced paths spell on the tree."""
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
        """Returns priced paths as a member to be grouped."""
        ticks, slices = priced
        texts, segments = self._texts(slices), max(segments for _, _, segments in slices)
        program = slices[0][0] if len(slices) == 1 else texts
        simplicity = (len(slices), segments, len(texts), texts)
        return Member(self._estimate(ticks, slices), simplicity, program, self.found(priced))

    def reach(self, estimate: PriceEstimate) -> float:
        """Returns the largest price that cannot be distinguished from a given one."""
        system = self._simulator.system
        calibration = system.calibration
        if calibration is None or system.prices == "typical":
            return largest_near(estimate.ticks, estimate.finest)
        lows = [residual.low for residual in calibration.residuals]
        lows += [residual.low for residual in calibration.strays]
        farthest: float = estimate.highest / min([1.0, *lows])
        return max(largest_near(estimate.ticks), min(farthest, _FARTHEST * estimate.ticks))

    def cheapest_in_one(self, count: int, limit: int | None) -> Iterator[_Priced]:
        """Yields the cheapest paths in one segment, where steps are barriers."""
        for path in islice(self._in_one_segment(limit), count):
            yield path.price, ((path.labels, self._payload_bytes, 1),)

    def cheapest(self, count: int, limit: int | None) -> Iterator[_Priced]:
        """Yields the cheapest paths in segments with all ties, and the best split over several."""
        followed, go_on, stripes = self._followed(), self._search.go_on, self._search.stripes
        enough = max(count, _SEEDS) if stripes and limit is None else count
        seeds = cheapest_paths(followed, enough, limit, go_on)
        yield from (self._alone(seed.path, seed.segments, seed.ticks) for seed in seeds)
        if stripes:
            if limit is not None:
                seeds = cheapest_paths(followed, _SEEDS, None, go_on)
            yield from (self._side_by_side(best) for best in self._splits(seeds, limit)[:1])

    def in_order(
        self, grouping: AnswerGrouping[CandidatePrograms], limit: int | None
    ) -> Iterator[tuple[int, Callable[[], _Priced]]]:
        """Returns every program in every number of segments with a rising bound in ticks.

        Each is priced on demand. Irrelevant entries are skipped: programs that belong to an answer,
        and larger numbers of segments that are no cheaper.
        """
        if self._search.barriers:
            paths = self._in_one_segment(None)
            return ((path.price, partial(self._as_priced, path)) for path in paths)
        followed, splits = self._followed(), list[StripeSplit]()
        if self._search.stripes:
            seeds = cheapest_paths(followed, _SEEDS, None, self._search.go_on)
            splits = self._splits(seeds, limit)
        together = [(0, partial(self._side_by_side, split)) for split in splits]
        return chain(together, self._one_by_one(followed, grouping))

    def _one_by_one(
        self, followed: PathRanking, grouping: AnswerGrouping[CandidatePrograms]
    ) -> Iterator[tuple[int, Callable[[], _Priced]]]:
        """Yields single programs; those of one step come first, so they are never left out."""
        least: dict[int, int] = {}
        uncut = min(self._search.segments)
        for path, labels in enumerate(self._paths):
            if len(labels) == 1:
                least[path] = uncut
                yield 0, partial(self._alone, path, uncut, followed.ticks(path, uncut))
        for choice in followed:
            if (least and not self._search.go_on()) or followed.looked > _MOST_FOLLOWED:
                return
            number, segments, ticks = choice.path, choice.segments, choice.ticks
            cut_less = segments < least.get(number, segments + 1)
            if cut_less and not grouping.counted(self._paths[number]):
                least[number] = segments
                yield ticks, partial(self._alone, number, segments, ticks)

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
        """Returns all paths where steps are barriers, cheapest first."""
        graph, spelled = self._graph, self._spelled
        prices = self._simulator.prices(graph.alphabet, self._reduction, self._payload_bytes)
        order = {text: rank for rank, text in enumerate(sorted(set(spelled)))}
        return graph.cheapest(prices, [order[text] for text in spelled], limit)

    def _followed(self) -> PathRanking:
        sizes = {count: self._payload_bytes / count for count in self._search.segments}
        works = choices(self._simulator, self._kinds, self._reduction, sizes)
        return PathRanking(self._by_kind, works, _SEEDS)

    def _splits(self, seeds: Sequence[SegmentedPath], limit: int | None) -> list[StripeSplit]:
        """Returns the best split over several programs, if it beats a single one, and a simpler
        split.
        """
        search, paths = self._search, len(self._paths)
        seeds = sorted(seeds, key=lambda seed: (seed.ticks, seed.path))[:_SEEDS]
        ways = [self._phases_by(pick) for pick in OVERLAP_PICKS]
        found: list[tuple[StripeSplit, PhasesOf]] = []
        for way in ways if self._both_ways else ways[:1]:
            most = min([priced.ticks for priced, _ in found], default=limit)
            stripes = split(
                way, paths, seeds, self._payload_bytes, search.segments, most, search.go_on
            )
            found += [_price_stripes(stripes.stripes, ways)] if stripes else []
        if not found:
            return []
        best, way = min(found, key=lambda priced: (priced[0].ticks, priced[0].stripes))
        limit = largest_near(best.ticks, finest_resolution(self._simulator.system))
        simple = find_simpler_split(best, way, search.segments, limit)
        return [best, _price_stripes(simple.stripes, ways)[0]]

    @property
    def _both_ways(self) -> bool:
        """Whether steps may send more than they receive, and the reverse."""
        goal = self._library.language.goal
        reducing = any(link.reduces for link in self._simulator.system.links)
        return reducing and not goal.apart

    def _phases_by(self, pick: LinePicker) -> PhasesOf:
        """Returns a function from path and bytes to phases, for concurrent programs."""
        kinds, paths, reduction = self._kinds, self._by_kind, self._reduction
        # Segments of the whole payload recur for every path, so all moves are priced at once for
        # these sizes; other sizes are rarely seen twice.
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
        """Returns a price, attributed to sources of error."""
        prices = (
            price
            for labels, size, segments in slices
            for price in segments * self._prices_of(labels, size / segments, segments, len(slices))
        )
        return estimate_as_shown(self._simulator.system, ticks, prices)

    def _step_prices(
        self, labels: Labels, size_bytes: float, segments: int, beside: int
    ) -> list[InstructionPrice]:
        """Returns the phases of one segment; a program alone uses the best algorithms."""
        moves = [self._graph.alphabet[label] for label in labels]
        if beside == 1:
            return [*choose_phases(self._simulator, moves, self._reduction, size_bytes, segments)]
        prices = (
            self._simulator.move(m, self._reduction, size_bytes, OVERLAP_PICKS[0]) for m in moves
        )
        return [*chain(*prices)]


def _kinds(alphabet: Sequence[Move], tree: Tree) -> tuple[list[Move], list[int]]:
    """Returns one move of each kind, and the kind of every label: moves of a kind cost the same.

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
    """Returns stripes at the least of their prices, and the choice of algorithms that gives it."""
    priced = [(price_of(stripes, way), number) for number, way in enumerate(ways)]
    ticks, number = min((ticks, number) for ticks, number in priced if ticks is not None)
    return StripeSplit(stripes, ticks), ways[number]
