"""What is asked of the planner and what it answers: the types on both sides of the path."""

from __future__ import annotations

from dataclasses import dataclass, field

from grammar import Goal, Program
from hierarchies import Axis, InputError, Reduction, System
from synth.algorithms import Choice
from synth.bound import Bound
from synth.defaults import Defaults
from synth.lowering import check_payload
from synth.pipelines import SEGMENTS
from synth.programs import Language
from synth.proof import Verdict
from synth.semantics import Derivation
from synth.simulator import TICKS_PER_SECOND, StepPrice, total_seconds


@dataclass(frozen=True)
class Request:
    """A collective over the axes ``over``, an all-reduce unless ``language`` has another goal.

    ``payload_bytes`` is the largest buffer of a device, as ``Goal`` says.

    ``placement`` fixes the matrix instead of trying all; ``per_placement`` asks for the ``k`` best
    programs of every placement instead of the ``k`` best of all. ``segments``: the numbers of
    segments a payload may be cut into, so that steps overlap; with 1 alone they are barriers.
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
class Candidate:
    """A placement and a program on it, derived; what it costs, in how many segments."""

    reduction: Reduction
    derivation: Derivation
    ticks: int
    segments: int = 1

    @property
    def program(self) -> Program:
        return self.derivation.program

    @property
    def seconds(self) -> float:
        return self.ticks / TICKS_PER_SECOND


@dataclass(frozen=True)
class Answer:
    """A ranked candidate with all that is said of it.

    ``defaults`` is what the runtime would do for the plain collective on the same placement, each
    of its options priced by name, ``baseline_seconds`` the one it would choose; ``bound`` what no
    schedule can beat; ``limited_by`` the resource that the program waits for longest. ``prices``
    are of one segment; ``barrier_seconds`` is the price of the same program in one.
    """

    rank: int
    candidate: Candidate
    payload_bytes: int
    defaults: Defaults
    bound: Bound
    limited_by: str
    prices: tuple[StepPrice, ...]
    verdict: Verdict
    barrier_seconds: float

    @property
    def goal(self) -> Goal:
        return self.candidate.derivation.goal

    @property
    def baseline_seconds(self) -> float:
        return total_seconds(self.defaults.baseline)


@dataclass(frozen=True)
class Report:
    """Answers, best first; what was looked at; whether that was all.

    ``complete`` is False if the search was stopped: then something better may be missing.
    ``best_default_seconds`` is the best baseline over all placements looked at.
    """

    system: System
    request: Request
    answers: tuple[Answer, ...]
    best_default_seconds: float
    placements: int
    of_placements: int
    programs: int
    complete: bool


class Watcher:
    """Told how far the work is, and asked whether to go on. By default it does nothing."""

    def go_on(self) -> bool:
        """Answer False to stop with what there is."""
        return True

    def explored(self, states: int) -> None:
        """The search for programs has looked into so many states of the tree at hand."""

    def searching(self, states: int) -> bool:
        """Told while programs are searched: pass it on, and say whether to go on."""
        self.explored(states)
        return self.go_on()

    def placed(self, done: int, of: int) -> None:
        """So many placements have been priced, of so many."""

    def judged(self, done: int, of: int) -> None:
        """So many answers have been replayed and proved, of so many."""
