"""Earlier answers as input: ``emit --from answer.json`` reads the output of ``top`` or ``plan``.

Such a file contains everything that emitting a program needs. Only the necessary keys are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from grammar import Collective, Goal
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, InputError, Machine, Placement, Reduction, System, error_context
from hierarchies.files.schema import EARLIER
from hierarchies.units import format_bytes
from synth.ask.answers.machine_parts import NcclPart
from synth.collective.algorithms.algorithms import Choice
from synth.collective.degraded import GroupProgram
from synth.collective.degraded.handing import PricedGroupProgram
from synth.collective.verify.concrete import GroupStep

Matrix = list[list[int]]
Segments = Annotated[int, Field(ge=1, le=4096)]
Payload = Annotated[int, Field(ge=1)]


class _JsonStripe(BaseModel):
    program: str
    bytes: Payload
    segments: Segments


class _JsonAnswer(BaseModel):
    rank: int
    axes: dict[str, int]
    placement: Matrix
    program: str
    segments: Segments
    stripes: list[_JsonStripe]


class _EarlierMachine(Machine):
    nccl: NcclPart | None = None

    def healthy_system(self) -> System:
        """The machine, with the version of NCCL that its question stated."""
        stated = self.nccl.version if self.nccl and self.nccl.stated_by == "question" else ""
        return replace(super().healthy_system(), nccl=stated)


class _JsonRanking(BaseModel):
    """What ``top`` printed: the request, and its answers."""

    system: _EarlierMachine
    request: Goal
    over: list[str] = Field(alias="reduce")
    bytes: Payload
    algorithm: Choice
    collapse: bool
    answers: list[_JsonAnswer]


class _JsonStretch(BaseModel):
    from_bytes: Payload
    first: _JsonAnswer
    until_bytes: Payload | None = None
    last: _JsonAnswer | None = None

    def at(self, size_bytes: int) -> _JsonAnswer:
        """The answer at one of its sizes: where it ends that is cut as it was priced there."""
        return self.last if self.last and size_bytes == self.until_bytes else self.first


class _JsonSweep(BaseModel):
    """What ``top`` printed of a range of sizes: one answer for each size."""

    system: _EarlierMachine
    request: Goal
    over: list[str] = Field(alias="reduce")
    bytes: tuple[Payload, Payload]
    algorithm: Choice
    collapse: bool
    stretches: Annotated[list[_JsonStretch], Field(min_length=1)]

    def at(self, size_bytes: int | None) -> _JsonRanking:
        """The ranking of one of its sizes. Raises InputError for a size that was not asked."""
        smallest, largest = self.bytes
        if size_bytes is None or not smallest <= size_bytes <= largest:
            size = "no size" if size_bytes is None else f"{size_bytes} bytes"
            ends = (f"{format_bytes(end)} ({end})" for end in self.bytes)
            raise InputError(
                f"{size} of an answer for a range",
                where="--bytes",
                hint=f"choose one: {' to '.join(ends)}",
            )
        answers = [self._stretch(size_bytes).at(size_bytes)]
        return _JsonRanking.model_construct(**{**dict(self), "bytes": size_bytes}, answers=answers)

    def ends_at(self, size_bytes: int | None) -> tuple[int, int] | None:
        """The stretch of a size, up to the next one: there is no size between two stretches."""
        if size_bytes is None:
            return None
        own = self._stretch(size_bytes)
        later = [s.from_bytes - 1 for s in self.stretches if s.from_bytes > own.from_bytes]
        return own.from_bytes, min(later, default=self.bytes[1])

    def _stretch(self, size_bytes: int) -> _JsonStretch:
        return [stretch for stretch in self.stretches if stretch.from_bytes <= size_bytes][-1]


class _JsonEntry(BaseModel):
    name: str
    request: Goal
    over: list[str]
    bytes: Payload
    answer: _JsonAnswer


class _JsonPlan(BaseModel):
    """What ``plan`` printed: each entry is a request with one answer."""

    system: _EarlierMachine
    algorithm: Choice
    collapse: bool
    entries: list[_JsonEntry]


class _JsonGroupStep(BaseModel):
    collective: Collective
    groups: list[list[int]]
    pieces: list[list[list[int]]] | None = None

    def step(self) -> GroupStep:
        """The step that it says."""
        pieces = None
        if self.pieces is not None:
            pieces = tuple(tuple(frozenset(piece) for piece in some) for some in self.pieces)
        return GroupStep(self.collective, tuple(map(tuple, self.groups)), pieces)


class _JsonUnevenAnswer(BaseModel):
    rank: int
    program: str
    chunks: Annotated[int, Field(ge=1, le=2**16)]
    segments: Segments
    seconds: float
    group_steps: list[_JsonGroupStep]


class _JsonName(BaseModel):
    name: str


class _JsonRemaining(BaseModel):
    devices: Annotated[list[int], Field(min_length=1)]


class UnevenRanking(BaseModel):
    """What ``top`` printed of a machine that lacks devices."""

    system: _JsonName
    bytes: Payload
    uneven: _JsonRemaining
    answers: list[_JsonUnevenAnswer]
    flat_seconds: float

    def handed(self, rank: int) -> PricedGroupProgram:
        """The program of a rank. Raises InputError if there is none."""
        [found, *_] = _filter_by_rank(self.answers, rank)
        steps = tuple(step.step() for step in found.group_steps)
        return PricedGroupProgram(
            self.system.name,
            tuple(self.uneven.devices),
            self.bytes,
            GroupProgram(steps, found.chunks, tuple(found.program.split("; "))),
            found.segments,
            found.seconds,
            self.flat_seconds,
        )


@dataclass(frozen=True)
class AnswerStripe:
    """One stripe of an answer: its program, its bytes of the payload, its segments."""

    program: str
    size_bytes: int
    segments: int = 1


@dataclass(frozen=True)
class EarlierAnswer:
    """One answer: where it runs, what it is, and for which payload it was ranked.

    ``beside`` has all stripes of the answer; empty if there is only one. ``program`` is then how
    they are printed, with ``|`` between them, which is no text of the language: ask ``slices``.
    ``ends``: the sizes of the stretch that it is from; None for an answer to one size.
    """

    system: System
    reduction: Reduction
    program: str
    payload_bytes: int
    algorithm: Choice
    segments: int = 1
    goal: Goal = Goal.ALL_REDUCE
    beside: tuple[AnswerStripe, ...] = ()
    op: ReductionKind = ReductionKind.SUM
    ends: tuple[int, int] | None = None

    @property
    def slices(self) -> tuple[AnswerStripe, ...]:
        """All that is sent side by side: the stripes, or the one program with all bytes."""
        return self.beside or (AnswerStripe(self.program, self.payload_bytes, self.segments),)


_HINT = "give what 'collsynth top --json' or 'collsynth plan --json' printed"


def read_plan_entries(given: Mapping[str, Any]) -> dict[str, EarlierAnswer]:
    """Return the answers to all entries of a plan, by name.

    Raises InputError for JSON that is not a plan, and for entries with the same name.
    """
    if "entries" not in given:
        raise InputError(
            "an entry of an answer that is no plan", where="--entry", hint="choose by --rank"
        )
    plan = _read(_JsonPlan, given, _HINT)
    found = {entry.name: _build_answer(plan, entry, entry.answer) for entry in plan.entries}
    if len(found) < len(plan.entries):
        raise InputError(
            "two entries have one name", where="from.entries", hint="choose by --rank, their number"
        )
    return found


def read_answer(
    given: Mapping[str, Any],
    rank: int,
    placement: Matrix | None = None,
    size_bytes: int | None = None,
) -> EarlierAnswer:
    """Return the answer of a rank in a ranking or plan, or of a size in a range of sizes.

    ``placement`` selects an answer if several answers of a ranking have that rank.

    Raises InputError for other JSON, and for a rank or a size that it does not have.
    """
    if "entries" in given:
        plan = _read(_JsonPlan, given, _HINT)
        answer = _choose_answer([entry.answer for entry in plan.entries], rank, None)
        [entry] = [entry for entry in plan.entries if entry.answer is answer]
        return _build_answer(plan, entry, answer)
    ends = None
    if "stretches" in given:
        sweep = _read(_JsonSweep, given, _HINT)
        ranking, ends = sweep.at(size_bytes), sweep.ends_at(size_bytes)
    else:
        ranking = _read(_JsonRanking, given, _HINT)
    answer = _choose_answer(ranking.answers, rank, placement)
    return replace(_build_answer(ranking, ranking, answer), ends=ends)


def read_uneven_ranking(given: Mapping[str, Any]) -> UnevenRanking:
    """The ranking of a machine that lacks devices. Raises InputError for JSON that is none."""
    return _read(UnevenRanking, given, "give what 'collsynth top --json' printed")


M = TypeVar("M", bound=BaseModel)


def _read(model: type[M], given: Mapping[str, Any], hint: str) -> M:
    try:
        return model.model_validate(given, context=EARLIER)
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(("from", *(str(part) for part in found["loc"])))
        problem = found["msg"].lower().partition(" or instance")[0]
        raise InputError(problem, where=where, hint=hint) from None


def _build_answer(
    reply: _JsonRanking | _JsonPlan, asked: _JsonRanking | _JsonEntry, answer: _JsonAnswer
) -> EarlierAnswer:
    with error_context("from.system"):
        system = reply.system.system()
    axes = tuple(Axis(name, size) for name, size in answer.axes.items())
    matrix = tuple(tuple(row) for row in answer.placement)
    placed = Placement(system.hierarchy, axes, matrix)
    several = answer.stripes if len(answer.stripes) > 1 else []
    return EarlierAnswer(
        system,
        Reduction(placed, tuple(asked.over), reply.collapse),
        answer.program,
        asked.bytes,
        reply.algorithm,
        answer.segments,
        asked.request,
        tuple(AnswerStripe(stripe.program, stripe.bytes, stripe.segments) for stripe in several),
    )


def _choose_answer(
    answers: Sequence[_JsonAnswer], rank: int, placement: Matrix | None
) -> _JsonAnswer:
    here = [answer for answer in answers if placement is None or answer.placement == placement]
    found = _filter_by_rank(here, rank)
    if len(found) > 1:
        hint = f"choose a placement: {', '.join(str(answer.placement) for answer in found)}"
        raise InputError(f"{len(found)} answers have rank {rank}", where="rank", hint=hint)
    return found[0]


A = TypeVar("A", _JsonAnswer, _JsonUnevenAnswer)


def _filter_by_rank(answers: Sequence[A], rank: int) -> list[A]:
    found = [answer for answer in answers if answer.rank == rank]
    if not found:
        have = ", ".join(str(answer.rank) for answer in answers) or "none"
        raise InputError(f"no answer has rank {rank}", where="rank", hint=f"ranks are: {have}")
    return found
