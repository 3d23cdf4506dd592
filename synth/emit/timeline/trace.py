"""The simulated run as a trace for ui.perfetto.dev: who does what when, and how busy links are.

The format is Chrome's trace-event JSON, times in microseconds. Every host is a process and every
device a thread of it; every level is a process too, whose one thread is its busiest port. All
devices of a phase start and end together, as in the simulator. Where segments overlap, a device and
a port have a thread for each phase of each stripe, on which the segments follow each other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import nextafter
from typing import Any

import numpy as np

from hierarchies import Devices, InputError
from synth.emit.launchers import hosts, places
from synth.emit.mesh import RankOrder, mesh
from synth.emit.source import Files, Source
from synth.events.overlap import side_by_side
from synth.price.steps import StepPrice
from synth.semantics.schedule import Phase, Schedule, Transpose

MOST_DEVICES = 4096
MOST_SHOWN = 16
_MICRO = 1e6

Event = dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """A stretch of time in which a phase is at work on a segment."""

    start_us: float
    duration_us: float
    segment: int


@dataclass(frozen=True)
class Track:
    """A row of the trace. Viewers take ids for those of an operating system, so all differ."""

    pid: int
    tid: int


Tracks = list[Track]
"""One for all phases of a device or port, or one for each phase where they overlap."""


@dataclass(frozen=True)
class Row:
    """A phase of a stripe, what it costs, when it is at work, and which tracks show it."""

    stripe: int
    step: int
    phase: Phase
    price: StepPrice
    slices: tuple[Slice, ...]
    lane: int


def write(source: Source) -> Files:
    """The trace as one file. Raises InputError for more devices than a viewer can show."""
    devices = source.schedule.devices
    if devices > MOST_DEVICES:
        raise InputError(
            f"a trace of {devices} devices", where="trace", hint=f"at most {MOST_DEVICES}"
        )
    rows = _rows(source)
    own, ports = _tracks(source, 1 + max((row.lane for row in rows), default=0))
    events = [
        *_names(source, own, ports, _labels(source, rows)),
        *_device_events(source, rows, own),
        *_port_events(source, rows, ports),
    ]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    other = json.dumps(_about(source))
    text = f'{{"displayTimeUnit":"ns",\n"otherData":{other},\n"traceEvents":[\n{lines}\n]}}\n'
    return {"trace.json": text}


def _rows(source: Source) -> list[Row]:
    """Every phase of every stripe, counted from 1; each has a track of its own if any overlap."""
    slices: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    for span in side_by_side(source.lanes):
        start, end = span.begin_seconds * _MICRO, span.end_seconds * _MICRO
        length = end - start
        while start + length > end:  # or the next slice of the row would begin within this one
            length = nextafter(length, 0.0)
        slices[span.lane, span.phase].append(Slice(start, length, span.segment))
    together = bool(source.beside) or source.schedule.segments > 1
    rows: list[Row] = []
    for number, stripe in enumerate(source.stripes):
        for step, (phase, price) in enumerate(
            zip(stripe.schedule.phases, stripe.prices, strict=True)
        ):
            when = tuple(slices[number, step])
            lane = len(rows) if together else 0
            rows.append(Row(number + 1, step + 1, phase, price, when, lane))
    return rows


def _labels(source: Source, rows: list[Row]) -> list[str]:
    """What the tracks of one device or port are called beside its name."""
    if len({row.lane for row in rows}) < 2:
        return [""]
    of = [f" of stripe {row.stripe}" if source.beside else "" for row in rows]
    return [f", step {row.step}{stripe}" for row, stripe in zip(rows, of, strict=True)]


def _about(source: Source) -> Event:
    schedule = source.schedule
    placement = schedule.reduction.placement
    return {
        "system": source.system.name,
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "reduce": list(schedule.reduction.over),
        "program": str(schedule.program),
        "payload_bytes": source.payload_bytes,
        "segments": schedule.segments,
        **({"stripes": [_stripe(one) for one in source.schedules]} if source.beside else {}),
        "seconds": source.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }


def _stripe(schedule: Schedule) -> Event:
    return {
        "program": str(schedule.program),
        "payload_bytes": schedule.payload_bytes,
        "segments": schedule.segments,
    }


def _tracks(source: Source, lanes: int) -> tuple[list[Tracks], list[Tracks]]:
    """The tracks of each device and of each level; no number is used twice, nor is 0."""
    devices, levels = source.schedule.devices, len(source.system.hierarchy.levels)
    first_host = (devices + levels) * lanes + 1
    first_level = first_host + len(hosts(source))

    def tracks(pid: int, place: int) -> Tracks:
        return [Track(pid, place * lanes + lane + 1) for lane in range(lanes)]

    own = [
        tracks(first_host + host, device)
        for device, host in enumerate(places(source)[:, 0].tolist())
    ]
    return own, [tracks(first_level + level, devices + level) for level in range(levels)]


def _names(
    source: Source, own: list[Tracks], ports: list[Tracks], labels: list[str]
) -> Iterator[Event]:
    """Metadata: levels above hosts, outermost first; devices by number."""
    for position, (level, tracks) in enumerate(
        zip(source.system.hierarchy.names, ports, strict=True)
    ):
        yield from _process(tracks[0].pid, f"level {level}", position)
        yield from _threads(tracks, "busiest port", 0, labels)
    pids = list(dict.fromkeys(tracks[0].pid for tracks in own))
    for position, (pid, host) in enumerate(zip(pids, hosts(source), strict=True), len(ports)):
        yield from _process(pid, host, position)
    for device, (tracks, name) in enumerate(
        zip(own, names_of_devices(source, np.arange(len(own))), strict=True)
    ):
        yield from _threads(tracks, name, device, labels)


def names_of_devices(source: Source, devices: Devices) -> list[str]:
    """Devices by number and by their coordinates on the parallelism axes."""
    placement = source.schedule.reduction.placement
    ranks = mesh(placement, RankOrder.AXES).ranks(devices)
    coordinates = np.unravel_index(ranks, [axis.size for axis in placement.axes])
    names = [axis.name for axis in placement.axes]
    return [
        f"device {device} ({', '.join(f'{n} {c}' for n, c in zip(names, at, strict=True))})"
        for device, at in zip(devices.tolist(), np.stack(coordinates, axis=1).tolist(), strict=True)
    ]


def _process(pid: int, name: str, position: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": position}}


def _threads(tracks: Tracks, name: str, position: int, labels: list[str]) -> Iterator[Event]:
    for lane, (track, label) in enumerate(zip(tracks, labels, strict=True)):
        yield from _thread(track, name + label, position * len(tracks) + lane)


def _thread(track: Track, name: str, position: int) -> Iterator[Event]:
    where = {"pid": track.pid, "tid": track.tid}
    yield {"ph": "M", "name": "thread_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": position}}


def _device_events(source: Source, rows: list[Row], own: list[Tracks]) -> Iterator[Event]:
    """A slice for each phase on every device that takes part."""
    for row in rows:
        price = row.price
        shared = {
            **_which(source, row),
            "bytes": row.phase.size_bytes,
            "algorithm": price.algorithm.value if price.algorithm else None,
            "limited_by": price.limited_by,
            "latency_us": price.latency_seconds * _MICRO,
        }
        category = "local" if isinstance(row.phase, Transpose) else "collective"
        for devices, group in _casts(row.phase):
            args = {**shared, **group}
            for device in devices:
                track = own[device][row.lane]
                for time in row.slices:
                    yield _slice(price.what, category, track, time, args)


def _which(source: Source, row: Row) -> Event:
    return {"step": row.step, **({"stripe": row.stripe} if source.beside else {})}


def _casts(phase: Phase) -> Iterator[tuple[list[int], Event]]:
    """Devices that act together, and what to say of their group."""
    if isinstance(phase, Transpose):
        yield phase.devices.tolist(), {}
        return
    for group in phase.groups.tolist():
        shown = group if len(group) <= MOST_SHOWN else [*group[:MOST_SHOWN], "..."]
        yield group, {"members": len(group), "group": shown}


def _port_events(source: Source, rows: list[Row], ports: list[Tracks]) -> Iterator[Event]:
    """For each level the phases that use its links, and the rate of its busiest port."""
    for level, (name, tracks) in enumerate(zip(source.system.hierarchy.names, ports, strict=True)):
        bandwidth = source.system.port_bytes_per_second(level)
        rates: list[tuple[Slice, float]] = []
        for row in rows:
            carried = dict(row.price.bytes_per_port).get(name, 0.0)
            busy = carried / bandwidth
            args = {**_which(source, row), "bytes": carried, "busy_seconds": busy}
            for time in row.slices:
                seconds = time.duration_us / _MICRO
                rates.append((time, carried / seconds))
                if carried:
                    shown = {**args, "busy_share": busy / seconds}
                    yield _slice(row.price.what, "link", tracks[row.lane], time, shown)
        yield from _rates(tracks[0], rates)


def _rates(track: Track, rates: list[tuple[Slice, float]]) -> Iterator[Event]:
    """The sum of the rates of all that is under way, at each moment it changes."""
    under_way: dict[int, tuple[Slice, float]] = {}
    starts = sorted(enumerate(rates), key=lambda item: item[1][0].start_us)
    moments = {time.start_us for time, _ in rates} | {_end(time) for time, _ in rates} | {0.0}
    last = max(moments)
    for moment in sorted(moments):
        while starts and starts[0][1][0].start_us <= moment:
            number, begun = starts.pop(0)
            under_way[number] = begun
        under_way = {n: one for n, one in under_way.items() if _end(one[0]) > moment}
        total = 0.0 if moment == last else sum(rate for _, rate in under_way.values())
        yield _rate(track, moment, float(total))


def _end(time: Slice) -> float:
    return time.start_us + time.duration_us


def _slice(name: str, category: str, track: Track, time: Slice, args: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": track.pid,
        "tid": track.tid,
        "ts": time.start_us,
        "dur": time.duration_us,
        "args": {**args, "segment": time.segment + 1},
    }


def _rate(track: Track, start_us: float, bytes_per_second: float) -> Event:
    name = "bytes/s on the busiest port"
    return {
        "ph": "C",
        "name": name,
        "pid": track.pid,
        "ts": start_us,
        "args": {"bytes/s": bytes_per_second},
    }
