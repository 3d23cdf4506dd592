"""The simulated run as a trace for ui.perfetto.dev: who does what when, and how busy links are.

The format is Chrome's trace-event JSON, times in microseconds. Every host is a process and every
device a thread of it; every level is a process too, whose one thread is its busiest port. Phases
wait for each other, as in the simulator, so all devices of a phase start and end together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from hierarchies import InputError
from synth.emit.launchers import hosts, places
from synth.emit.mesh import RankOrder, mesh
from synth.emit.source import Files, Source
from synth.schedule import Phase, Transpose
from synth.simulator import StepPrice

MOST_DEVICES = 4096
MOST_SHOWN = 16
_MICRO = 1e6

Event = dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """A stretch of time in which a phase is at work."""

    start_us: float
    duration_us: float


@dataclass(frozen=True)
class Track:
    """A row of the trace. Viewers take ids for those of an operating system, so all differ."""

    pid: int
    tid: int


def write(source: Source) -> Files:
    """The trace as one file. Raises InputError for more devices than a viewer can show."""
    devices = source.schedule.devices
    if devices > MOST_DEVICES:
        raise InputError(
            f"a trace of {devices} devices", where="trace", hint=f"at most {MOST_DEVICES}"
        )
    slices = phase_slices(source.prices)
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


def phase_slices(prices: tuple[StepPrice, ...]) -> tuple[tuple[Slice, ...], ...]:
    """When each phase is at work: a list of slices for each."""
    lengths = [price.seconds * _MICRO for price in prices]
    starts = accumulate(lengths, initial=0.0)
    return tuple((Slice(start, length),) for start, length in zip(starts, lengths, strict=False))


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
        "seconds": source.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }


def _tracks(source: Source) -> tuple[list[Track], list[Track]]:
    """The track of each device and of each level; no number is used twice, nor is 0."""
    devices, levels = source.schedule.devices, len(source.system.hierarchy.levels)
    first_host = devices + levels + 1
    first_level = first_host + len(hosts(source))
    own = [
        Track(first_host + host, device + 1)
        for device, host in enumerate(places(source)[:, 0].tolist())
    ]
    return own, [Track(first_level + level, devices + level + 1) for level in range(levels)]


def _names(source: Source, own: list[Track], ports: list[Track]) -> Iterator[Event]:
    """Metadata: levels above hosts, outermost first; devices by number."""
    for position, (level, track) in enumerate(
        zip(source.system.hierarchy.names, ports, strict=True)
    ):
        yield from _process(track.pid, f"level {level}", position)
        yield from _thread(track, "busiest port", 0)
    pids = list(dict.fromkeys(track.pid for track in own))
    for position, (pid, host) in enumerate(zip(pids, hosts(source), strict=True), len(ports)):
        yield from _process(pid, host, position)
    for device, (track, name) in enumerate(zip(own, _device_names(source), strict=True)):
        yield from _thread(track, name, device)


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


def _thread(track: Track, name: str, position: int) -> Iterator[Event]:
    where = {"pid": track.pid, "tid": track.tid}
    yield {"ph": "M", "name": "thread_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": position}}


def _device_events(
    source: Source, slices: tuple[tuple[Slice, ...], ...], own: list[Track]
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
                for time in times:
                    yield _slice(price.what, category, own[device], time, args)


def _casts(phase: Phase) -> Iterator[tuple[list[int], Event]]:
    """Devices that act together, and what to say of their group."""
    if isinstance(phase, Transpose):
        yield phase.devices.tolist(), {}
        return
    for group in phase.groups.tolist():
        shown = group if len(group) <= MOST_SHOWN else [*group[:MOST_SHOWN], "..."]
        yield group, {"members": len(group), "group": shown}


def _port_events(
    source: Source, slices: tuple[tuple[Slice, ...], ...], ports: list[Track]
) -> Iterator[Event]:
    """For each level the phases that use its links, and the rate of its busiest port."""
    for level, (name, track) in enumerate(zip(source.system.hierarchy.names, ports, strict=True)):
        bandwidth = source.system.port_bytes_per_second(level)
        end = 0.0
        for step, (price, times) in enumerate(zip(source.prices, slices, strict=True), 1):
            carried = dict(price.bytes_per_port).get(name, 0.0)
            for time in times:
                yield _rate(track, time.start_us, carried / price.seconds)
                end = time.start_us + time.duration_us
                if carried:
                    args = {
                        "step": step,
                        "bytes": carried,
                        "busy_seconds": carried / bandwidth,
                        "busy_share": carried / bandwidth / price.seconds,
                    }
                    yield _slice(price.what, "link", track, time, args)
        yield _rate(track, end, 0.0)


def _slice(name: str, category: str, track: Track, time: Slice, args: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": track.pid,
        "tid": track.tid,
        "ts": time.start_us,
        "dur": time.duration_us,
        "args": args,
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
