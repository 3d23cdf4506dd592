"""Writes schedules as versioned JSON documents, and reads them.

``docs/schedule.md`` explains the document, ``docs/schedule.schema.json`` is its schema. The models
in ``schema.py`` define the document; documents are written without the models, because validating
long lists of groups takes longer than writing them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from pydantic import ValidationError

from grammar import Collective, Goal, instructions, parse
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, Hierarchy, InputError, Level, Placement, Reduction, error_context
from synth.collective.emit.buffers import BufferHistory, follow_buffers
from synth.collective.emit.document.schema import (
    DOCUMENTS,
    FORMAT,
    VERSION,
    Document,
    Json,
    StepPart,
    StripedDocument,
    StripePart,
    TransposePart,
)
from synth.collective.emit.source import EmitSource, Files
from synth.collective.semantics.schedule import Exchange, Phase, Schedule, Transpose

_SHOWN = 200


def document(schedule: Schedule, system: str | None = None) -> Json:
    """Returns a schedule as the keys and values of a document."""
    return {
        **_origin(schedule, system),
        "program": str(schedule.program),
        "devices": schedule.devices,
        **_sizes(schedule),
        "reduction_groups": schedule.reduction.grid().tolist(),
        "steps": [_step(phase) for phase in schedule.phases],
    }


def striped_document(stripes: Sequence[Schedule], system: str | None = None) -> Json:
    """Returns concurrent schedules as the keys and values of a document."""
    return {
        **_origin(stripes[0], system),
        "devices": stripes[0].devices,
        "payload_bytes": sum(stripe.payload_bytes for stripe in stripes),
        "reduction_groups": stripes[0].reduction.grid().tolist(),
        "stripes": [
            {
                "program": str(stripe.program),
                **_sizes(stripe),
                "steps": [_step(phase) for phase in stripe.phases],
            }
            for stripe in stripes
        ],
    }


def _origin(schedule: Schedule, system: str | None) -> Json:
    reduction = schedule.reduction
    placement = reduction.placement
    plain, sums = schedule.goal is Goal.ALL_REDUCE, schedule.op is ReductionKind.SUM
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
        **({} if plain else {"request": schedule.goal.value}),
        **({} if sums else {"op": schedule.op.value}),
        "collapse": reduction.collapse,
    }


def _sizes(schedule: Schedule) -> Json:
    """Returns the bytes, and the numbers of parts they are cut into."""
    return {
        "payload_bytes": schedule.payload_bytes,
        "padded_bytes": schedule.padded_bytes,
        "pieces": schedule.pieces,
        "segments": schedule.segments,
    }


def write(source: EmitSource) -> Files:
    """Returns the document as a file, with one key or step a line."""
    name, file = source.system.name, f"schedule_{source.stamp}.json"
    if source.beside:
        return {file: document_to_text(striped_document(source.schedules, name))}
    return {file: document_to_text(document(source.schedule, name))}


def document_to_text(body: Json) -> str:
    """Returns a document as text."""
    return _object(body, "") + "\n"


def _object(body: Json, indent: str) -> str:
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(key)}: {_value(key, body[key], inner)}" for key in body]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _value(key: str, value: Any, indent: str) -> str:
    if not value or key not in ("steps", "stripes"):
        return json.dumps(value)
    inner = indent + "  "
    items = (_object(item, inner) if key == "stripes" else json.dumps(item) for item in value)
    return "[\n" + ",\n".join(inner + item for item in items) + f"\n{indent}]"


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
    """Returns the schedule of a document; the inverse of ``document``.

    The document must be consistent: sizes, groups and devices fit each other, step by step.
    Whether its steps achieve the request is for the replay to judge. Raises InputError with the
    place of the first inconsistency, and for a document of several stripes.
    """
    found = read_stripes(text)
    if len(found) > 1:
        raise InputError(f"{len(found)} stripes where one schedule is expected", where="stripes")
    return found[0]


def read_stripes(text: str) -> tuple[Schedule, ...]:
    """Returns the concurrent schedules of a document: a single one, or those of its stripes.

    Raises InputError as ``read`` does.
    """
    try:
        found = DOCUMENTS.validate_json(text)
    except ValidationError as error:
        raise _first_error(error) from None
    reduction, goal = _reduction(found), Goal(found.request or Goal.ALL_REDUCE)
    _check_same("reduction_groups", found.reduction_groups, reduction.grid().tolist())
    op = ReductionKind(found.op or ReductionKind.SUM)
    if isinstance(found, Document):
        return (_schedule(found, reduction, goal, op, ""),)
    sizes = [stripe.payload_bytes for stripe in found.stripes]
    _check_same("payload_bytes", found.payload_bytes, sum(sizes))
    return tuple(
        _schedule(stripe, reduction, goal, op, f"stripes.{number}.")
        for number, stripe in enumerate(found.stripes)
    )


def _first_error(error: ValidationError) -> InputError:
    """Returns the first validation error, with a message of our own for the version."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "schedule"
    if place == "version" and first["type"] != "missing":
        hint = f"{VERSION}; have this collsynth write the schedule again"
        return InputError(f"a document of version {first['input']!r}", where=place, hint=hint)
    return InputError(first["msg"], where=place)


def _schedule(
    found: StripePart, reduction: Reduction, goal: Goal, op: ReductionKind, place: str
) -> Schedule:
    devices = reduction.placement.hierarchy.devices
    if goal.in_pieces:
        _check_same(f"{place}pieces", found.pieces, reduction.tree.devices)
    with error_context(f"{place}program"):
        program = parse(found.program)
        instructions(program, reduction.tree, goal)
    steps = enumerate(found.steps)
    phases = tuple(_phase(step, f"{place}steps.{number}", devices) for number, step in steps)
    sizes = found.payload_bytes, found.pieces
    with error_context("op"):
        schedule = Schedule(program, reduction, *sizes, phases, found.segments, goal, op)
    _check_same(f"{place}padded_bytes", found.padded_bytes, schedule.padded_bytes)
    _check_sizes(schedule, place)
    return schedule


def _reduction(found: Document | StripedDocument) -> Reduction:
    with error_context("levels, axes, placement, reduce"):
        hierarchy = Hierarchy(tuple(Level(level.name, level.count) for level in found.levels))
        axes = tuple(Axis(name, size) for name, size in found.axes.items())
        placement = Placement(hierarchy, axes, tuple(map(tuple, found.placement)))
        reduction = Reduction(placement, tuple(found.reduce), found.collapse)
    _check_same("devices", found.devices, hierarchy.devices)
    return reduction


def _phase(step: StepPart, place: str, devices: int) -> Phase:
    """Returns a step as a phase, after checking its devices."""
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


def _check_same(place: str, given: object, right: object) -> None:
    if given != right:
        hint = f"the rest of the document makes it {str(right)[:_SHOWN]}"
        raise InputError(f"{str(given)[:_SHOWN]} does not fit", where=place, hint=hint)


def _check_sizes(schedule: Schedule, stripe: str) -> None:
    """Simulates the buffers: every step's bytes must be those its devices hold."""
    held = follow_buffers(schedule)
    for i, phase in enumerate(schedule.phases):
        place = f"{stripe}steps.{i}"
        if isinstance(phase, Exchange) and phase.collective not in schedule.goal.alphabet:
            what = f"{phase.collective.value} in a program for {schedule.goal.value}"
            raise InputError(what, where=place)
        parts = _parts(held, i, phase)
        if not parts or any(schedule.pieces % part for part in parts):
            raise InputError("its devices hold nothing that fits it", where=place)
        _check_same(f"{place}.bytes", phase.size_bytes, schedule.segment_bytes // min(parts))
        if isinstance(phase, Transpose) and phase.size_bytes % prod(phase.shape):
            raise InputError(f"{phase.size_bytes} bytes have no such shape", where=place)


def _parts(held: BufferHistory, position: int, phase: Phase) -> set[int]:
    """Returns into how many parts a step's buffers divide the payload; empty if they do not fit."""
    if isinstance(phase, Transpose):
        parts = set(held.parts[position, phase.devices].tolist())
        return parts if len(parts) == 1 and 0 not in parts else set()
    before = held.parts[position, phase.groups]
    sending = before[:, :1] if phase.collective.from_first else before
    fits = (sending > 0).all() and (sending == sending[:, :1]).all()
    if phase.collective.gathers:
        fits = fits and not (before % phase.groups.shape[1]).any()
    after = held.parts[position + 1, phase.groups]
    return ({*before.ravel().tolist(), *after.ravel().tolist()} - {0}) if fits else set()
