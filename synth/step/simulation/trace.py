"""Writes a simulated step as a trace for ui.perfetto.dev: ranks are processes, streams threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from synth.collective.emit.timeline.events import (
    Event,
    microsecond_span,
    name_event,
    trace_document,
)
from synth.step.simulation.predicting import StepPrediction
from synth.step.simulation.simulation import StepTimelineRow

MOST_EVENTS = 20_000
"""With more events, the ranks of a pipeline show only their passes, without tasks."""


def write_trace(name: str, prediction: StepPrediction) -> str:
    """Returns the trace as text."""
    ranks = range(len(prediction.ranks))
    first = islice(chain.from_iterable(map(prediction.rows, ranks)), MOST_EVENTS + 1)
    complete = len(ranks) == 1 or sum(1 for _ in first) <= MOST_EVENTS
    rows = [list(prediction.rows(rank) if complete else prediction.passes(rank)) for rank in ranks]
    about = {
        "step": name,
        "seconds": prediction.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }
    return trace_document(_events(rows), about)


def _events(ranks: list[list[StepTimelineRow]]) -> Iterator[Event]:
    """Yields events with unique thread ids: viewers treat ids as those of an operating system."""
    first = len(ranks) + 1
    for rank, rows in enumerate(ranks):
        pid = rank + 1
        yield from name_event("process", {"pid": pid}, f"rank {rank}", rank)
        streams = list(dict.fromkeys(row.stream for row in rows))
        for position, stream in enumerate(streams):
            yield from name_event("thread", {"pid": pid, "tid": first + position}, stream, position)
        for row in rows:
            start, length = microsecond_span(row.begin_seconds, row.end_seconds)
            ids = {"pid": pid, "tid": first + streams.index(row.stream)}
            yield {"ph": "X", "name": row.name, **ids, "ts": start, "dur": length}
        first += len(streams)
