"""Chrome's trace-event JSON, which ui.perfetto.dev shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import nextafter
from typing import Any

Event = dict[str, Any]
MICRO = 1e6


def trace_document(events: Iterable[Event], about: Mapping[str, Any]) -> str:
    """Returns a whole trace, an event a line; times are in microseconds."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    other = json.dumps(dict(about))
    return f'{{"displayTimeUnit":"ns",\n"otherData":{other},\n"traceEvents":[\n{lines}\n]}}\n'


def name_event(what: str, where: Mapping[str, Any], name: str, position: int) -> Iterator[Event]:
    """Yields the name of a process or thread, and its position from the top."""
    yield {"ph": "M", "name": f"{what}_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": f"{what}_sort_index", **where, "args": {"sort_index": position}}


def microsecond_span(begin_seconds: float, end_seconds: float) -> tuple[float, float]:
    """Returns begin and duration in microseconds; their sum never exceeds the end."""
    start, end = begin_seconds * MICRO, end_seconds * MICRO
    length = end - start
    while start + length > end:
        length = nextafter(length, 0.0)
    return start, length
