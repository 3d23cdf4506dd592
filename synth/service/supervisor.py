"""Notifications to systemd (sd_notify): readiness, watchdog, status, stopping.

Each notification is a datagram to the socket in NOTIFY_SOCKET; without that variable none is sent.

>>> supervisor = Supervisor({}, clock=lambda: 0.0)
>>> supervisor.beat(lives=True, trouble=None)
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf

_MICROSECONDS = 1e6


class Supervisor:
    """Notifies the service manager that started this process. Not thread-safe.

    Call ``beat`` often. The first call reports readiness. Later calls feed the watchdog as long as
    the dispatcher ``lives``; if it does not, systemd restarts the server. ``trouble`` is the reason
    why the server is not ready at the moment.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = environment.get("NOTIFY_SOCKET", "")
        named = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        most = environment.get("WATCHDOG_USEC", "") if named else ""
        # A quarter of systemd's limit, which asks for half or less: ``beat`` may be called late.
        self._every = int(most) / _MICROSECONDS / 4 if most.isdecimal() else None
        self._clock = clock
        self._due = -inf
        self._status = ""

    def beat(self, lives: bool, trouble: str | None) -> None:
        """Feed the watchdog if due, and report the status if it changed."""
        status = f"STATUS=not ready: {trouble}" if trouble else "STATUS=ready"
        lines = [] if self._status else ["READY=1"]
        if status != self._status:
            self._status = status
            lines.append(status)
        if lives and self._every is not None and self._clock() >= self._due:
            self._due = self._clock() + self._every
            lines.append("WATCHDOG=1")
        self._notify(lines)

    def stop(self) -> None:
        """Report that the server is stopping."""
        self._notify(["STOPPING=1"])

    def _notify(self, lines: list[str]) -> None:
        if not lines or not self._socket:
            return
        address = self._socket
        if address.startswith("@"):  # an abstract socket of Linux
            address = f"\0{address[1:]}"
        with (
            suppress(OSError),  # a missing listener must not stop the server
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)
