"""HTTP connections with timeouts for slow peers and a bound on their number.

uvicorn has no timeout for the headers of a request. A thousand connections that send nothing, or
one byte a minute, use up the file descriptors of the process. Then no client is served, and each
failed accept logs a traceback. uvicorn also never closes a connection whose peer does not read the
response, which stays in memory as a whole.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import time
from collections.abc import Callable
from math import inf
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_SECONDS = 10.0
SENT_SECONDS = 30.0
LEAST_SENT_BYTES = 2**16
"""Bytes of the response, or all that remain, that a peer must read within ``SENT_SECONDS``."""
_OTHER_FILES = 256
"""File descriptors reserved for the store, workers, and connections just accepted."""
MOST_ACCEPTED = 32
"""The listen backlog. asyncio accepts a whole backlog in one iteration of the event loop, so this
many connections occupy file descriptors before the first can be counted or closed."""
_EXHAUSTED_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
log = logging.getLogger("collsynth.service")


def most_connections() -> int:
    """Raise the soft limit of open files, and return the number of connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < ceiling:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
        soft = ceiling
    return max(16, min(soft, ceiling) - _OTHER_FILES)


class ThrottledWarning:
    """Logs at most one warning in ``seconds``, and drops the others."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._due = seconds, clock, -inf

    def warn(self, problem: str, *arguments: object) -> None:
        """Log a warning unless one was logged within the last ``seconds``."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._seconds
            log.warning(problem, *arguments)


def handle_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log one line when file descriptors run out, instead of a traceback for each failed accept.

    asyncio itself retries a second later.
    """
    seldom = ThrottledWarning()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _EXHAUSTED_ERRNOS:
            seldom.warn("no connection can be accepted: %s", error.strerror)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection with timeouts for the arrival of headers and for the reading of the response.

    When a new connection exceeds ``most``, the connection that has waited longest for a request is
    closed, else one whose body is incomplete. If all are being answered, the new one is closed.
    """

    most = most_connections()
    seldom = ThrottledWarning()
    _header_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # by default a small response never pauses writing
        self._arm()
        if len(self.connections) > self.most:
            others = [c for c in self.connections if c.incomplete and c is not self]
            oldest = min(others, key=lambda connection: connection.headers_due, default=self)
            self.seldom.warn("more than %d connections: idle ones are closed", self.most)
            oldest.transport.abort()
            self.connections.discard(oldest)

    @property
    def incomplete(self) -> bool:
        """Whether no complete request has arrived."""
        return self.waiting or self.cycle.more_body

    @property
    def headers_due(self) -> float:
        """Loop time at which the wait for headers ends; infinite if there is no wait."""
        return self._header_timer.when() if self._header_timer is not None else inf

    def data_received(self, data: bytes) -> None:
        if self.waiting and self._header_timer is None:
            self._arm()
        super().data_received(data)
        if not self.waiting:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)
        self.resume_writing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._schedule_check()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _schedule_check(self) -> None:
        """Schedule a check of how many bytes the peer has read."""
        loop, unsent_bytes = asyncio.get_running_loop(), self.transport.get_write_buffer_size()
        self._write_timer = loop.call_later(SENT_SECONDS, self._check_progress, unsent_bytes)

    def _check_progress(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_SENT_BYTES:
            self.transport.abort()
        else:
            self._schedule_check()

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._header_timer = loop.call_later(HEADER_SECONDS, self._close_late)

    def _disarm(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _close_late(self) -> None:
        self._header_timer = None
        if self.waiting:
            self.transport.close()
