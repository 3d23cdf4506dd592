"""What is asked of the planner and what it answers: the types on both sides of the path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from grammar import Goal, Program
from hierarchies import Axis, InputError, Reduction, System
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.bound import Bound
from synth.collective.price.defaults import RuntimeDefaults
from synth.collective.price.intervals import Interval
from synth.collective.price.resolution import PriceEstimate
from synth.collective.price.segments import SEGMENTS
from synth.collective.price.steps import TICKS_PER_SECOND, InstructionPrice, total_seconds
from synth.collective.ranking.settings import RuntimeCalls
from synth.collective.semantics.lowering import check_payload
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import Derivation
from synth.collective.verify.symbolic import Proved, Verdict
from synth.search.forks import WorkControl


@dataclass(frozen=True)
class Request:
    """A collective over the axes ``over``, an all-reduce unless ``language`` has another goal.

    ``payload_bytes`` is the largest buffer of a device, as ``Goal`` says.

    ``placement`` fixes the matrix instead of trying all; ``by_framework``: nobody asked for it, but
    frameworks lay the axes out so. ``per_placement`` asks for the ``k`` best
    programs of every placement instead of the ``k`` best of all. ``segments``: the numbers of
    segments a payload may be cut into, so that steps overlap; with 1 alone they are barriers.
    ``stripes``: where steps overlap, the payload may be split over programs side by side, too.
    ``exact``: every program is an answer, however near; else those are one that prices cannot tell
    apart, and answers are so many that prices tell apart.
    Raises InputError for numbers that mean nothing.
    """

    axes: tuple[Axis, ...]
    over: tuple[str, ...]
    payload_bytes: int = 2**30
    k: int = 10
    language: Language = field(default_factory=Language)
    choice: Choice = Choice.AUTO
    collapse: bool = True
    placement: tuple[tuple[int, ...], ...] | None = None
    per_placement: bool = False
    segments: tuple[int, ...] = SEGMENTS
    stripes: bool = True
    by_framework: bool = False
    exact: bool = False

    @property
    def goal(self) -> Goal:
        """What is asked for."""
        return self.language.goal

    def __post_init__(self) -> None:
        check_payload(self.payload_bytes)
        if self.k < 1:
            raise InputError(f"k is {self.k}", hint="ask for at least 1 answer")
        if not self.segments or min(self.segments) < 1:
            raise InputError(
                f"segments are {list(self.segments)}", hint="at least 1 is needed, or auto"
            )


@dataclass(frozen=True)
class ProgramPart:
    """A program, derived, for a slice of the payload, in so many segments.

    Where the goal is in pieces, one for each member, the slice is one of every piece.
    """

    derivation: Derivation
    size_bytes: int
    segments: int = 1

    @property
    def program(self) -> Program:
        return self.derivation.program


@dataclass(frozen=True)
class Candidate:
    """A placement and the programs that run on it side by side, most often one; the price."""

    reduction: Reduction
    parts: tuple[ProgramPart, ...]
    ticks: int

    @property
    def derivation(self) -> Derivation:
        """That of the program with the largest slice."""
        return self.parts[0].derivation

    @property
    def program(self) -> Program:
        return self.derivation.program

    @property
    def segments(self) -> int:
        return self.parts[0].segments

    @property
    def text(self) -> str:
        """The program; where several run side by side, all of them."""
        return programs_text(str(part.program) for part in self.parts)

    @property
    def seconds(self) -> float:
        return self.ticks / TICKS_PER_SECOND


@dataclass(frozen=True)
class PricedStripe:
    """A part of a candidate, its prices and its verdict; ``prices`` are of one of its segments."""

    part: ProgramPart
    prices: tuple[InstructionPrice, ...]
    verdict: Verdict


class DefaultComparison(Enum):
    """An answer beside the runtime's own choice, as far as prices can tell.

    Not offered: it would be faster by algorithms that runtimes have not, and is not by theirs.
    """

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    NOT_OFFERED = "not-offered"


@dataclass(frozen=True)
class Answer:
    """A ranked candidate with its prices, the runtime's own price, its bound and its proof.

    ``defaults`` is what the runtime would do for the plain collective on the same placement, each
    of its options priced by name, ``baseline_seconds`` the one it would choose; ``bound`` what no
    schedule can beat; ``limited_by`` the resource that is waited for longest. ``barrier_seconds``
    is the price of the first stripe's program for the whole payload in one segment. ``interval``
    and ``baseline_interval`` are where measurements take the seconds to lie; None without any.
    The answer stands for ``others`` that prices do not tell from it; ``least_seconds`` is the least
    price among them all. ``estimate`` and ``baseline_estimate`` say what the prices are owed to;
    ``runtime_estimate`` is the price as the runtime runs it: by algorithms that it has, as priced
    where a line of the environment says so, else as it chooses by itself; ``runtime_prices`` are
    those of the first stripe then.
    ``calls_bound`` is what no schedule can beat where switches that add up are used by the calls
    that they offer. ``by_size`` says that it is one of a range, of which each size has its own.
    ``called``: what prices take its calls by; None where the runtime is told nothing.
    ``not_measured``: what of its prices and of the default's no row of a calibration measured.
    """

    rank: int
    candidate: Candidate
    payload_bytes: int
    defaults: RuntimeDefaults
    bound: Bound
    limited_by: str
    stripes: tuple[PricedStripe, ...]
    barrier_seconds: float
    estimate: PriceEstimate
    baseline_estimate: PriceEstimate
    runtime_estimate: PriceEstimate
    runtime_prices: tuple[InstructionPrice, ...]
    interval: Interval | None = None
    baseline_interval: Interval | None = None
    others: int = 0
    least_seconds: float = 0.0
    calls_bound: Bound | None = None
    by_size: bool = False
    called: RuntimeCalls | None = None
    not_measured: str = ""

    @property
    def gains(self) -> bool:
        """Whether it is surely faster than the runtime's choice, as the runtime would run it."""
        return self.runtime_estimate.surely_below(self.baseline_estimate)

    @property
    def plain(self) -> bool:
        """Whether it is the plain collective in one call, though perhaps by another algorithm."""
        [first, *others] = self.stripes
        same = [price.what for price in first.prices] == [self.goal.value]
        return same and not others and first.part.segments == 1

    @property
    def against_default(self) -> DefaultComparison:
        """What prices can tell of it and the runtime's own choice."""
        return self.against(self.baseline_estimate)

    def against(self, default: PriceEstimate) -> DefaultComparison:
        """What prices can tell of it and a default, be it on this placement or another."""
        if self.runtime_estimate.surely_below(default):
            return DefaultComparison.FASTER
        if self.estimate.surely_below(default) and not self.runtime_estimate.perhaps_below(default):
            return DefaultComparison.NOT_OFFERED
        if default.surely_below(self.runtime_estimate):
            return DefaultComparison.SLOWER
        return DefaultComparison.SAME

    @property
    def runtime_seconds(self) -> float:
        """What it takes as the runtime runs it."""
        return self.runtime_estimate.ticks / TICKS_PER_SECOND

    @property
    def goal(self) -> Goal:
        return self.candidate.derivation.goal

    @property
    def prices(self) -> tuple[InstructionPrice, ...]:
        """Those of the first stripe."""
        return self.stripes[0].prices

    @property
    def verdict(self) -> Verdict:
        """The first that is no proof, if there is one."""
        verdicts = [stripe.verdict for stripe in self.stripes]
        return next((one for one in verdicts if not isinstance(one, Proved)), verdicts[0])

    @property
    def baseline_seconds(self) -> float:
        return total_seconds(self.defaults.baseline)


@dataclass(frozen=True)
class SearchCoverage:
    """How much was looked at, and whether that was all.

    ``complete`` is False if the search was stopped: then something better may be missing.
    ``best_default_seconds`` is the best baseline over all placements looked at.
    """

    best_default_seconds: float
    placements: int
    of_placements: int
    programs: int
    complete: bool


@dataclass(frozen=True)
class Report:
    """Answers, best first; and what they were chosen from.

    ``faster_elsewhere`` are answers on other placements, one each, which would be faster than the
    first if nothing else were sent; only where the request's placement is ``by_framework``.
    """

    system: System
    request: Request
    answers: tuple[Answer, ...]
    looked: SearchCoverage
    faster_elsewhere: tuple[Answer, ...] = ()

    @property
    def complete(self) -> bool:
        return self.looked.complete


@dataclass(frozen=True)
class ProvisionalResult:
    """One of the best so far, in a few words, while the search goes on: nothing is proved yet.

    Of a whole job ``program`` is empty, and ``seconds`` are those that a step is exposed to.
    """

    rank: int
    axes: tuple[Axis, ...]
    placement: tuple[tuple[int, ...], ...]
    program: str
    seconds: float


class Watcher:
    """Is called with the progress of a search, and may stop it. By default it does nothing."""

    @property
    def processes(self) -> int:
        """How many may work at once for whoever watches, at the moment."""
        return 1

    def go_on(self) -> bool:
        """Answer False to stop with what there is."""
        return True

    def explored(self, states: int) -> None:
        """The search for programs has expanded so many states of the tree at hand."""

    def searching(self, states: int) -> bool:
        """Called while programs are searched for: pass it on, and say whether to go on."""
        self.explored(states)
        return self.go_on()

    def placed(self, done: int, of: int) -> None:
        """``done`` of ``of`` placements have been priced."""

    def judged(self, done: int, of: int) -> None:
        """``done`` of ``of`` answers have been replayed and proved."""

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        """The best so far have changed; call ``best`` to see them."""


class QuietWatcher(Watcher):
    """Stops when a watcher says so, and tells it nothing."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.go_on = watcher.go_on  # type: ignore[method-assign]

    @property
    def processes(self) -> int:
        return self._watcher.processes


class SerialWatcher(QuietWatcher):
    """The same, and one process works."""

    @property
    def processes(self) -> int:
        return 1


class UnrankedWatcher(QuietWatcher):
    """Passes on the progress of one of several questions, but not the best so far.

    A ranking of one system says nothing of the best over all that are asked about. In a fork of
    this process nothing is told: its pipes and screens are not the fork's to write on.
    """

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(watcher)
        self._process = os.getpid()

    def explored(self, states: int) -> None:
        if os.getpid() == self._process:
            self._watcher.explored(states)

    def placed(self, done: int, of: int) -> None:
        if os.getpid() == self._process:
            self._watcher.placed(done, of)

    def judged(self, done: int, of: int) -> None:
        if os.getpid() == self._process:
            self._watcher.judged(done, of)


class StoppableWatcher(UnrankedWatcher):
    """Passes all on, the best so far too, and remembers whether the work was ``stopped``."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(watcher)
        self.noting = StopFlag(watcher)
        self.go_on = self.noting.go_on  # type: ignore[method-assign]

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop: then something may be missing."""
        return self.noting.stopped

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        if os.getpid() == self._process:
            self._watcher.ranked(best)


class StopFlag:
    """Asks a watcher whether to go on, and remembers if not: then something may be missing.

    Mutable: once ``stopped`` it is asked no more.
    """

    def __init__(self, watcher: WorkControl) -> None:
        self._watcher = watcher
        self.stopped = False

    @property
    def processes(self) -> int:
        """How many may work at once."""
        return self._watcher.processes

    def go_on(self) -> bool:
        """Whether to go on."""
        self.stopped = self.stopped or not self._watcher.go_on()
        return not self.stopped


def programs_text(programs: Iterable[str]) -> str:
    """Programs that run side by side in one line, for people."""
    return " | ".join(programs)
