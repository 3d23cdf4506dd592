"""Connections whose request does not come: ended after a while, and bounded in number.

uvicorn waits for ever for the headers of a request, so that a thousand connections that send
none, or a byte a minute, use up all files that a process may have open; after that nobody is
served, and every attempt to accept one more is a traceback in the log.
"""

from __future__ import annotations

import asyncio
import resource
from math import inf
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_SECONDS = 10.0
_OTHER_FILES = 256
"""Files that are kept for everything but connections: the store, workers, libraries."""


def most_connections() -> int:
    """How many connections leave files for all else; the soft limit of files is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(16, min(soft, wanted) - _OTHER_FILES)


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that is closed where its request's headers have not come in time.

    Where there are ``most`` connections already, the one that has waited longest for a request
    makes room for the new one; where all are being answered, the new one is closed.
    """

    most = most_connections()
    _timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()
        if len(self.connections) > self.most:
            unheard = [one for one in self.connections if one.waiting and one is not self]
            oldest = min(unheard, key=lambda one: one.waits_since, default=self)
            oldest.transport.abort()
            self.connections.discard(oldest)

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
