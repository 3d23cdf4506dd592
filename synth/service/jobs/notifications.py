"""Notifications of job changes: sent from worker threads, awaited on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Notifications:
    """Publishes job changes from any thread to subscribers on one event loop.

    Call ``bind`` before serving subscribers: earlier notifications are dropped.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._subscribers: dict[str, dict[asyncio.Event, bool]] = {}

    def bind(self) -> None:
        """Deliver on the running event loop."""
        self._loop = asyncio.get_running_loop()

    def notify_all(self) -> None:
        """Wake every subscriber, so that each checks its job again. On the loop only."""
        for subscribers in self._subscribers.values():
            for notified in subscribers:
                notified.set()

    def notify(self, job_id: str, ended: bool) -> None:
        """Publish that a job has ended or made progress. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, so there are no subscribers
                self._loop.call_soon_threadsafe(self._wake, job_id, ended)

    @contextmanager
    def subscribed(self, job_id: str, for_the_end: bool) -> Iterator[asyncio.Event]:
        """Yield an event that is set by each notification of a job, or only by its end."""
        notified = asyncio.Event()
        self._subscribers.setdefault(job_id, {})[notified] = for_the_end
        try:
            yield notified
        finally:
            subscribers = self._subscribers[job_id]
            del subscribers[notified]
            if not subscribers:
                del self._subscribers[job_id]

    def _wake(self, job_id: str, ended: bool) -> None:
        for notified, for_the_end in self._subscribers.get(job_id, {}).items():
            if ended or not for_the_end:
                notified.set()


async def wait_for_notification(notified: asyncio.Event, seconds: float) -> bool:
    """Wait for a notification and reset its event; False on timeout."""
    try:
        await asyncio.wait_for(notified.wait(), seconds)
    except TimeoutError:
        return False
    notified.clear()
    return True
