"""The input of every emitter: a schedule, its prices and verdict, and the caller's options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from textwrap import wrap

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import InputError, Placement, Reduction, System
from synth.collective.emit.mesh import Mesh, RankOrder, mesh
from synth.collective.price.steps import InstructionPrice
from synth.collective.semantics.schedule import Exchange, Schedule
from synth.collective.verify.symbolic import Proved, Unknown
from synth.events.overlap import Lane, makespan_within

KEEP = "Keep the default"
"""The beginning of the paragraph that advises the default."""
MOST_CHANNELS = 64
"""MAXCHANNELS of NCCL (src/include/device.h, v2.32.6)."""
Files = dict[str, str | bytes]
"""The files of a target: their contents by name."""


def stamp(
    reduction: Reduction,
    goal: Goal,
    slices: Iterable[tuple[str, int, int]],
    op: ReductionKind = ReductionKind.SUM,
    order: RankOrder = RankOrder.MACHINE,
) -> str:
    """Returns six digits that distinguish the file names of different programs.

    ``slices`` has the text, payload bytes and segments of each concurrent program. Without stamps,
    files of other programs, payloads, placements or rank orders would share a name, and the wrong
    file could be run.
    """
    placement = reduction.placement
    axes = [(axis.name, axis.size) for axis in placement.axes]
    levels = [(level.name, level.cardinality) for level in placement.hierarchy.levels]
    where = (levels, axes, placement.matrix, reduction.over)
    known = (where, goal.value, op.value, order.value, list(slices))
    return hash_digits(repr(known))


def hash_digits(text: str) -> str:
    """Returns six hexadecimal digits of a text's SHA-256."""
    return sha256(text.encode()).hexdigest()[:6]


def module_name(runtime: str, stamped: str) -> str:
    """Returns the module name of a runtime's Python file: ``collsynth_torch_1f3a5c``."""
    return f"collsynth_{runtime.replace('-', '_')}_{stamped}"


def c_comment(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yields a comment in C. Lines that begin with a space, such as commands, are not wrapped."""
    yield "/*"
    for text in paragraphs:
        plain = text.encode("ascii", "replace").decode().replace("*/", "* /")
        lines = [plain] if plain.startswith(" ") else wrap(plain, 96, break_on_hyphens=False)
        yield from (f" * {line}" for line in lines)
    yield " */"


@dataclass(frozen=True)
class EmitOptions:
    """Options for the form of emitted files.

    * ``rank_order``: how the job's processes are numbered;
    * ``hosts``: names of the hosts, in the order of the hierarchy (else host0, host1, ...);
    * ``host_level``: the level whose units are hosts (else the level called node or host);
    * ``channels``: how many channels NCCL uses, for its tuner or its configuration of a call;
    * ``made_by``: the name that signs the files.

    Raises InputError for a number of channels that NCCL does not have.
    """

    rank_order: RankOrder = RankOrder.MACHINE
    hosts: tuple[str, ...] = ()
    host_level: str | None = None
    channels: int | None = None
    made_by: str = "collsynth"

    def __post_init__(self) -> None:
        if self.channels is not None and not 1 <= self.channels <= MOST_CHANNELS:
            raise InputError(
                f"{self.channels} channels", where="--channels", hint=f"1 to {MOST_CHANNELS}"
            )


@dataclass(frozen=True)
class PricedRange:
    """Sizes of the payload for which a program's calls go by the algorithms of these prices.

    The prices are of ``size_bytes``, which lies in the range; both ends belong to it.
    """

    from_bytes: int
    until_bytes: int
    size_bytes: int
    prices: tuple[InstructionPrice, ...]


@dataclass(frozen=True)
class EmitSource:
    """A schedule on a system, with the price of each phase and z3's verdict on its program.

    Prices are of one segment. Where several programs run concurrently, each has a slice of the
    payload (of every member's piece, if the goal is in pieces): this is the first, and ``beside``
    has the others, in the order of slices. ``reached`` explains in paragraphs how to reach its
    price and which settings it needs; if the default is advised, the first paragraph says so.
    ``ranges``: the sizes of the payload that a target which chooses by size covers; without any,
    the one size of the schedule.
    """

    schedule: Schedule
    system: System
    prices: tuple[InstructionPrice, ...]
    verdict: Proved | Unknown
    options: EmitOptions = field(default_factory=EmitOptions)
    beside: tuple[EmitSource, ...] = ()
    reached: tuple[str, ...] = ()
    ranges: tuple[PricedRange, ...] = ()

    @property
    def placement(self) -> Placement:
        return self.schedule.reduction.placement

    @property
    def mesh(self) -> Mesh:
        return mesh(self.placement, self.options.rank_order)

    @property
    def stripes(self) -> tuple[EmitSource, ...]:
        """The concurrent stripes, each as a source of its own; at least one."""
        return (replace(self, beside=()), *self.beside)

    @property
    def stamp(self) -> str:
        """The digits that distinguish its files from those of any other program."""
        own = self.schedule
        slices = [(str(each.program), each.payload_bytes, each.segments) for each in self.schedules]
        return stamp(own.reduction, own.goal, slices, own.op, self.options.rank_order)

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(stripe.schedule for stripe in self.stripes)

    @property
    def payload_bytes(self) -> int:
        """The whole payload: the sum of all slices."""
        return sum(schedule.payload_bytes for schedule in self.schedules)

    @property
    def proved(self) -> bool:
        """Whether z3 proved the programs of all stripes."""
        return all(isinstance(stripe.verdict, Proved) for stripe in self.stripes)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The work of each stripe on the links, as input of the overlap simulator."""
        return tuple(
            Lane(tuple(price.work for price in stripe.prices), stripe.schedule.segments)
            for stripe in self.stripes
        )

    @property
    def seconds(self) -> float:
        """The simulated time, with overlapping segments and concurrent stripes."""
        return makespan_within(self.lanes)


def kept_default(source: EmitSource) -> tuple[str, ...]:
    """Returns the paragraph that advises the default, if there is one.

    The others are about variables that a file with algorithms of its own does not need.
    """
    return tuple(text for text in source.reached[:1] if text.startswith(KEEP))


class CannotExpressError(InputError):
    """A target cannot express a step, which is numbered from 1 among the exchanges."""


def step_number(schedule: Schedule, phase: int) -> int:
    """Returns the number of the step that a phase belongs to: the exchanges up to it."""
    return sum(isinstance(p, Exchange) for p in schedule.phases[: phase + 1])


def inexpressible_error(source: EmitSource, phase: int, why: str) -> CannotExpressError:
    """Returns the error for a phase, by position, that a target cannot express."""
    what = source.schedule.phases[phase]
    name = what.collective.value if isinstance(what, Exchange) else "transpose"
    return CannotExpressError(f"{name}: {why}", where=f"step {step_number(source.schedule, phase)}")


@contextmanager
def number_stripe_errors(source: EmitSource, number: int) -> Iterator[None]:
    """Adds the stripe's number, from 1, to a CannotExpressError raised inside."""
    try:
        yield
    except CannotExpressError as error:
        if not source.beside:
            raise
        place = f"stripe {number}, {error.where}"
        raise CannotExpressError(error.problem, where=place, hint=error.hint) from None
