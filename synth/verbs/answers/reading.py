"""Answers read back: what ``top`` and ``plan`` print holds all it takes to hand one out later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grammar import Goal
from hierarchies import (
    Axis,
    CalibrationTable,
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    Placement,
    Reduction,
    System,
    calibration_of,
    fault_of,
)
from synth.collectives.algorithms import Choice

Matrix = list[list[int]]


class _Part(BaseModel):
    """Part of an answer: keys that are not needed here are not looked at."""

    model_config = ConfigDict(extra="ignore")


class _Level(_Part):
    name: str
    count: int
    domain: Domain
    bandwidth_GB_per_s: float
    latency_us: float
    ports: int
    through: list[str]
    sources: dict[str, str] = {}
    unconfirmed: list[str] = []
    reduces: bool = False
    ll_latency_us: float | None = None
    ll128_latency_us: float | None = None

    def link(self) -> Link:
        return Link(
            self.domain,
            self.bandwidth_GB_per_s * 1e9,
            self.latency_us * 1e-6,
            self.ports,
            tuple(self.through),
            self.sources,
            tuple(self.unconfirmed),
            self.reduces,
            _seconds(self.ll_latency_us),
            _seconds(self.ll128_latency_us),
        )


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e-6


class _Device(_Part):
    memory_GB_per_s: float
    source: str = ""
    unconfirmed: list[str] = []


class _Exception(_Part):
    unit: str
    missing: bool
    bandwidth_share: float | None = None
    source: str = ""


class _System(_Part):
    name: str
    title: str = ""
    levels: list[_Level]
    device: _Device
    calibration: CalibrationTable | None = None
    exceptions: list[_Exception] = []

    def system(self) -> System:
        hierarchy = Hierarchy(tuple(Level(level.name, level.count) for level in self.levels))
        measured = self.calibration
        healthy = System(
            self.name,
            self.title,
            hierarchy,
            tuple(level.link() for level in self.levels),
            self.device.memory_GB_per_s * 1e9,
            self.device.source,
            tuple(self.device.unconfirmed),
            calibration_of(measured, hierarchy.names) if measured else None,
        )
        faults = [
            fault_of(
                one.unit,
                healthy.hierarchy,
                0.0 if one.missing else one.bandwidth_share or 1.0,
                one.source,
            )
            for one in self.exceptions
        ]
        return healthy.with_faults(faults) if faults else healthy


class _Stripe(_Part):
    program: str
    bytes: int = Field(ge=1)
    segments: int = Field(default=1, ge=1, le=4096)


class _Answer(_Part):
    rank: int
    axes: dict[str, int]
    placement: Matrix
    program: str
    segments: int = Field(default=1, ge=1, le=4096)
    stripes: list[_Stripe] = []


class _Ranking(_Part):
    system: _System
    reduce: list[str]
    bytes: int = Field(ge=1)
    algorithm: Choice = Choice.AUTO
    collapse: bool = True
    request: Goal = Goal.ALL_REDUCE
    answers: list[_Answer]


class _Entry(_Part):
    over: list[str]
    bytes: int = Field(ge=1)
    request: Goal
    answer: _Answer


class _Plan(_Part):
    """A job's placement: every entry is a question with one answer, its rank the entry's number."""

    system: _System
    algorithm: Choice = Choice.AUTO
    collapse: bool = True
    entries: list[_Entry]

    def ranking(self, rank: int) -> _Ranking:
        chosen = _chosen([entry.answer for entry in self.entries], rank, None)
        [entry] = [entry for entry in self.entries if entry.answer is chosen]
        return _Ranking(
            system=self.system,
            reduce=entry.over,
            bytes=entry.bytes,
            algorithm=self.algorithm,
            collapse=self.collapse,
            request=entry.request,
            answers=[chosen],
        )


@dataclass(frozen=True)
class Slice:
    """A program beside others, the bytes it was ranked for, and in how many segments."""

    program: str
    size_bytes: int
    segments: int = 1


@dataclass(frozen=True)
class Remembered:
    """One answer: where it runs, what it is, and for which payload it was ranked.

    ``beside`` has the programs that run side by side, where there are several, the first too.
    """

    system: System
    reduction: Reduction
    program: str
    payload_bytes: int
    algorithm: Choice
    segments: int = 1
    goal: Goal = Goal.ALL_REDUCE
    beside: tuple[Slice, ...] = ()


def remembered(ranking: Mapping[str, Any], rank: int, placement: Matrix | None) -> Remembered:
    """The answer of a rank (on a placement, where several have that rank); of a plan, of an entry.

    Raises InputError for JSON that is no ranking, and for a rank it does not have.
    """
    try:
        plan = _Plan.model_validate(ranking) if "entries" in ranking else None
        read = plan.ranking(rank) if plan else _Ranking.model_validate(ranking)
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(("from", *(str(part) for part in found["loc"])))
        hint = "give what 'collsynth top --json' or 'collsynth plan --json' printed"
        said = found["msg"].lower().partition(" or instance")[0]
        raise InputError(said, where=where, hint=hint) from None
    answer = _chosen(read.answers, rank, placement)
    try:
        system = read.system.system()
    except InputError as error:
        raise error.at("from.system") from None
    axes = tuple(Axis(name, size) for name, size in answer.axes.items())
    matrix = tuple(tuple(row) for row in answer.placement)
    placed = Placement(system.hierarchy, axes, matrix)
    reduction = Reduction(placed, tuple(read.reduce), read.collapse)
    several = answer.stripes if len(answer.stripes) > 1 else []
    return Remembered(
        system,
        reduction,
        answer.program,
        read.bytes,
        read.algorithm,
        answer.segments,
        read.request,
        tuple(Slice(one.program, one.bytes, one.segments) for one in several),
    )


def _chosen(answers: list[_Answer], rank: int, placement: Matrix | None) -> _Answer:
    here = [a for a in answers if placement is None or a.placement == placement]
    found = [answer for answer in here if answer.rank == rank]
    if not found:
        have = ", ".join(str(answer.rank) for answer in here) or "none"
        raise InputError(f"no answer has rank {rank}", where="rank", hint=f"ranks are: {have}")
    if len(found) > 1:
        hint = f"choose a placement: {', '.join(str(answer.placement) for answer in found)}"
        raise InputError(f"{len(found)} answers have rank {rank}", where="rank", hint=hint)
    return found[0]
