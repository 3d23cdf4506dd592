"""Chrome's trace-event JSON, which ui.perfetto.dev shows: rows with names, slices, one text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import nextafter
from typing import Any

Event = dict[str, Any]
MICRO = 1e6


def trace_document(events: Iterable[Event], about: Mapping[str, Any]) -> str:
    """All of a trace, an event a line; times are in microseconds."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    other = json.dumps(dict(about))
    return f'{{"displayTimeUnit":"ns",\n"otherData":{other},\n"traceEvents":[\n{lines}\n]}}\n'


def name_event(what: str, where: Mapping[str, Any], name: str, position: int) -> Iterator[Event]:
    """What a process or thread is called, and which of all it is from above."""
    yield {"ph": "M", "name": f"{what}_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": f"{what}_sort_index", **where, "args": {"sort_index": position}}


def microsecond_span(begin_seconds: float, end_seconds: float) -> tuple[float, float]:
    """Begin and duration in microseconds, which together are never after the end."""
    start, end = begin_seconds * MICRO, end_seconds * MICRO
    length = end - start
    while start + length > end:
        length = nextafter(length, 0.0)
    return start, length
