"""Garbage collection while a question is answered, when most new objects are kept.

Python searches for unreachable cycles whenever a few hundred more objects are created than freed,
and traverses all existing objects again and again. A plan of a large model, which creates and keeps
millions of objects, spent a quarter of its time in that search.

>>> import gc
>>> with collect_garbage_seldom():
...     gc.get_threshold()[0]
50000
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS = 50_000
"""Number of objects created and not freed until a search for cycles: a few MB at most."""


_lock = Lock()
_before: list[tuple[int, int, int]] = []
"""The previous thresholds, one entry for each question that is being answered."""


@contextmanager
def collect_garbage_seldom() -> Iterator[None]:
    """Collect garbage seldom while this context is active in any thread."""
    with _lock:
        often, *others = now = gc.get_threshold()
        _before.append(_before[-1] if _before else now)
        gc.set_threshold(max(OBJECTS, often) if often else 0, *others)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                gc.set_threshold(*before)
