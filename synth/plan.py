"""The whole path as one function: from a system and a request to ranked, proved programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from grammar import ALL_AT_ONCE, Program, spell
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
from synth.finder import Finder, Found
from synth.layout import Move
from synth.library import Library
from synth.lowering import lower, moves
from synth.pipelines import SEGMENTS, price_ticks
from synth.programs import Language
from synth.proof import Unknown, Verdict, prove
from synth.replay import compare
from synth.request import Answer, Candidate, Report, Request, Watcher
from synth.semantics import Derivation, Refusal, derive, retold
from synth.simulator import TICKS_PER_SECOND, Simulator, StepPrice, limiting, total_seconds

_Placed = tuple[int, int, tuple[str, ...], int, Found]
"""The key of a program found, the position of its placement, and what was found."""


def answers(
    system: System,
    request: Request,
    watcher: Watcher | None = None,
    library: Library | None = None,
) -> Report:
    """Rank every valid program on every placement, exactly, and prove the best ones.

    Ties: fewer steps, then spelling, then the order of placements. Every answer is derived again
    from its text, replayed with every factor 2 and once 3, and put to z3 before it is returned.
    Questions in the same language may share a ``library``. Raises InputError for axes or
    placements that do not fit the system.
    """
    watcher = watcher or Watcher()
    library = library or Library(request.language, watcher.searching)
    survey = _Survey(system, request, watcher, library)
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


class _Survey:
    """Prices the programs of one placement after the other and keeps the best."""

    def __init__(
        self, system: System, request: Request, watcher: Watcher, library: Library
    ) -> None:
        check_axes(system.hierarchy, request.axes)
        self._system = system
        self._request = request
        self.watcher = watcher
        self._library = library
        self._simulator = Simulator(system, request.choice)
        self._fixed = [Simulator(system, choice) for choice in (Choice.RING, Choice.TREE)]
        self._finder = Finder(
            library, self._simulator, request.payload_bytes, request.segments, self._go_on
        )
        self._stopped = False
        self._judged_any = False
        self.placements = 0
        self.of_placements = self._count()
        self.programs = 0
        self.best_default_ticks = 0

    @property
    def complete(self) -> bool:
        return self._library.complete and not self._stopped

    def run(self) -> list[tuple[int, Candidate]]:
        """The ranked candidates."""
        best: list[_Placed] = []
        for least, position, reduction in self._by_bound():
            if self.placements and not self._go_on():
                break
            limit = None if self._request.per_placement else self._limit(best)
            if limit is None or least <= limit:
                found = self._finder.best(reduction, self._request.k, limit)
                best += [(*one.key, position, one) for one in found]
                if not self._request.per_placement:
                    best = sorted(best, key=lambda one: one[:4])[: self._request.k]
            self._note_default(reduction)
            self.programs += self._library.count(len(reduction.tree.digits))
            self.placements += 1
            self.watcher.placed(self.placements, self.of_placements)
        return self._ranked(best)

    def _ranked(self, best: list[_Placed]) -> list[tuple[int, Candidate]]:
        ranked, rank, last = [], 0, -1
        for *_, position, found in best:
            rank = 1 if self._request.per_placement and position != last else rank + 1
            last = position
            ranked.append((rank, candidate(found)))
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
            found.append((self._finder.bound_ticks(reduction), position, reduction))
        return found if request.per_placement else sorted(found, key=lambda one: one[:2])

    def _count(self) -> int:
        if self._request.placement is not None:
            return 1
        return count_placements(self._system.hierarchy, self._request.axes)

    def _limit(self, best: list[_Placed]) -> int | None:
        """The price that another answer may not exceed."""
        return best[-1][0] if len(best) == self._request.k else None

    def _go_on(self) -> bool:
        """Whether to go on; remembers that something may be missing if not."""
        going = self.watcher.go_on()
        self._stopped = self._stopped or not going
        return going

    def _note_default(self, reduction: Reduction) -> None:
        ticks = self._default_ticks(self._simulator, reduction)
        if self.placements == 0 or ticks < self.best_default_ticks:
            self.best_default_ticks = ticks

    def _default_ticks(self, simulator: Simulator, reduction: Reduction) -> int:
        plain = _plain_moves(len(reduction.tree.digits))
        return sum(simulator.prices(plain, reduction, self._request.payload_bytes))

    def answer(self, rank: int, candidate: Candidate) -> Answer:
        """All that is said of a candidate; proof and replays are made once per program."""
        reduction, derivation = candidate.reduction, candidate.derivation
        payload = self._request.payload_bytes

        def prices_of(what: Derivation, size: float) -> tuple[StepPrice, ...]:
            return tuple(priced(self._simulator, what, reduction, size))

        prices = prices_of(derivation, payload / candidate.segments)
        whole = prices if candidate.segments == 1 else prices_of(derivation, payload)
        ring, tree = (self._default_ticks(fixed, reduction) for fixed in self._fixed)
        return Answer(
            rank,
            candidate,
            {"ring": ring / TICKS_PER_SECOND, "tree": tree / TICKS_PER_SECOND},
            all_reduce_bound(self._system, reduction, payload),
            limiting(prices, candidate.segments),
            prices,
            self._judged(derivation),
            total_seconds(whole),
            prices_of(one_step(reduction.tree), payload),
        )

    def _judged(self, derivation: Derivation) -> Verdict:
        """Replays and proof, as long as the watcher lets us; the first answer is always judged."""
        verdicts, steps = self._library.verdicts, derivation.instructions
        if steps not in verdicts:
            if self._judged_any and not self._go_on():
                return Unknown("the work was stopped before z3 was asked")
            verdicts[steps] = judged(derivation)
        self._judged_any = True
        return verdicts[steps]


def candidate(found: Found) -> Candidate:
    """A program that was found, derived again from its text."""
    tree = found.reduction.tree
    program = Program(tuple(spell(step, tree) for step in found.steps))
    return Candidate(found.reduction, derived(program, tree), found.ticks, found.segments)


@cache
def _plain_moves(depth: int) -> tuple[Move, ...]:
    """The one-step all-reduce as a move: the same on every tree of a depth."""
    return moves(one_step(Tree.of(*(2,) * depth)))


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
