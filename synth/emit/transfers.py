"""Point-to-point requests handed out: the targets of permutes and of what stages send.

Beside ``targets``, as no program and no proof belongs to them: which rank sends to which is all
there is to say, and it stands in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hierarchies import (
    Axis,
    Devices,
    Hierarchy,
    InputError,
    Level,
    Placement,
    System,
    nearest,
    within,
)
from synth.emit.document.writing import printed
from synth.emit.mesh import mesh
from synth.emit.source import Files, Options
from synth.emit.text import mesh_words, rendered, tried
from synth.price.steps import StepPrice
from synth.semantics.point_to_point import NOBODY, PointToPoint, Transfer

FORMAT = "collsynth-transfer"
VERSION = 1
MOST_DEVICES = 4096
"""The most devices that a trace's viewer can show."""
_MICRO = 1e6


@dataclass(frozen=True)
class TransferSource:
    """The input of the emitters here: who sends what to whom, on which system, and its price."""

    request: PointToPoint
    system: System
    price: StepPrice
    options: Options = field(default_factory=Options)

    @property
    def senders(self) -> tuple[int, ...]:
        """For each rank the rank whose buffer it gets; ``NOBODY`` where it gets none."""
        ranks = mesh(self.request.placement, self.options.rank_order)
        senders = self.request.senders[ranks.devices]
        some = np.where(senders == NOBODY, 0, senders)
        return tuple(np.where(senders == NOBODY, NOBODY, ranks.ranks(some)).tolist())


def emit_transfer(target: str, source: TransferSource) -> Files:
    """The files of a target. Raises InputError for a target that these requests do not have."""
    if target not in TRANSFER_TARGETS:
        raise InputError(
            f"no target {target!r} for a {source.request.what.value}",
            where="--target",
            hint=nearest(target, TRANSFER_TARGETS),
        )
    return TRANSFER_TARGETS[target](source)


def _python_file(runtime: str, source: TransferSource) -> Files:
    request, placement = source.request, source.request.placement
    what = request.what.value
    words = {
        **mesh_words(placement, source.options.rank_order),
        "request": what,
        "function": what.replace("-", "_"),
        "system": source.system,
        "placement": str(placement),
        "senders": source.senders,
        "axis_sizes": ", ".join(f"{axis.name}={axis.size}" for axis in placement.axes),
        "levels": ", ".join(placement.hierarchy.names),
        "size_bytes": request.size_bytes,
        "seconds": source.price.seconds,
        "busiest": source.price.limited_by,
        "made_by": source.options.made_by,
        "launch": tried(placement, source.options.rank_order),
        "everyone": NOBODY not in source.senders,
    }
    return {f"collsynth_{runtime}.py": rendered(f"transfer_{runtime}.py.jinja", **words)}


def _document(source: TransferSource) -> Files:
    request, placement = source.request, source.request.placement
    body = TransferDocument(
        format=FORMAT,
        version=VERSION,
        system=source.system.name,
        request=request.what,
        levels={level.name: level.cardinality for level in placement.hierarchy.levels},
        axes={axis.name: axis.size for axis in placement.axes},
        placement=[list(row) for row in placement.matrix],
        bytes=request.size_bytes,
        senders=[None if one == NOBODY else one for one in request.senders.tolist()],
    )
    return {"transfer.json": printed(body.model_dump(mode="json"))}


class TransferDocument(BaseModel):
    """A point-to-point request as JSON: ``senders`` has for each device whose buffer it gets.

    None stands where a device gets nothing; its own number where it keeps what it has.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    format: str
    version: int
    system: str
    request: Transfer = Field(strict=False)
    levels: dict[str, int]
    axes: dict[str, int]
    placement: list[list[int]]
    bytes: int = Field(ge=1)
    senders: list[int | None]


def read_transfer(text: str) -> PointToPoint:
    """The request of a document. Raises InputError with the place of the first thing wrong."""
    try:
        found = TransferDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "transfer"
        raise InputError(first["msg"], where=place) from None
    if (found.format, found.version) != (FORMAT, VERSION):
        raise InputError(
            f"format {found.format!r} of version {found.version}",
            where="format",
            hint=f"{FORMAT}, version {VERSION}",
        )
    with within("levels, axes, placement"):
        hierarchy = Hierarchy(tuple(Level(*level) for level in found.levels.items()))
        axes = tuple(Axis(*axis) for axis in found.axes.items())
        placement = Placement(hierarchy, axes, tuple(map(tuple, found.placement)))
    senders = np.array([NOBODY if one is None else one for one in found.senders])
    _check(senders, hierarchy.devices, found.request)
    return PointToPoint(found.request, placement, senders, found.bytes)


def _check(senders: Devices, devices: int, what: Transfer) -> None:
    if len(senders) != devices:
        raise InputError(f"{len(senders)} senders for {devices} devices", where="senders")
    named = senders[senders != NOBODY]
    if ((named < 0) | (named >= devices)).any():
        raise InputError("a sender that is no device", where="senders", hint=f"0 to {devices - 1}")
    if len(np.unique(named)) < len(named):
        raise InputError("a device sends twice", where="senders", hint="once at most")
    if what is Transfer.PERMUTE and len(named) < devices:
        raise InputError("a device gets nothing", where="senders", hint="a permute has no null")


def _trace(source: TransferSource) -> Files:
    """Chrome's trace events: what each device sends and gets. All begin and end together."""
    devices = len(source.request.senders)
    if devices > MOST_DEVICES:
        raise InputError(
            f"a trace of {devices} devices", where="trace", hint=f"at most {MOST_DEVICES}"
        )
    long = {"ph": "X", "ts": 0, "dur": source.price.seconds * _MICRO}
    what = source.request.what.value
    events: list[dict[str, object]] = []
    for device in range(devices):
        for tid, way in enumerate(("sends", "gets")):
            track = {"pid": device + 1, "tid": 2 * device + tid + 1}
            events.append({"ph": "M", "name": "thread_name", **track, "args": {"name": way}})
        name = {"name": f"device {device}"}
        events.append({"ph": "M", "name": "process_name", "pid": device + 1, "args": name})
    for sender, receiver in source.request.pairs.tolist():
        about = {"bytes": source.request.size_bytes, "from": sender, "to": receiver}
        for device, tid in ((sender, 2 * sender + 1), (receiver, 2 * receiver + 2)):
            track = {"pid": device + 1, "tid": tid}
            events.append({"name": what, "cat": what, **track, **long, "args": about})
    body = {
        "displayTimeUnit": "ns",
        "otherData": {
            "system": source.system.name,
            "request": what,
            "seconds": source.price.seconds,
            "busiest": source.price.busiest,
            "made_by": "collsynth's simulator: nothing here was measured",
        },
        "traceEvents": events,
    }
    return {"trace.json": json.dumps(body) + "\n"}


TRANSFER_TARGETS: Mapping[str, Callable[[TransferSource], Files]] = {
    "torch": partial(_python_file, "torch"),
    "jax": partial(_python_file, "jax"),
    "mpi": partial(_python_file, "mpi"),
    "json": _document,
    "trace": _trace,
}
"""By the names that these targets have for collectives."""
