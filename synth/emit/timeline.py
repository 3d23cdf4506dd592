"""The simulated run as a trace for ui.perfetto.dev: who does what when, and how busy links are.

The format is Chrome's trace-event JSON, times in microseconds. Every host is a process and every
device a thread of it; every level is a process too, whose one thread is its busiest port. All
devices of a phase start and end together, as in the simulator. Where segments overlap, a device and
a port have a thread for each phase, on which the segments follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import nextafter
from typing import Any

import numpy as np

from hierarchies import InputError
from synth.emit.launchers import hosts, places
from synth.emit.mesh import RankOrder, mesh
from synth.emit.source import Files, Source
from synth.overlap import overlapped
from synth.schedule import Phase, Transpose
from synth.simulator import StepPrice

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


def write(source: Source) -> Files:
    """The trace as one file. Raises InputError for more devices than a viewer can show."""
    devices = source.schedule.devices
    if devices > MOST_DEVICES:
        raise InputError(
            f"a trace of {devices} devices", where="trace", hint=f"at most {MOST_DEVICES}"
        )
    slices = phase_slices(source.prices, source.schedule.segments)
    own, ports = _tracks(source)
    events = [
        *_names(source, own, ports),
        *_device_events(source, slices, own),
        *_port_events(source, slices, ports),
    ]
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    other = json.dumps(_about(source))
    text = f'{{"displayTimeUnit":"ns",\n"otherData":{other},\n"traceEvents":[\n{lines}\n]}}\n'
    return {"trace.json": text}


def phase_slices(prices: tuple[StepPrice, ...], segments: int) -> tuple[tuple[Slice, ...], ...]:
    """When each phase is at work: a slice for each segment."""
    found: list[list[Slice]] = [[] for _ in prices]
    for span in overlapped([price.work for price in prices], segments):
        start, end = span.begin_seconds * _MICRO, span.end_seconds * _MICRO
        length = end - start
        while start + length > end:  # or the next slice of the row would begin within this one
            length = nextafter(length, 0.0)
        found[span.phase].append(Slice(start, length, span.segment))
    return tuple(map(tuple, found))


def _about(source: Source) -> Event:
    schedule = source.schedule
    placement = schedule.reduction.placement
    return {
        "system": source.system.name,
        "axes": {axis.name: axis.size for axis in placement.axes},
        "placement": [list(row) for row in placement.matrix],
        "reduce": list(schedule.reduction.over),
        "program": str(schedule.program),
        "payload_bytes": schedule.payload_bytes,
        "segments": schedule.segments,
        "seconds": source.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }


def _tracks(source: Source) -> tuple[list[Tracks], list[Tracks]]:
    """The tracks of each device and of each level; no number is used twice, nor is 0."""
    devices, levels = source.schedule.devices, len(source.system.hierarchy.levels)
    lanes = max(1, len(source.prices)) if source.schedule.segments > 1 else 1
    first_host = (devices + levels) * lanes + 1
    first_level = first_host + len(hosts(source))

    def tracks(pid: int, place: int) -> Tracks:
        return [Track(pid, place * lanes + lane + 1) for lane in range(lanes)]

    own = [
        tracks(first_host + host, device)
        for device, host in enumerate(places(source)[:, 0].tolist())
    ]
    return own, [tracks(first_level + level, devices + level) for level in range(levels)]


def _names(source: Source, own: list[Tracks], ports: list[Tracks]) -> Iterator[Event]:
    """Metadata: levels above hosts, outermost first; devices by number."""
    for position, (level, tracks) in enumerate(
        zip(source.system.hierarchy.names, ports, strict=True)
    ):
        yield from _process(tracks[0].pid, f"level {level}", position)
        yield from _threads(tracks, "busiest port", 0)
    pids = list(dict.fromkeys(tracks[0].pid for tracks in own))
    for position, (pid, host) in enumerate(zip(pids, hosts(source), strict=True), len(ports)):
        yield from _process(pid, host, position)
    for device, (tracks, name) in enumerate(zip(own, _device_names(source), strict=True)):
        yield from _threads(tracks, name, device)


def _device_names(source: Source) -> list[str]:
    """Devices by number and by their coordinates on the parallelism axes."""
    placement = source.schedule.reduction.placement
    ranks = mesh(placement, RankOrder.AXES).ranks(np.arange(source.schedule.devices))
    coordinates = np.unravel_index(ranks, [axis.size for axis in placement.axes])
    names = [axis.name for axis in placement.axes]
    return [
        f"device {device} ({', '.join(f'{n} {c}' for n, c in zip(names, at, strict=True))})"
        for device, at in enumerate(np.stack(coordinates, axis=1).tolist())
    ]


def _process(pid: int, name: str, position: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": position}}


def _threads(tracks: Tracks, name: str, position: int) -> Iterator[Event]:
    for lane, track in enumerate(tracks):
        lanes = len(tracks)
        label = name if lanes == 1 else f"{name}, step {lane + 1}"
        yield from _thread(track, label, position * lanes + lane)


def _thread(track: Track, name: str, position: int) -> Iterator[Event]:
    where = {"pid": track.pid, "tid": track.tid}
    yield {"ph": "M", "name": "thread_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": position}}


def _device_events(
    source: Source, slices: tuple[tuple[Slice, ...], ...], own: list[Tracks]
) -> Iterator[Event]:
    """A slice for each phase on every device that takes part."""
    phases = zip(source.schedule.phases, source.prices, slices, strict=True)
    for step, (phase, price, times) in enumerate(phases, 1):
        shared = {
            "step": step,
            "bytes": phase.size_bytes,
            "algorithm": price.algorithm.value if price.algorithm else None,
            "limited_by": price.limited_by,
            "latency_us": price.latency_seconds * _MICRO,
        }
        category = "local" if isinstance(phase, Transpose) else "collective"
        for devices, group in _casts(phase):
            args = {**shared, **group}
            for device in devices:
                track = own[device][(step - 1) % len(own[device])]
                for time in times:
                    yield _slice(price.what, category, track, time, args)


def _casts(phase: Phase) -> Iterator[tuple[list[int], Event]]:
    """Devices that act together, and what to say of their group."""
    if isinstance(phase, Transpose):
        yield phase.devices.tolist(), {}
        return
    for group in phase.groups.tolist():
        shown = group if len(group) <= MOST_SHOWN else [*group[:MOST_SHOWN], "..."]
        yield group, {"members": len(group), "group": shown}


def _port_events(
    source: Source, slices: tuple[tuple[Slice, ...], ...], ports: list[Tracks]
) -> Iterator[Event]:
    """For each level the phases that use its links, and the rate of its busiest port."""
    for level, (name, tracks) in enumerate(zip(source.system.hierarchy.names, ports, strict=True)):
        bandwidth = source.system.port_bytes_per_second(level)
        rates: list[tuple[Slice, float]] = []
        for step, (price, times) in enumerate(zip(source.prices, slices, strict=True), 1):
            carried = dict(price.bytes_per_port).get(name, 0.0)
            args = {"step": step, "bytes": carried, "busy_seconds": carried / bandwidth}
            for time in times:
                seconds = time.duration_us / _MICRO
                rates.append((time, carried / seconds))
                if carried:
                    share = {"busy_share": carried / bandwidth / seconds}
                    track = tracks[(step - 1) % len(tracks)]
                    yield _slice(price.what, "link", track, time, {**args, **share})
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
