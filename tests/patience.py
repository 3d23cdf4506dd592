"""How long a test waits for what comes sooner or later.

A wait that succeeds costs nothing, however long it may be; on a loaded machine what takes a second
elsewhere takes a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 120
T = TypeVar("T")


def until(holds: Callable[[], T | None]) -> T:
    """Wait until something holds, and return it. AssertionError where it does not come true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
    return found
