"""Schedules as a versioned JSON document: written, described by a JSON Schema, and read again.

``docs/schedule.md`` says what the document means, ``docs/schedule.schema.json`` is the schema. The
models are the description; documents are written without them, because checking long lists of
groups takes longer than writing them.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grammar import Collective, Program, instructions, parse
from hierarchies import Axis, Hierarchy, InputError, Level, Placement, Reduction
from synth.emit.buffers import Buffers, buffers
from synth.emit.source import Files, Source
from synth.schedule import Exchange, Phase, Schedule, Transpose

Json = dict[str, Any]

FORMAT = "collsynth.schedule"
VERSION = 1
_SHOWN = 200

Positive = Annotated[int, Field(ge=1)]
Device = Annotated[int, Field(ge=0)]
Group = Annotated[list[Device], Field(min_length=1)]


class Part(BaseModel):
    """What all parts of a document have in common: nothing is guessed, nothing is unknown."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LevelPart(Part):
    """One level of the machine."""

    name: str = Field(description="What its units are called.")
    count: Positive = Field(description="How many of them each unit of the level above has.")


class ExchangePart(Part):
    """One collective, run by several groups of devices at once."""

    collective: Literal["all-reduce", "reduce-scatter", "all-gather", "reduce", "broadcast"] = (
        Field(description="What every group does, with its members' whole buffers; reductions add.")
    )
    groups: Annotated[list[Group], Field(min_length=1)] = Field(
        description="Device ids in member order; the first member is the root of a reduce or "
        "broadcast. Groups are disjoint and of one size; devices in none of them do nothing."
    )
    bytes: Positive = Field(description="The largest of the members' buffers before and after.")


class TransposePart(Part):
    """A change of the order of memory inside each device; nothing is sent."""

    collective: Literal["transpose"] = Field(description="Marks a step without communication.")
    groups: Annotated[list[Group], Field(max_length=0)] = Field(description="Always empty.")
    bytes: Positive = Field(description="The size of a device's buffer.")
    devices: Group = Field(description="The ids of the devices that do it.")
    shape: list[Positive] = Field(
        description="The buffer is an array of this shape and one more dimension for the rest."
    )
    axes: list[Annotated[int, Field(ge=0)]] = Field(
        description="The order in which the dimensions of shape come out; the rest stays last."
    )


StepPart = Annotated[ExchangePart | TransposePart, Field(discriminator="collective")]


class Document(Part):
    """A schedule of collsynth: what each device does, step by step, to carry out an all-reduce."""

    schema_version: Literal[1] | None = Field(
        default=None, description="The version of the command line's answers, if this is one."
    )
    format: Literal["collsynth.schedule"] = Field(description="What this document is.")
    version: Literal[1] = Field(
        description="Keys may be added under the same number; readers refuse other numbers."
    )
    system: str | None = Field(default=None, description="The name of the machine, for people.")
    levels: Annotated[list[LevelPart], Field(min_length=1)] = Field(
        description="The machine, outermost level first. A device's id is the mixed-radix number "
        "of its digits, one a level."
    )
    axes: dict[str, Positive] = Field(
        description="The parallelism axes and their sizes; their order counts.", min_length=1
    )
    placement: list[list[Positive]] = Field(
        description="The parallelism matrix: one row an axis, one column a level."
    )
    reduce: Annotated[list[str], Field(min_length=1)] = Field(description="The axes reduced over.")
    collapse: bool = Field(
        description="Whether the axes reduced over make one digit a level in the program, named "
        "after the level; else one each, named level.axis."
    )
    program: str = Field(description="The program these steps carry out.")
    devices: Positive = Field(description="How many devices there are; ids count from 0.")
    payload_bytes: Positive = Field(description="What each device has to reduce.")
    padded_bytes: Positive = Field(
        description="The payload with padding at its end: the next multiple of pieces * segments."
    )
    pieces: Positive = Field(description="Into how many equal parts each segment is cut.")
    segments: Positive = Field(
        description="Into how many equal segments the padded payload is cut. Each goes through all "
        "steps; a step waits for the step before of its segment and for itself in the segment "
        "before, so that segments overlap."
    )
    reduction_groups: Annotated[list[Group], Field(min_length=1)] = Field(
        description="The devices whose payloads are added up: at the end each member of a group "
        "holds the sum of all its members' payloads."
    )
    steps: list[StepPart] = Field(description="What is done, in this order.")


def schema() -> Json:
    """The JSON Schema (draft 2020-12) of documents."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Document.model_json_schema(),
    }


def document(schedule: Schedule, system: str | None = None) -> Json:
    """A schedule as the keys and values of a document."""
    reduction = schedule.reduction
    placement = reduction.placement
    return {
        "format": FORMAT,
        "version": VERSION,
        **({} if system is None else {"system": system}),
        "levels": [
            {"name": level.name, "count": level.cardinality} for level in placement.hierarchy.levels
        ],
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "reduce": list(reduction.over),
        "collapse": reduction.collapse,
        "program": str(schedule.program),
        "devices": schedule.devices,
        "payload_bytes": schedule.payload_bytes,
        "padded_bytes": schedule.padded_bytes,
        "pieces": schedule.pieces,
        "segments": schedule.segments,
        "reduction_groups": reduction.grid().tolist(),
        "steps": [_step(phase) for phase in schedule.phases],
    }


def write(source: Source) -> Files:
    """The document of a schedule as a file, one key and one step a line."""
    return {"schedule.json": printed(document(source.schedule, source.system.name))}


def printed(body: Json) -> str:
    """A document as text."""
    lines = [f"  {json.dumps(key)}: {_value(key, value)}" for key, value in body.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(key: str, value: Any) -> str:
    if key != "steps" or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"    {json.dumps(step)}" for step in value) + "\n  ]"


def _step(phase: Phase) -> Json:
    if isinstance(phase, Exchange):
        return {
            "collective": phase.collective.value,
            "groups": phase.groups.tolist(),
            "bytes": phase.size_bytes,
        }
    return {
        "collective": "transpose",
        "groups": [],
        "bytes": phase.size_bytes,
        "devices": phase.devices.tolist(),
        "shape": list(phase.shape),
        "axes": list(phase.axes),
    }


def read(text: str) -> Schedule:
    """The schedule of a document: ``document(read(printed(document(s)))) == document(s)``.

    The document must agree with itself: sizes, groups and devices fit each other, step by step.
    Whether its steps make an all-reduce is for the replay to say. Raises InputError with the
    place of the first thing wrong.
    """
    try:
        found = Document.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "schedule"
        raise InputError(first["msg"], where=place) from None
    reduction = _reduction(found)
    schedule = Schedule(
        _program(found, reduction),
        reduction,
        found.payload_bytes,
        found.pieces,
        tuple(_phase(step, i, found.devices) for i, step in enumerate(found.steps)),
        found.segments,
    )
    _same("padded_bytes", found.padded_bytes, schedule.padded_bytes)
    _same("reduction_groups", found.reduction_groups, reduction.grid().tolist())
    _check_sizes(schedule)
    return schedule


def _reduction(found: Document) -> Reduction:
    try:
        hierarchy = Hierarchy(tuple(Level(level.name, level.count) for level in found.levels))
        axes = tuple(Axis(name, size) for name, size in found.axes.items())
        placement = Placement(hierarchy, axes, tuple(map(tuple, found.placement)))
        reduction = Reduction(placement, tuple(found.reduce), found.collapse)
    except InputError as error:
        raise error.at("levels, axes, placement, reduce") from None
    _same("devices", found.devices, hierarchy.devices)
    return reduction


def _program(found: Document, reduction: Reduction) -> Program:
    try:
        program = parse(found.program)
        instructions(program, reduction.tree)
    except InputError as error:
        raise error.at("program") from None
    return program


def _phase(step: StepPart, position: int, devices: int) -> Phase:
    """A step as a phase, its devices checked."""
    place = f"steps.{position}"
    if isinstance(step, TransposePart):
        if sorted(step.axes) != list(range(len(step.shape))):
            hint = f"the numbers below {len(step.shape)} in some order"
            raise InputError(f"{step.axes} do not order the shape", where=place, hint=hint)
        _check_ids(step.devices, devices, f"{place}.devices")
        return Transpose(np.array(step.devices), tuple(step.shape), tuple(step.axes), step.bytes)
    if len({len(group) for group in step.groups}) > 1:
        raise InputError("groups of several sizes", where=f"{place}.groups", hint="one size only")
    _check_ids(list(chain.from_iterable(step.groups)), devices, f"{place}.groups")
    return Exchange(Collective(step.collective), np.array(step.groups), step.bytes)


def _check_ids(ids: list[int], devices: int, place: str) -> None:
    if max(ids) >= devices:
        raise InputError(f"no device {max(ids)}", where=place, hint=f"there are {devices}")
    if len(set(ids)) != len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(f"device {twice} is named twice", where=place, hint="once a step at most")


def _same(place: str, given: object, right: object) -> None:
    if given != right:
        hint = f"the rest of the document makes it {str(right)[:_SHOWN]}"
        raise InputError(f"{str(given)[:_SHOWN]} does not fit", where=place, hint=hint)


def _check_sizes(schedule: Schedule) -> None:
    """Follow the buffers: every step's bytes must be those its devices hold."""
    held = buffers(schedule)
    for i, phase in enumerate(schedule.phases):
        place = f"steps.{i}"
        parts = _parts(held, i, phase)
        if not parts or any(schedule.pieces % part for part in parts):
            raise InputError("its devices hold nothing that fits it", where=place)
        _same(f"{place}.bytes", phase.size_bytes, schedule.segment_bytes // min(parts))
        if isinstance(phase, Transpose) and phase.size_bytes % prod(phase.shape):
            raise InputError(f"{phase.size_bytes} bytes have no such shape", where=place)


def _parts(held: Buffers, position: int, phase: Phase) -> set[int]:
    """Into how many parts the payload is cut in the buffers of a step; none if they do not fit."""
    if isinstance(phase, Transpose):
        parts = set(held.parts[position, phase.devices].tolist())
        return parts if len(parts) == 1 and 0 not in parts else set()
    before = held.parts[position, phase.groups]
    sending = before[:, :1] if phase.collective is Collective.BROADCAST else before
    fits = (sending > 0).all() and (sending == sending[:, :1]).all()
    if phase.collective is Collective.ALL_GATHER:
        fits = fits and not (before % phase.groups.shape[1]).any()
    after = held.parts[position + 1, phase.groups]
    return ({*before.ravel().tolist(), *after.ravel().tolist()} - {0}) if fits else set()
