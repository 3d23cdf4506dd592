"""Answers given back: what ``top`` and ``plan`` print holds all it takes to hand one out later.

They are read by the models that wrote them, but people keep answers for long: keys that are not
needed are not looked at, and some that older versions did not have may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import new_class
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from grammar import Collective, Goal
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
from synth.degraded import GroupProgram
from synth.degraded.handing import Handed
from synth.verbs.answers.degraded import GroupStep, Left, UnevenAnswer, UnevenReply
from synth.verbs.answers.machine_parts import Device, LevelInFull, MachineException, MachineInFull
from synth.verbs.answers.parts import as_json
from synth.verbs.answers.planning import PlannedEntry, PlanReply
from synth.verbs.answers.ranked import Answer, RankingReply, Stripe

Model = TypeVar("Model", bound=BaseModel)
Matrix = list[list[int]]
Sizes = dict[str, int]
Segments = Annotated[int, Field(ge=1, le=4096)]
Payload = Annotated[int, Field(ge=1)]


def lenient(model: type[Model], **read: Any) -> type[Model]:
    """A model that looks at some keys only: those must be there that have no default here.

    ``read`` has for each key its type, or its type and what it means that it is missing.
    """

    def only(given: Any) -> Any:
        known = isinstance(given, Mapping)
        return {key: given[key] for key in read if key in given} if known else given

    rest = {name: (Any, None) for name in model.model_fields if name not in read}
    kinds = {name: one if isinstance(one, tuple) else (one,) for name, one in (rest | read).items()}
    body = {
        "__module__": __name__,
        "__annotations__": {name: kind for name, (kind, *_) in kinds.items()},
        "model_config": ConfigDict(extra="ignore", strict=False),
        "only": model_validator(mode="before")(staticmethod(only)),
        **{name: default[0] for name, (_, *default) in kinds.items() if default},
    }
    made = new_class(f"Given{model.__name__}", (model,), exec_body=lambda space: space.update(body))
    return cast(type[Model], made)


_Level = lenient(
    LevelInFull,
    name=str,
    count=int,
    domain=Domain,
    bandwidth_GB_per_s=float,
    latency_us=float,
    ports=int,
    through=list[str],
    sources=(dict[str, str], {}),
    unconfirmed=(list[str], []),
    reduces=(bool, False),
    ll_latency_us=(float | None, None),
    ll128_latency_us=(float | None, None),
)
_Device = lenient(Device, memory_GB_per_s=float, source=(str, ""), unconfirmed=(list[str], []))
_Exception = lenient(
    MachineException,
    unit=str,
    missing=bool,
    bandwidth_share=(float | None, None),
    source=(str, ""),
)
_Machine = lenient(
    MachineInFull,
    name=str,
    title=(str, ""),
    levels=list[_Level],  # type: ignore[valid-type]
    device=_Device,
    calibration=(CalibrationTable | None, None),
    exceptions=(list[_Exception], []),  # type: ignore[valid-type]
)
_Stripe = lenient(Stripe, program=str, bytes=Payload, segments=(Segments, 1))
_Answer = lenient(
    Answer,
    rank=int,
    axes=Sizes,
    placement=Matrix,
    program=str,
    segments=(Segments, 1),
    stripes=(list[_Stripe], []),  # type: ignore[valid-type]
)
_Ranking = lenient(
    RankingReply,
    system=_Machine,
    reduce=list[str],
    bytes=Payload,
    algorithm=(Choice, Choice.AUTO),
    collapse=(bool, True),
    request=(Goal, Goal.ALL_REDUCE),
    answers=list[_Answer],  # type: ignore[valid-type]
)
_Step = lenient(
    GroupStep,
    collective=Annotated[Collective, AfterValidator(lambda one: one.value)],
    groups=list[list[int]],
    pieces=(list[list[list[int]]] | None, None),
)
_UnevenAnswer = lenient(
    UnevenAnswer,
    rank=int,
    program=str,
    chunks=Annotated[int, Field(ge=1, le=2**16)],
    segments=Segments,
    seconds=float,
    group_steps=list[_Step],  # type: ignore[valid-type]
)
_Uneven = lenient(
    UnevenReply,
    system=lenient(MachineInFull, name=str),
    bytes=Payload,
    uneven=lenient(Left, devices=Annotated[list[int], Field(min_length=1)]),
    flat_seconds=float,
    answers=list[_UnevenAnswer],  # type: ignore[valid-type]
)
_Entry = lenient(PlannedEntry, over=list[str], bytes=Payload, request=Goal, answer=_Answer)
_Plan = lenient(
    PlanReply,
    system=_Machine,
    algorithm=(Choice, Choice.AUTO),
    collapse=(bool, True),
    entries=list[_Entry],  # type: ignore[valid-type]
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


def remembered(given: Mapping[str, Any], rank: int, placement: Matrix | None) -> Remembered:
    """The answer of a rank (on a placement, where several have that rank); of a plan, of an entry.

    Raises InputError for JSON that is no ranking, and for a rank it does not have.
    """
    try:
        if "entries" in given:
            return _of_plan(_Plan.model_validate(given), rank)
        ranking = _Ranking.model_validate(given)
    except ValidationError as error:
        hint = "give what 'collsynth top --json' or 'collsynth plan --json' printed"
        raise _refused(error, hint) from None
    answer = _chosen(ranking.answers, rank, placement)
    asked = _Asked(tuple(ranking.reduce), ranking.bytes, ranking.request)
    return _remembered(ranking, asked, answer)


def _of_plan(plan: PlanReply, rank: int) -> Remembered:
    """Every entry is a question with one answer, its rank the entry's number."""
    answer = _chosen([entry.answer for entry in plan.entries], rank, None)
    [entry] = [entry for entry in plan.entries if entry.answer is answer]
    return _remembered(plan, _Asked(tuple(entry.over), entry.bytes, entry.request), answer)


def _refused(error: ValidationError, hint: str) -> InputError:
    found = error.errors()[0]
    where = ".".join(("from", *(str(part) for part in found["loc"])))
    said = found["msg"].lower().partition(" or instance")[0]
    return InputError(said, where=where, hint=hint)


@dataclass(frozen=True)
class _Asked:
    over: tuple[str, ...]
    payload_bytes: int
    goal: Goal


def _remembered(reply: RankingReply | PlanReply, asked: _Asked, answer: Answer) -> Remembered:
    try:
        system = system_of(reply.system)
    except InputError as error:
        raise error.at("from.system") from None
    axes = tuple(Axis(name, size) for name, size in answer.axes.items())
    matrix = tuple(tuple(row) for row in answer.placement)
    placed = Placement(system.hierarchy, axes, matrix)
    several = answer.stripes if len(answer.stripes) > 1 else []
    return Remembered(
        system,
        Reduction(placed, asked.over, reply.collapse),
        answer.program,
        asked.payload_bytes,
        reply.algorithm,
        answer.segments,
        asked.goal,
        tuple(Slice(one.program, one.bytes, one.segments) for one in several),
    )


def system_of(machine: MachineInFull) -> System:
    """The machine that an answer describes. Raises InputError for one that cannot be."""
    hierarchy = Hierarchy(tuple(Level(level.name, level.count) for level in machine.levels))
    measured = machine.calibration and CalibrationTable.model_validate(as_json(machine.calibration))
    healthy = System(
        machine.name,
        machine.title,
        hierarchy,
        tuple(link_of(level) for level in machine.levels),
        machine.device.memory_GB_per_s * 1e9,
        machine.device.source,
        tuple(machine.device.unconfirmed),
        calibration_of(measured, hierarchy.names) if measured else None,
    )
    faults = [
        fault_of(
            one.unit, hierarchy, 0.0 if one.missing else one.bandwidth_share or 1.0, one.source
        )
        for one in machine.exceptions
    ]
    return healthy.with_faults(faults) if faults else healthy


def link_of(level: LevelInFull) -> Link:
    """The links of a level."""
    return Link(
        level.domain,
        level.bandwidth_GB_per_s * 1e9,
        level.latency_us * 1e-6,
        level.ports,
        tuple(level.through),
        level.sources,
        tuple(level.unconfirmed),
        level.reduces,
        _seconds(level.ll_latency_us),
        _seconds(level.ll128_latency_us),
    )


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds * 1e-6


def uneven_of(given: Mapping[str, Any]) -> UnevenReply:
    """The ranking of a machine that lacks devices. Raises InputError for JSON that is none."""
    try:
        return _Uneven.model_validate(given)
    except ValidationError as error:
        raise _refused(error, "give what 'collsynth top --json' printed") from None


def handed_of(ranking: UnevenReply, rank: int) -> Handed:
    """The program of a rank. Raises InputError if there is none."""
    found = next((answer for answer in ranking.answers if answer.rank == rank), None)
    if found is None:
        have = ", ".join(str(answer.rank) for answer in ranking.answers) or "none"
        raise InputError(f"no answer has rank {rank}", where="rank", hint=f"ranks are: {have}")
    steps = tuple(one.step() for one in found.group_steps)
    return Handed(
        ranking.system.name,
        tuple(ranking.uneven.devices),
        ranking.bytes,
        GroupProgram(steps, found.chunks, tuple(found.program.split("; "))),
        found.segments,
        found.seconds,
        ranking.flat_seconds,
    )


def _chosen(answers: Sequence[Answer], rank: int, placement: Matrix | None) -> Answer:
    here = [a for a in answers if placement is None or a.placement == placement]
    found = [answer for answer in here if answer.rank == rank]
    if not found:
        have = ", ".join(str(answer.rank) for answer in here) or "none"
        raise InputError(f"no answer has rank {rank}", where="rank", hint=f"ranks are: {have}")
    if len(found) > 1:
        hint = f"choose a placement: {', '.join(str(answer.placement) for answer in found)}"
        raise InputError(f"{len(found)} answers have rank {rank}", where="rank", hint=hint)
    return found[0]
