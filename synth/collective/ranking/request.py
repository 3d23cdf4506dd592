"""The planner's request and report types, and watchers of its progress."""

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
from synth.collective.ranking.settings import PricedProgram, RuntimeCalls
from synth.collective.semantics.lowering import check_payload
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import Derivation
from synth.collective.verify.symbolic import Proved, Verdict
from synth.search.forks import WorkControl


@dataclass(frozen=True)
class Request:
    """A collective over the axes ``over``: an all-reduce unless ``language`` specifies another
    goal.

    ``payload_bytes`` is the largest buffer of a device, as ``Goal`` defines it.

    ``placement`` fixes the matrix instead of trying all; with ``by_framework`` it is the
    frameworks' placement rather than the user's. ``per_placement`` asks for the ``k`` best programs
    of every placement instead of the ``k`` best of all. ``segments`` are the numbers of segments a
    payload may be cut into, so that steps overlap; with 1 alone steps are barriers. With
    ``stripes``, and where steps overlap, the payload may be split over concurrent programs. With
    ``exact``, every program is an answer; otherwise programs that prices cannot order are one
    answer.

    Raises InputError for payloads, k or segments out of range.
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
        """The goal of the collective."""
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
    """A derived program for a slice of the payload, in a number of segments.

    Where the goal has one piece for each member, the slice is a slice of every piece.
    """

    derivation: Derivation
    size_bytes: int
    segments: int = 1

    @property
    def program(self) -> Program:
        return self.derivation.program


@dataclass(frozen=True)
class Candidate:
    """A placement, the programs that run on it concurrently (most often one), and the price."""

    reduction: Reduction
    parts: tuple[ProgramPart, ...]
    ticks: int

    @property
    def derivation(self) -> Derivation:
        """The derivation of the program with the largest slice."""
        return self.parts[0].derivation

    @property
    def program(self) -> Program:
        return self.derivation.program

    @property
    def segments(self) -> int:
        return self.parts[0].segments

    @property
    def text(self) -> str:
        """The program, or all programs where several run concurrently."""
        return programs_text(str(part.program) for part in self.parts)

    @property
    def seconds(self) -> float:
        return self.ticks / TICKS_PER_SECOND


@dataclass(frozen=True)
class PricedStripe:
    """A part of a candidate, the prices of one of its segments, and its verdict."""

    part: ProgramPart
    prices: tuple[InstructionPrice, ...]
    verdict: Verdict

    @property
    def priced(self) -> PricedProgram:
        """Its program with these prices."""
        return self.part.derivation, self.prices, self.part.segments


class DefaultComparison(Enum):
    """An answer compared with the runtime's own choice, within the prices' uncertainty.

    NOT_OFFERED: faster only by algorithms that runtimes lack.
    """

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    NOT_OFFERED = "not-offered"


@dataclass(frozen=True)
class Answer:
    """A ranked candidate with its prices, the runtime's default, its bound and its proof.

    ``defaults`` is what the runtime would do for the plain collective on the same placement, each
    of its options priced by name, ``baseline_seconds`` the price of the option it would choose;
    ``bound`` is below every schedule; ``limited_by`` is the resource waited for longest.
    ``barrier_seconds`` is the price of the first stripe's program for the whole payload in one
    segment. ``interval`` and ``baseline_interval`` are the expected ranges of measurements; None
    without a calibration.

    The answer stands for ``others`` that prices cannot order; ``least_seconds`` is the least price
    among all of them. ``estimate`` and ``baseline_estimate`` attribute the prices to sources of
    error. ``runtime_estimate`` is the price as the runtime runs it: by algorithms that it has, as
    priced where environment settings can select them, else by its own choice; ``runtime_prices``
    are the first stripe's prices then.

    ``calls_bound`` is the bound for reducing switches used through the calls that they offer.
    ``by_size``: the answer is part of a range with an answer for each size. ``called``: the calls
    with their ways; None where the runtime takes no settings. ``not_measured``: the parts of its
    price or of the default's that no row of a calibration measured.
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
        """Whether it is the plain collective in one call, perhaps by another algorithm."""
        [first, *others] = self.stripes
        same = [price.what for price in first.prices] == [self.goal.value]
        return same and not others and first.part.segments == 1

    @property
    def against_default(self) -> DefaultComparison:
        """How it compares with the runtime's own choice."""
        return self.against(self.baseline_estimate)

    def against(self, default: PriceEstimate) -> DefaultComparison:
        """Compares it with a default, on this placement or another."""
        if self.runtime_estimate.surely_below(default):
            return DefaultComparison.FASTER
        if self.estimate.surely_below(default) and not self.runtime_estimate.perhaps_below(default):
            return DefaultComparison.NOT_OFFERED
        if default.surely_below(self.runtime_estimate):
            return DefaultComparison.SLOWER
        return DefaultComparison.SAME

    @property
    def runtime_seconds(self) -> float:
        """Seconds as the runtime runs it."""
        return self.runtime_estimate.ticks / TICKS_PER_SECOND

    @property
    def goal(self) -> Goal:
        return self.candidate.derivation.goal

    @property
    def prices(self) -> tuple[InstructionPrice, ...]:
        """The first stripe's prices."""
        return self.stripes[0].prices

    @property
    def verdict(self) -> Verdict:
        """The first verdict that is not a proof, else the first stripe's."""
        verdicts = [stripe.verdict for stripe in self.stripes]
        return next((each for each in verdicts if not isinstance(each, Proved)), verdicts[0])

    @property
    def baseline_seconds(self) -> float:
        return total_seconds(self.defaults.baseline)


@dataclass(frozen=True)
class SearchCoverage:
    """How much was searched, and whether the search was complete.

    ``complete`` is False if the search was stopped: then something better may be missing.
    ``best_default_seconds`` is the best baseline over all searched placements.
    """

    best_default_seconds: float
    placements: int
    of_placements: int
    programs: int
    complete: bool


@dataclass(frozen=True)
class Report:
    """Answers, best first, with the candidates they were chosen from.

    ``faster_elsewhere`` are answers on other placements, one each, which would be faster than
    the first if nothing else were sent; only where the request's placement is ``by_framework``.
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
    """One of the best results so far during a search, not proved yet.

    For a whole job ``program`` is empty, and ``seconds`` are a step's exposed seconds. ``gap``: by
    what share ``seconds`` exceed a lower bound of all plans; None if no bound is known.
    """

    rank: int
    axes: tuple[Axis, ...]
    placement: tuple[tuple[int, ...], ...]
    program: str
    seconds: float
    gap: float | None = None


class Watcher:
    """Receives the progress of a search, and may stop it. By default it does nothing."""

    @property
    def processes(self) -> int:
        """How many processes may work at once at the moment."""
        return 1

    def go_on(self) -> bool:
        """Returns False to stop with the results so far."""
        return True

    def explored(self, states: int) -> None:
        """Reports how many states of the current tree the program search has expanded."""

    def searching(self, states: int) -> bool:
        """Reports explored states, and returns whether to go on."""
        self.explored(states)
        return self.go_on()

    def placed(self, done: int, of: int) -> None:
        """Reports that ``done`` of ``of`` placements have been priced."""

    def judged(self, done: int, of: int) -> None:
        """Reports that ``done`` of ``of`` answers have been replayed and proved."""

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        """Reports that the best so far have changed; ``best`` returns them."""


class QuietWatcher(Watcher):
    """Stops when another watcher does, and reports nothing to it.

    It allows ``processes`` processes if given, else as many as the other watcher.
    """

    def __init__(self, watcher: Watcher, processes: int | None = None) -> None:
        self._watcher, self._allowed = watcher, processes
        self.go_on = watcher.go_on  # type: ignore[method-assign]

    @property
    def processes(self) -> int:
        return self._allowed or self._watcher.processes


class UnrankedWatcher(QuietWatcher):
    """Passes on the progress of one of several questions, but not the best so far.

    A ranking of one system is not a ranking of all systems compared. Forks of this process report
    nothing: its pipes and screens belong to it alone.
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
    """Passes everything on, and remembers whether the work was ``stopped``."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(watcher)
        self.noting = StopFlag(watcher)
        self.go_on = self.noting.go_on  # type: ignore[method-assign]

    @property
    def stopped(self) -> bool:
        """Whether the work was stopped: then something may be missing."""
        return self.noting.stopped

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        if os.getpid() == self._process:
            self._watcher.ranked(best)


class StopFlag:
    """Asks a watcher whether to go on, and remembers a refusal: then something may be missing.

    Mutable: once ``stopped``, it does not ask again.
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
    """Returns concurrent programs in one line, for display."""
    return " | ".join(programs)
