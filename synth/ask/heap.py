"""The heap of a process while a question is answered: most of what is found out is kept.

Python looks for cycles of objects that nobody needs whenever some hundred more objects are made
than freed, and goes through all there are again and again. A plan of a large model, which makes
millions and keeps them, took a quarter of its seconds for that.

>>> import gc
>>> with kept():
...     gc.get_threshold()[0]
50000
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS = 50_000
"""So many more are made than freed before cycles are looked for: some MB at most."""


_lock = Lock()
_before: list[tuple[int, int, int]] = []
"""What was set before, once for each question that is answered now."""


@contextmanager
def collect_garbage_seldom() -> Iterator[None]:
    """While this lasts, in any thread, garbage is looked for seldom."""
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
