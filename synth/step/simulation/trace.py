"""A simulated step as a trace for ui.perfetto.dev: ranks are processes, streams threads."""

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
"""Of more, ranks of a pipeline show their passes only, and what these are made of is left out."""


def write_trace(name: str, found: StepPrediction) -> str:
    """The trace as a text."""
    ranks = range(len(found.ranks))
    first = islice(chain.from_iterable(map(found.rows, ranks)), MOST_EVENTS + 1)
    few = len(ranks) == 1 or sum(1 for _ in first) <= MOST_EVENTS
    rows = [list(found.rows(rank) if few else found.passes(rank)) for rank in ranks]
    about = {
        "step": name,
        "seconds": found.seconds,
        "made_by": "collsynth's simulator: nothing here was measured",
    }
    return trace_document(_events(rows), about)


def _events(ranks: list[list[StepTimelineRow]]) -> Iterator[Event]:
    """Ids differ throughout: viewers take them for those of an operating system."""
    first = len(ranks) + 1
    for rank, rows in enumerate(ranks):
        pid = rank + 1
        yield from name_event("process", {"pid": pid}, f"rank {rank}", rank)
        streams = list(dict.fromkeys(one.stream for one in rows))
        for position, stream in enumerate(streams):
            yield from name_event("thread", {"pid": pid, "tid": first + position}, stream, position)
        for one in rows:
            start, length = microsecond_span(one.begin_seconds, one.end_seconds)
            where = {"pid": pid, "tid": first + streams.index(one.stream)}
            yield {"ph": "X", "name": one.name, **where, "ts": start, "dur": length}
        first += len(streams)
