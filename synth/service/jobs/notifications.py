"""Tells those who wait for a job on the event loop that something happened to it in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Bell:
    """Rung from any thread, heard on the loop it was bound to. Before that nobody hears it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[str, dict[asyncio.Event, bool]] = {}

    def bind(self) -> None:
        """Ring on the loop that runs here."""
        self._loop = asyncio.get_running_loop()

    def ring_all(self) -> None:
        """Let everybody who listens look once again. On the loop only."""
        for listeners in self._listeners.values():
            for heard in listeners:
                heard.set()

    def ring(self, job_id: str, ended: bool) -> None:
        """Something happened to a job: it ended, or it got further."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._wake, job_id, ended)

    @contextmanager
    def listening(self, job_id: str, for_the_end: bool) -> Iterator[asyncio.Event]:
        """An event that is set by every ring for a job from now on, or by that of its end only."""
        heard = asyncio.Event()
        self._listeners.setdefault(job_id, {})[heard] = for_the_end
        try:
            yield heard
        finally:
            mine = self._listeners[job_id]
            del mine[heard]
            if not mine:
                del self._listeners[job_id]

    def _wake(self, job_id: str, ended: bool) -> None:
        for heard, for_the_end in self._listeners.get(job_id, {}).items():
            if ended or not for_the_end:
                heard.set()


async def heard_within(heard: asyncio.Event, seconds: float) -> bool:
    """Wait for a ring, and be ready for the next; False if none came in that time."""
    try:
        await asyncio.wait_for(heard.wait(), seconds)
    except TimeoutError:
        return False
    heard.clear()
    return True
