"""What systemd is told of a server: that it is ready, that it lives, how it stands, that it stops.

One datagram each, to the socket that systemd names; nothing where nobody has named one.

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
    """Notifies the service manager that started this process. Mutable, for one thread.

    ``beat`` is to be called often. The manager is told that the server is ready when it beats for
    the first time, and after that as often as it must hear from it: unless nothing ``lives`` that
    does the work, as then it is to be restarted. ``trouble``: why it is not ready at the moment.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket = environment.get("NOTIFY_SOCKET", "")
        named = environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        most = environment.get("WATCHDOG_USEC", "") if named else ""
        self._every = int(most) / _MICROSECONDS / 4 if most.isdecimal() else None
        self._clock = clock
        self._due = -inf
        self._status = ""

    def beat(self, lives: bool, trouble: str | None) -> None:
        """Tell that the server lives, if it is time to, and how it stands, if that is new."""
        status = f"STATUS=not ready: {trouble}" if trouble else "STATUS=ready"
        lines = [] if self._status else ["READY=1"]
        if status != self._status:
            self._status = status
            lines.append(status)
        if lives and self._every is not None and self._clock() >= self._due:
            self._due = self._clock() + self._every
            lines.append("WATCHDOG=1")
        self._tell(lines)

    def stop(self) -> None:
        """Tell that the server is being stopped."""
        self._tell(["STOPPING=1"])

    def _tell(self, lines: list[str]) -> None:
        if not lines or not self._socket:
            return
        address = self._socket
        if address.startswith("@"):  # a name without a file, as Linux has them
            address = f"\0{address[1:]}"
        with (
            suppress(OSError),  # who does not listen is not to stop the server
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)
