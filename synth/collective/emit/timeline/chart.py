"""The contents of a drawing of the simulated run: rows of devices and links, with their bars.

Devices that take part in the same phases look the same. A small machine gets a row for each device,
a large machine a row for each class of these devices, with its first device's name. Every level
gets a row for its busiest port, whose bars show how busy it is; so does the devices' memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synth.collective.emit.source import EmitSource
from synth.collective.emit.timeline.phases import PhaseRun, lanes_of, names_of_devices, phase_runs
from synth.collective.price.steps import total_busy_seconds
from synth.collective.semantics.schedule import Transpose
from synth.events.overlap import PhaseSpan

MOST_DEVICES = 16
"""With more devices, or too many bars, rows are classes of devices."""
MOST_ROWS = 12
_MOST_BARS = 4000
_MOST_BARS_IN_LANE = 240
_MEMORY = "memory"


@dataclass(frozen=True)
class ChartBar:
    """A stretch of time in which a phase works on segments, which are counted from 1.

    ``busy_share`` is the part of it in which a link is busy; 1 for devices.
    """

    begin_seconds: float
    end_seconds: float
    lane: int
    what: str
    stripe: int
    step: int
    first_segment: int
    last_segment: int
    busy_share: float = 1.0


@dataclass(frozen=True)
class ChartRow:
    """A device, a class of devices, or a link, with how many it represents and its bars."""

    kind: str
    name: str
    alike: int
    busy_seconds: float
    bars: tuple[ChartBar, ...]


@dataclass(frozen=True)
class Chart:
    """All rows. ``lanes`` is the most bars that may be stacked in one row."""

    seconds: float
    lanes: int
    rows: tuple[ChartRow, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the rows without their bars, for a table next to the drawing."""
        rows = [
            {
                "kind": row.kind,
                "name": row.name,
                "alike": row.alike,
                "busy_seconds": row.busy_seconds,
                "busy_share": row.busy_seconds / (self.seconds or 1.0),
            }
            for row in self.rows
        ]
        return {"seconds": self.seconds, "rows": rows, "notes": list(self.notes)}


def chart(source: EmitSource) -> Chart:
    """Returns the contents of a drawing of a schedule with its prices."""
    runs, devices = phase_runs(source), source.schedule.devices
    seconds = max((span.end_seconds for run in runs for span in run.spans), default=0.0)
    bars = sum(len(run.spans) for run in runs)
    each_device = devices <= MOST_DEVICES and devices * bars <= _MOST_BARS
    rows, left_out = _device_rows(source, runs, each_device)
    drawn = (*rows, *_link_rows(source, runs))
    lanes = lanes_of(runs)
    most = max(24, min(_MOST_BARS_IN_LANE, _MOST_BARS // max(1, lanes * len(drawn))))
    merged = any(len(run.spans) > most for run in runs)
    thinned = tuple(_thin_row(row, most) for row in drawn)
    return Chart(seconds, lanes, thinned, tuple(_notes(each_device, left_out, merged)))


def _device_rows(
    source: EmitSource, runs: list[PhaseRun], each_device: bool
) -> tuple[tuple[ChartRow, ...], int]:
    """Returns a row for each device or class of devices, and how many classes are left out."""
    devices = source.schedule.devices
    takes_part = np.zeros((len(runs), devices), dtype=np.bool_)
    for number, run in enumerate(runs):
        joined = run.phase.devices if isinstance(run.phase, Transpose) else run.phase.groups
        takes_part[number, np.asarray(joined).reshape(-1)] = True
    if each_device:
        first, counts = np.arange(devices), np.ones(devices, dtype=np.int64)
    else:
        _, first, counts = np.unique(takes_part, axis=1, return_index=True, return_counts=True)
        order = np.argsort(first)
        first, counts = first[order], counts[order]
    shown = first[:MOST_ROWS] if not each_device else first
    names = names_of_devices(source, shown)
    rows = tuple(
        _device_row(name, int(alike), [runs[i] for i in np.flatnonzero(takes_part[:, device])])
        for name, alike, device in zip(names, counts, shown.tolist(), strict=False)
    )
    return rows, len(first) - len(shown)


def _device_row(name: str, alike: int, runs: list[PhaseRun]) -> ChartRow:
    bars = tuple(_bar(run, span, 1.0) for run in runs for span in run.spans)
    return ChartRow("device", name, alike, _covered_seconds(bars), bars)


def _covered_seconds(bars: tuple[ChartBar, ...]) -> float:
    """Returns the seconds during which at least one bar is present."""
    found, until = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar.begin_seconds):
        found += max(0.0, bar.end_seconds - max(until, bar.begin_seconds))
        until = max(until, bar.end_seconds)
    return found


def _link_rows(source: EmitSource, runs: list[PhaseRun]) -> Iterator[ChartRow]:
    """Yields the busiest port of each level, outermost first, and the memory of a device."""
    busy_seconds = total_busy_seconds([([run.price], len(run.spans)) for run in runs])
    for name in (*source.system.hierarchy.names, _MEMORY):
        using = [(run, dict(run.price.busy_seconds).get(name, 0.0)) for run in runs]
        bars = tuple(
            _bar(run, span, busy / length)
            for run, busy in using
            for span in run.spans
            if busy and (length := span.end_seconds - span.begin_seconds) > 0
        )
        kind = _MEMORY if name == _MEMORY else "link"
        yield ChartRow(kind, name, 1, busy_seconds.get(name, 0.0), bars)


def _bar(run: PhaseRun, span: PhaseSpan, busy_share: float) -> ChartBar:
    return ChartBar(
        span.begin_seconds,
        span.end_seconds,
        run.lane,
        run.price.what,
        run.stripe,
        run.step,
        span.segment + 1,
        span.segment + 1,
        min(1.0, busy_share),
    )


def _thin_row(row: ChartRow, most: int) -> ChartRow:
    """Returns the row with at most ``most`` bars for each phase; neighbours are joined."""
    by_phase: dict[tuple[int, int], list[ChartBar]] = defaultdict(list)
    for bar in row.bars:
        by_phase[bar.stripe, bar.step].append(bar)
    bars: list[ChartBar] = []
    for run_of_bars in by_phase.values():
        size = -(-len(run_of_bars) // most)
        bars += [_join_bars(run_of_bars[at : at + size]) for at in range(0, len(run_of_bars), size)]
    return replace(row, bars=tuple(bars))


def _join_bars(bars: list[ChartBar]) -> ChartBar:
    """Joins consecutive bars into one with their average busy share."""
    first, last = bars[0], bars[-1]
    if len(bars) == 1:
        return first
    length = last.end_seconds - first.begin_seconds
    busy = sum((bar.end_seconds - bar.begin_seconds) * bar.busy_share for bar in bars)
    return replace(
        first,
        end_seconds=last.end_seconds,
        last_segment=last.last_segment,
        busy_share=min(1.0, busy / length),
    )


def _notes(each_device: bool, left_out: int, merged: bool) -> Iterator[str]:
    if not each_device:
        yield "one device stands for all that take part in the same steps"
    if left_out:
        yield f"{left_out} more classes of devices are not drawn"
    if merged:
        yield "segments that follow each other share a bar"
