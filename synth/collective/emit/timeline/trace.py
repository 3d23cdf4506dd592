"""The simulated run as a trace for ui.perfetto.dev: devices' phases, and how busy links are.

The format is Chrome's trace-event JSON, times in microseconds. Every host is a process with a
thread for each device; every level is a process too, whose one thread is its busiest port. All
devices of a phase start and end together, as in the simulator. Where segments overlap, a device and
a port have a thread for each phase of each stripe, with the segments one after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hierarchies import InputError
from synth.collective.emit.launchers import hosts, places
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.timeline.events import (
    MICRO,
    Event,
    microsecond_span,
    name_event,
    trace_document,
)
from synth.collective.emit.timeline.phases import PhaseRun, lanes_of, names_of_devices, phase_runs
from synth.collective.semantics.schedule import Phase, Schedule, Transpose

MOST_DEVICES = 4096
MOST_SHOWN = 16


@dataclass(frozen=True)
class TraceSlice:
    """A stretch of time in which a phase works on a segment."""

    start_us: float
    duration_us: float
    segment: int

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


@dataclass(frozen=True)
class Track:
    """A row of the trace. Viewers treat ids as those of an operating system, so all differ."""

    pid: int
    tid: int
    name: str

    @property
    def where(self) -> Event:
        return {"pid": self.pid, "tid": self.tid}


Tracks = list[Track]
"""One for all phases of a device or port, or one for each phase if they overlap."""


def write(source: EmitSource) -> Files:
    """Returns the trace as one file. Raises InputError for more devices than a viewer can show."""
    devices = source.schedule.devices
    if devices > MOST_DEVICES:
        raise InputError(
            f"a trace of {devices} devices", where="trace", hint=f"at most {MOST_DEVICES}"
        )
    runs = phase_runs(source)
    own, ports = _tracks(source, runs)
    events = [
        *_names(source, own, ports),
        *_device_events(source, runs, own),
        *_port_events(source, runs, ports),
    ]
    return {"trace.json": trace_document(events, _about(source))}


def _slices(run: PhaseRun) -> list[TraceSlice]:
    """Returns when a phase works; no slice ends after the next one of its track begins."""
    return [
        TraceSlice(*microsecond_span(span.begin_seconds, span.end_seconds), span.segment)
        for span in run.spans
    ]


def _labels(source: EmitSource, runs: list[PhaseRun]) -> list[str]:
    """Returns the suffixes of the names of a device's or port's tracks."""
    if lanes_of(runs) < 2:
        return [""]
    of = [f" of stripe {run.stripe}" if source.beside else "" for run in runs]
    return [f", step {run.step}{stripe}" for run, stripe in zip(runs, of, strict=True)]


def _about(source: EmitSource) -> Event:
    return {
        "system": source.system.name,
        "axes": {axis.name: axis.size for axis in source.placement.axes},
        "placement": [list(row) for row in source.placement.matrix],
        "reduce": list(source.schedule.reduction.over),
        "op": source.schedule.op.value,
        **_stripe(source.schedule),
        "payload_bytes": source.payload_bytes,
        **({"stripes": [_stripe(each) for each in source.schedules]} if source.beside else {}),
        "seconds": source.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }


def _stripe(schedule: Schedule) -> Event:
    return {
        "program": str(schedule.program),
        "payload_bytes": schedule.payload_bytes,
        "segments": schedule.segments,
    }


def _tracks(source: EmitSource, runs: list[PhaseRun]) -> tuple[list[Tracks], list[Tracks]]:
    """Returns the tracks of each device and each level; ids are distinct and not 0."""
    devices, levels = source.schedule.devices, len(source.system.hierarchy.levels)
    labels = _labels(source, runs)
    first_host = (devices + levels) * len(labels) + 1
    first_level = first_host + len(hosts(source))

    def tracks(pid: int, place: int, name: str) -> Tracks:
        first = place * len(labels) + 1
        return [Track(pid, tid, name + label) for tid, label in enumerate(labels, first)]

    pids = (places(source)[:, 0] + first_host).tolist()
    names = names_of_devices(source, np.arange(devices))
    own = [tracks(pid, device, names[device]) for device, pid in enumerate(pids)]
    ports = [tracks(first_level + n, devices + n, "busiest port") for n in range(levels)]
    return own, ports


def _names(source: EmitSource, own: list[Tracks], ports: list[Tracks]) -> Iterator[Event]:
    """Yields metadata: levels above hosts, outermost first; devices by number."""
    levels = zip(source.system.hierarchy.names, ports, strict=True)
    for position, (level, tracks) in enumerate(levels):
        yield from name_event("process", {"pid": tracks[0].pid}, f"level {level}", position)
        yield from _threads(tracks)
    pids = dict.fromkeys(tracks[0].pid for tracks in own)
    for position, (pid, host) in enumerate(zip(pids, hosts(source), strict=True), len(ports)):
        yield from name_event("process", {"pid": pid}, host, position)
    yield from _threads([track for tracks in own for track in tracks])


def _threads(tracks: Tracks) -> Iterator[Event]:
    for position, track in enumerate(tracks):
        yield from name_event("thread", track.where, track.name, position)


def _device_events(source: EmitSource, runs: list[PhaseRun], own: list[Tracks]) -> Iterator[Event]:
    """Yields a slice for each phase on every device that takes part."""
    for run in runs:
        price, slices = run.price, _slices(run)
        shared = {
            **_stripe_and_step(source, run),
            "bytes": run.phase.size_bytes,
            "algorithm": price.algorithm.value if price.algorithm else None,
            "limited_by": price.limited_by,
            "latency_us": price.latency_seconds * MICRO,
        }
        category = "local" if isinstance(run.phase, Transpose) else "collective"
        for devices, group in _casts(run.phase):
            args = {**shared, **group}
            for device in devices:
                track = own[device][run.lane]
                for time in slices:
                    yield _slice(price.what, category, track, time, args)


def _stripe_and_step(source: EmitSource, run: PhaseRun) -> Event:
    return {"step": run.step, **({"stripe": run.stripe} if source.beside else {})}


def _casts(phase: Phase) -> Iterator[tuple[list[int], Event]]:
    """Yields devices that act together, and the arguments that describe their group."""
    if isinstance(phase, Transpose):
        yield phase.devices.tolist(), {}
        return
    for group in phase.groups.tolist():
        shown = group if len(group) <= MOST_SHOWN else [*group[:MOST_SHOWN], "..."]
        yield group, {"members": len(group), "group": shown}


def _port_events(source: EmitSource, runs: list[PhaseRun], ports: list[Tracks]) -> Iterator[Event]:
    """Yields for each level the phases that use its links, and its busiest port's rate."""
    for level, (name, tracks) in enumerate(zip(source.system.hierarchy.names, ports, strict=True)):
        bandwidth = source.system.port_bytes_per_second(level)
        rates: list[tuple[TraceSlice, float]] = []
        for run in runs:
            carried = dict(run.price.bytes_per_port).get(name, 0.0)
            busy = carried / bandwidth
            args = {**_stripe_and_step(source, run), "bytes": carried, "busy_seconds": busy}
            for time in _slices(run):
                seconds = time.duration_us / MICRO
                rates.append((time, carried / seconds))
                if carried:
                    shown = {**args, "busy_share": busy / seconds}
                    yield _slice(run.price.what, "link", tracks[run.lane], time, shown)
        yield from _rates(tracks[0], rates)


def _rates(track: Track, rates: list[tuple[TraceSlice, float]]) -> Iterator[Event]:
    """Yields the sum of the rates of all active slices, at each moment it changes."""
    moments = {0.0, *(at for time, _ in rates for at in (time.start_us, time.end_us))}
    starts = deque(sorted(rates, key=lambda rate: rate[0].start_us))
    under_way: list[tuple[TraceSlice, float]] = []
    last = max(moments)
    for moment in sorted(moments):
        while starts and starts[0][0].start_us <= moment:
            under_way.append(starts.popleft())
        under_way = [active for active in under_way if active[0].end_us > moment]
        total = 0.0 if moment == last else sum(rate for _, rate in under_way)
        yield {
            "ph": "C",
            "name": "bytes/s on the busiest port",
            "pid": track.pid,
            "ts": moment,
            "args": {"bytes/s": float(total)},
        }


def _slice(name: str, category: str, track: Track, time: TraceSlice, args: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        **track.where,
        "ts": time.start_us,
        "dur": time.duration_us,
        "args": {**args, "segment": time.segment + 1},
    }
