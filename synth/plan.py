"""The whole path as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice

from grammar import ALL_AT_ONCE, Instruction, Program, spell
from hierarchies import (
    Axis,
    InputError,
    Placement,
    Reduction,
    System,
    Tree,
    check_axes,
    count_placements,
    load,
    nearest,
    placements,
)
from synth.algorithms import Choice
from synth.bound import all_reduce_bound
from synth.layout import Move
from synth.lowering import lower, moves
from synth.overlap import Work
from synth.pipelines import SEGMENTS, bound_ticks, cheapest, price_ticks
from synth.programs import Language, Vertex, explore_moves
from synth.proof import Unknown, Verdict, prove
from synth.replay import compare
from synth.request import Answer, Candidate, Part, Report, Request, Stripe, Watcher
from synth.search import Explored
from synth.semantics import Derivation, Refusal, derive, retold
from synth.simulator import (
    TICKS_PER_SECOND,
    Simulator,
    StepPrice,
    limiting_side_by_side,
    total_seconds,
)
from synth.stripes import split


def answers(system: System, request: Request, watcher: Watcher | None = None) -> Report:
    """Rank every valid program on every placement, exactly, and prove the best ones.

    Ties: fewer steps, then spelling, then the order of placements. Every answer is derived again
    from its text, replayed with every factor 2 and once 3, and put to z3 before it is returned.
    Raises InputError for axes or placements that do not fit the system.
    """
    survey = _Survey(system, request, watcher or Watcher())
    ranked = survey.run()
    told = []
    for rank, candidate in ranked:
        told.append(survey.answer(rank, candidate))
        survey.watcher.judged(len(told), len(ranked))
    return Report(
        system,
        request,
        tuple(told),
        survey.best_default_ticks / TICKS_PER_SECOND,
        survey.placements,
        survey.of_placements,
        survey.programs,
        survey.complete,
    )


_Graph = Explored[Vertex, Move]
_Path = tuple[int, tuple[int, ...], int]
"""What a path costs in ticks, its labels, and in how many segments."""
_Slice = tuple[tuple[int, ...], int, int]
"""The labels of a path, the bytes that it reduces, and in how many segments."""
_SEEDS = 4
"""How many programs that are good alone are tried beside others."""


@dataclass(frozen=True)
class _Found:
    """Paths of the search that run side by side, most often one, with the key that ranks them."""

    key: tuple[int, int, tuple[str, ...], int]
    reduction: Reduction
    parts: tuple[tuple[tuple[Instruction, ...], int, int], ...]


class _Survey:
    """Prices the programs of one placement after the other and keeps the best."""

    def __init__(self, system: System, request: Request, watcher: Watcher) -> None:
        check_axes(system.hierarchy, request.axes)
        self._system = system
        self._request = request
        self.watcher = watcher
        self._simulator = Simulator(system, request.choice)
        self._fixed = [Simulator(system, choice) for choice in (Choice.RING, Choice.TREE)]
        self._graphs: dict[int, _Graph] = {}
        self._listed: dict[int, list[tuple[int, ...]]] = {}
        self._numbers: dict[int, int] = {}
        self._verdicts: dict[tuple[Instruction, ...], Verdict] = {}
        self.placements = 0
        self.of_placements = self._count()
        self.programs = 0
        self.complete = True
        self.best_default_ticks = 0

    def run(self) -> list[tuple[int, Candidate]]:
        """The ranked candidates."""
        best: list[_Found] = []
        for least, position, reduction in self._by_bound():
            if self.placements and not self._go_on():
                break
            limit = None if self._request.per_placement else self._limit(best)
            if limit is None or least <= limit:
                found = self._best_of(reduction, position, limit)
                best = best + found if self._request.per_placement else self._top([*best, *found])
            self._note_default(reduction)
            self.programs += self._counted(len(reduction.tree.digits))
            self.placements += 1
            self.watcher.placed(self.placements, self.of_placements)
        return self._ranked(best)

    def _ranked(self, best: list[_Found]) -> list[tuple[int, Candidate]]:
        ranked, rank, last = [], 0, -1
        for found in best:
            position = found.key[-1]
            rank = 1 if self._request.per_placement and position != last else rank + 1
            last = position
            ranked.append((rank, self._candidate(found)))
        return ranked

    def _placements(self) -> Iterable[Placement]:
        request, hierarchy = self._request, self._system.hierarchy
        if request.placement is not None:
            return [Placement(hierarchy, request.axes, request.placement)]
        return placements(hierarchy, request.axes)

    def _by_bound(self) -> Iterable[tuple[int, int, Reduction]]:
        """Each placement's bound in ticks, its position and reduction.

        The lowest bounds come first where only the best of all are asked for: once k answers are
        known, placements whose bound is above the last of them need no search.
        """
        request = self._request
        found = []
        for position, placement in enumerate(self._placements()):
            reduction = Reduction(placement, request.over, request.collapse)
            least = all_reduce_bound(self._system, reduction, request.payload_bytes).seconds
            found.append((int(bound_ticks(least)), position, reduction))
        return found if request.per_placement else sorted(found, key=lambda one: one[:2])

    def _counted(self, depth: int) -> int:
        """How many programs there are on a tree of so many digits."""
        if depth not in self._numbers:
            self._numbers[depth] = sum(self._graph(depth).count())
        return self._numbers[depth]

    def _count(self) -> int:
        if self._request.placement is not None:
            return 1
        return count_placements(self._system.hierarchy, self._request.axes)

    def _limit(self, best: list[_Found]) -> int | None:
        """The price that another answer may not exceed."""
        return best[-1].key[0] if len(best) == self._request.k else None

    def _top(self, found: list[_Found]) -> list[_Found]:
        return sorted(found, key=lambda f: f.key)[: self._request.k]

    def _best_of(self, reduction: Reduction, position: int, limit: int | None) -> list[_Found]:
        """The best programs of one placement, at most k, none dearer than the limit."""
        graph = self._graph(len(reduction.tree.digits))
        spelled = _spellings(graph, reduction.tree)
        barriers = self._request.segments == (1,)
        find = self._in_one_segment if barriers else self._in_segments
        payload = self._request.payload_bytes
        chosen: list[tuple[int, tuple[_Slice, ...]]] = [
            (ticks, ((labels, payload, segments),))
            for ticks, labels, segments in find(graph, reduction, spelled, limit)
        ]
        if self._request.stripes and not barriers:
            chosen += self._in_stripes(graph, reduction, limit)
        found = []
        for ticks, slices in chosen:
            texts = tuple(spelled[label] for labels, *_ in slices for label in labels)
            parts = tuple(
                (tuple(graph.alphabet[label].instruction for label in labels), size, segments)
                for labels, size, segments in slices
            )
            found.append(_Found((ticks, len(texts), texts, position), reduction, parts))
        return self._top(found)

    def _in_stripes(
        self, graph: _Graph, reduction: Reduction, limit: int | None
    ) -> Iterator[tuple[int, tuple[_Slice, ...]]]:
        """The best split found over several programs, if any is better than one."""
        payload, counts = self._request.payload_bytes, self._request.segments
        paths = self._paths(len(reduction.tree.digits))
        moves = self._works(graph, reduction)
        known = {payload / segments: works for segments, works in moves.items()}
        seeds = cheapest(paths, moves, _SEEDS, None, self._go_on)
        seeds = sorted(seeds, key=lambda one: (one.ticks, one.path))[:_SEEDS]

        @cache
        def phases_of(path: int, size_bytes: float) -> tuple[Work, ...]:
            if size_bytes in known:
                return tuple(chain(*(known[size_bytes][label] for label in paths[path])))
            alphabet = [graph.alphabet[label] for label in paths[path]]
            return tuple(chain(*self._simulator.works(alphabet, reduction, size_bytes)))

        found = split(phases_of, len(paths), seeds, payload, counts, limit, self._go_on)
        if found:
            yield (
                found.ticks,
                tuple((paths[one.path], one.size_bytes, one.segments) for one in found.stripes),
            )

    def _in_one_segment(
        self, graph: _Graph, reduction: Reduction, spelled: list[str], limit: int | None
    ) -> Iterator[_Path]:
        """The k cheapest paths where steps wait for each other."""
        prices = self._simulator.prices(graph.alphabet, reduction, self._request.payload_bytes)
        order = {text: rank for rank, text in enumerate(sorted(set(spelled)))}
        paths = graph.cheapest(prices, [order[text] for text in spelled], limit)
        for path in islice(paths, self._request.k):
            yield path.price, path.labels, 1

    def _in_segments(
        self, graph: _Graph, reduction: Reduction, spelled: list[str], limit: int | None
    ) -> Iterator[_Path]:
        """The k cheapest paths, and all that tie, where the payload may be cut into segments."""
        paths = self._paths(len(reduction.tree.digits))
        moves = self._works(graph, reduction)
        for one in cheapest(paths, moves, self._request.k, limit, self._go_on):
            yield one.ticks, paths[one.path], one.segments

    def _works(self, graph: _Graph, reduction: Reduction) -> dict[int, list[tuple[Work, ...]]]:
        """The phases of every move, for each number of segments."""
        return {
            segments: self._simulator.works(
                graph.alphabet, reduction, self._request.payload_bytes / segments
            )
            for segments in self._request.segments
        }

    def _go_on(self) -> bool:
        """Whether to go on; remembers that something may be missing if not."""
        going = self.watcher.go_on()
        self.complete = self.complete and going
        return going

    def _paths(self, depth: int) -> list[tuple[int, ...]]:
        """Every valid program of a depth, as labels."""
        if depth not in self._listed:
            graph = self._graph(depth)
            free = [0] * len(graph.alphabet)
            self._listed[depth] = [path.labels for path in graph.cheapest(free, free)]
        return self._listed[depth]

    def _graph(self, depth: int) -> _Graph:
        if depth not in self._graphs:
            graph = explore_moves(depth, self._request.language, self.watcher.searching)
            self.complete = self.complete and graph.complete
            self._graphs[depth] = graph
        return self._graphs[depth]

    def _note_default(self, reduction: Reduction) -> None:
        ticks = self._default_ticks(self._simulator, reduction)
        if self.placements == 0 or ticks < self.best_default_ticks:
            self.best_default_ticks = ticks

    def _default_ticks(self, simulator: Simulator, reduction: Reduction) -> int:
        plain = _plain_moves(len(reduction.tree.digits))
        return sum(simulator.prices(plain, reduction, self._request.payload_bytes))

    def _candidate(self, found: _Found) -> Candidate:
        tree = found.reduction.tree
        parts = (
            Part(derived(Program(tuple(spell(s, tree) for s in steps)), tree), size, segments)
            for steps, size, segments in found.parts
        )
        return Candidate(found.reduction, tuple(parts), found.key[0])

    def answer(self, rank: int, candidate: Candidate) -> Answer:
        """All that is said of a candidate; proof and replays are made once per program."""
        reduction, payload = candidate.reduction, self._request.payload_bytes
        for part in candidate.parts:
            steps = part.derivation.instructions
            if steps not in self._verdicts:
                self._verdicts[steps] = self._judged(part.derivation)

        def prices_of(what: Derivation, size: float) -> tuple[StepPrice, ...]:
            return tuple(priced(self._simulator, what, reduction, size))

        stripes = tuple(
            Stripe(
                part,
                prices_of(part.derivation, part.size_bytes / part.segments),
                self._verdicts[part.derivation.instructions],
            )
            for part in candidate.parts
        )
        ring, tree = (self._default_ticks(fixed, reduction) for fixed in self._fixed)
        return Answer(
            rank,
            candidate,
            {"ring": ring / TICKS_PER_SECOND, "tree": tree / TICKS_PER_SECOND},
            all_reduce_bound(self._system, reduction, payload),
            limiting_side_by_side(
                [(stripe.prices, stripe.part.segments) for stripe in stripes], candidate.seconds
            ),
            stripes,
            total_seconds(prices_of(candidate.derivation, payload)),
            prices_of(one_step(reduction.tree), payload),
        )

    def _judged(self, derivation: Derivation) -> Verdict:
        """Replays and proof, as long as the watcher lets us; the first answer is always judged."""
        if self._verdicts and not self._go_on():
            return Unknown("the budget ended before z3 was asked")
        return judged(derivation)


@cache
def _plain_moves(depth: int) -> tuple[Move, ...]:
    """The one-step all-reduce as a move: the same on every tree of a depth."""
    return moves(one_step(Tree.of(*(2,) * depth)))


def _spellings(graph: _Graph, tree: Tree) -> list[str]:
    """The canonical spelling of every move's step on a tree."""
    texts: dict[Instruction, str] = {}
    for move in graph.alphabet:
        if move.instruction not in texts:
            texts[move.instruction] = str(spell(move.instruction, tree))
    return [texts[move.instruction] for move in graph.alphabet]


def derived(program: Program, tree: Tree) -> Derivation:
    """The derivation of a program that is known to be valid."""
    derivation = derive(program, tree)
    if isinstance(derivation, Refusal):
        raise AssertionError(f"{program}: {derivation}")
    return derivation


def one_step(tree: Tree) -> Derivation:
    """The plain all-reduce over a whole tree; no step at all where there is nothing to reduce."""
    return derived(ALL_AT_ONCE if tree.digits else Program(()), tree)


def judged(derivation: Derivation) -> Verdict:
    """What z3 says of a program that the rules allow and that has been rehearsed."""
    rehearse(derivation)
    return prove(derivation.program, derivation.tree)


def rehearse(derivation: Derivation) -> None:
    """Replay a program on small machines of its shape: every factor 2, and once 3.

    Raises AssertionError if the arrays disagree with the rules: then the house is broken.
    """
    depth = len(derivation.tree.digits)
    shapes = {(2,) * depth, (3,) + (2,) * (depth - 1) if depth else ()}
    for shape in sorted(shapes):
        reduction = Reduction.plain(*shape)
        schedule = lower(retold(derivation, reduction.tree), reduction, payload_bytes=1)
        failure = compare(schedule, elements=schedule.pieces + 1)
        if failure:
            raise AssertionError(f"{derivation.program}: {failure}")


def priced(
    simulator: Simulator, derivation: Derivation, reduction: Reduction, payload_bytes: float
) -> Iterator[StepPrice]:
    """The phases of a derived program with their prices and reasons."""
    for move in moves(derivation):
        yield from simulator.move(move, reduction, payload_bytes)


def in_segments(
    simulator: Simulator,
    derivation: Derivation,
    reduction: Reduction,
    payload_bytes: float,
    counts: Iterable[int],
) -> tuple[int, tuple[StepPrice, ...], float]:
    """Of some numbers of segments the cheapest, the prices of one segment, and all in seconds."""
    found = []
    for count in counts:
        prices = tuple(priced(simulator, derivation, reduction, payload_bytes / count))
        found.append((price_ticks([price.work for price in prices], count), count, prices))
    ticks, count, prices = min(found, key=lambda one: one[:2])
    return count, prices, ticks / TICKS_PER_SECOND


def top(
    system: str | System,
    *,
    axes: Mapping[str, int],
    reduce: str | Sequence[str],
    payload_bytes: int = 2**30,
    k: int = 10,
    max_steps: int = 5,
    algorithm: str = "auto",
    segments: int | None = None,
) -> Report:
    """The k best placements and programs for an all-reduce, proved: the whole job in one call.

    ``system`` is a catalogue name (``dgx-h100:4``), the path of a TOML file, or a System;
    ``axes`` maps names to sizes; ``reduce`` names one or several of them; ``payload_bytes`` is the
    whole tensor on each device; ``segments`` an only number of segments to try beside one.
    Raises InputError for anything that does not fit together.
    """
    known = [choice.value for choice in Choice]
    if algorithm not in known:
        raise InputError(f"no algorithm {algorithm!r}", hint=nearest(algorithm, known))
    request = Request(
        axes=tuple(Axis(name, size) for name, size in axes.items()),
        over=(reduce,) if isinstance(reduce, str) else tuple(reduce),
        payload_bytes=payload_bytes,
        k=k,
        language=Language(max_steps),
        choice=Choice(algorithm),
        segments=SEGMENTS if segments is None else tuple(sorted({1, segments})),
    )
    return answers(load(system) if isinstance(system, str) else system, request)
