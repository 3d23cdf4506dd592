"""Connections whose peer sends no request, or takes no answer: ended, and bounded in number.

uvicorn waits for ever for the headers of a request, so that a thousand connections that send
none, or a byte a minute, use up all files that a process may have open; after that nobody is
served, and every attempt to accept one more is a traceback in the log. Nor does it ever give up
one whose peer reads nothing of its answer, and all of that answer stays in memory.
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
"""What a peer must take of its answer within those seconds, or the rest of it."""
_OTHER_FILES = 256
"""Files that are kept for all but connections: the store, workers, and those just accepted."""
MOST_ACCEPTED = 32
"""So many connections are accepted before any of them is counted: asyncio accepts as many in one
turn as are told to wait in the queue, and has files for all of them before one can be ended."""
_EXHAUSTED_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
log = logging.getLogger("collsynth.service")


def most_connections() -> int:
    """How many connections leave files for all else; the soft limit of files is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(16, min(soft, wanted) - _OTHER_FILES)


class ThrottledWarning:
    """Logs a warning once in so many seconds at most: of a thousand that are alike the first."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._due = seconds, clock, -inf

    def warn(self, problem: str, *given: object) -> None:
        """Log it, unless one was logged lately."""
        if self._clock() >= self._due:
            self._due = self._clock() + self._seconds
            log.warning(problem, *given)


def handle_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Have one line logged where there is no file for a connection, not a traceback for each.

    asyncio tries again by itself a second later.
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
    """A connection that is closed where its request's headers have not come in time.

    It is closed, too, where its answer is not taken. Where there are ``most`` connections already,
    the one that has waited longest for a request makes room for the new one, or else one whose
    body has not come yet; where all are being answered, the new one is closed.
    """

    most = most_connections()
    seldom = ThrottledWarning()
    _timer: asyncio.TimerHandle | None = None
    _taken: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # else what is less is never said to be untaken
        self._arm()
        if len(self.connections) > self.most:
            unheard = [one for one in self.connections if one.unheard and one is not self]
            oldest = min(unheard, key=lambda one: one.waits_since, default=self)
            self.seldom.warn("more than %d connections: who sends no request is ended", self.most)
            oldest.transport.abort()
            self.connections.discard(oldest)

    @property
    def unheard(self) -> bool:
        """Whether no request has come, or not all of it."""
        return self.waiting or self.cycle.more_body

    @property
    def waits_since(self) -> float:
        """When the wait for headers ends: who waits longest is first, and idle ones are last."""
        return self._timer.when() if self._timer is not None else inf

    def data_received(self, data: bytes) -> None:
        if self.waiting and self._timer is None:
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
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taken is not None:
            self._taken.cancel()
            self._taken = None

    def _watch(self) -> None:
        """Look again later how much of the answer is still here."""
        loop, left = asyncio.get_running_loop(), self.transport.get_write_buffer_size()
        self._taken = loop.call_later(SENT_SECONDS, self._look, left)

    def _look(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_SENT_BYTES:
            self.transport.abort()
        else:
            self._watch()

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HEADER_SECONDS, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.waiting:
            self.transport.close()
