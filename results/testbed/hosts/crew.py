"""Processes, one in every host's namespace, that run programs together when they are told to.

They are forked once and know all programs of a case. Nothing that they say to each other but the
programs' own data crosses the network: orders come, and reports go, by pipes and shared memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import socket
import struct
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from results.testbed.hosts.engine import Host
from results.testbed.hosts.network import enter
from results.testbed.hosts.orders import Orders, meetings
from results.testbed.hosts.wiring import Wiring

_PORT = 7000
_HEAD_START_SECONDS = 0.003
_LONGEST_SECONDS = 60.0
_DIE_WITH_PARENT = 1
_COMMAND = struct.Struct("<id")


class TroubleError(Exception):
    """A run that came to no end, or whose result was wrong."""


@dataclass(frozen=True)
class Task:
    """A program to be run: what every host does, and which sum each must have at the end.

    ``elements`` is the length of the payload; ``groups`` has, for every host, those whose
    contributions it must have, or nothing where the end is not looked at.
    """

    orders: Orders
    elements: int
    groups: tuple[tuple[int, ...], ...] = ()


class Crew:
    """The processes of one case."""

    def __init__(self, wiring: Wiring, tasks: Sequence[Task]) -> None:
        self._wiring, self._tasks = wiring, tasks
        hosts = wiring.system.devices
        self._times = np.frombuffer(mmap.mmap(-1, 16 * hosts), dtype=np.float64).reshape(hosts, 2)
        self._pairs = meetings(task.orders for task in tasks)
        self._elements = max(task.elements for task in tasks)
        self._ends = [socket.socketpair() for _ in range(hosts)]
        self.pids: list[int] = []
        for device in range(hosts):
            pid = os.fork()
            if not pid:
                self._live(device)
            self.pids.append(pid)
        for _, theirs in self._ends:
            theirs.close()
        for _ in range(3):
            self._tell(b"+")
            self._hear()

    def run(self, number: int) -> float:
        """The seconds from the first start to the last end of a task.

        Raises TroubleError if a host fails, takes far too long or has a wrong result.
        """
        begin = time.monotonic() + _HEAD_START_SECONDS
        self._tell(_COMMAND.pack(number, begin))
        self._hear()
        return float(self._times[:, 1].max() - self._times[:, 0].min())

    def dismiss(self) -> None:
        """End all processes."""
        for mine, _ in self._ends:
            mine.close()
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.pids.clear()

    def _tell(self, message: bytes) -> None:
        for mine, _ in self._ends:
            mine.sendall(message)

    def _hear(self) -> None:
        """Wait until everyone has said that all is well."""
        watched = select.poll()
        waiting = {mine.fileno(): device for device, (mine, _) in enumerate(self._ends)}
        for fileno in waiting:
            watched.register(fileno, select.POLLIN)
        end = time.monotonic() + _LONGEST_SECONDS
        while waiting:
            found = watched.poll(max(0.0, 1000 * (end - time.monotonic())))
            if not found:
                raise TroubleError(f"hosts {sorted(waiting.values())} do not answer")
            for fileno, _ in found:
                device = waiting.pop(fileno)
                watched.unregister(fileno)
                said = self._ends[device][0].recv(4096)
                if said != b"+":
                    raise TroubleError(f"host {device}: {said.decode() or 'has gone'}")

    def _live(self, device: int) -> None:
        """What a process does; it never comes back."""
        try:
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for mine, _ in self._ends:
                mine.close()
            for other, (_, theirs) in enumerate(self._ends):
                if other != device:
                    theirs.close()
            self._work(device, self._ends[device][1])
        except (BrokenPipeError, ConnectionResetError):
            pass
        except BaseException:
            with suppress(OSError):
                self._ends[device][1].sendall(traceback.format_exc().encode())
        finally:
            os._exit(1)

    def _work(self, device: int, boss: socket.socket) -> None:
        with _step(boss):
            enter(self._wiring.hosts[device])
            listener = socket.create_server((self._wiring.address(device), _PORT), backlog=256)
        with _step(boss):
            targets = sorted(target for source, target in self._pairs if source == device)
            out = {each: _reach(self._wiring.address(each), device) for each in targets}
        with _step(boss):
            into = dict(_accepted(listener, sum(target == device for _, target in self._pairs)))
            host = Host(device, out, into, self._elements)
        mine = self._times[device]
        while command := boss.recv(_COMMAND.size):
            number, begin = _COMMAND.unpack(command)
            task = self._tasks[number]
            host.prepare(task.elements)
            time.sleep(max(0.0, begin - time.monotonic()))
            mine[0] = time.monotonic()
            host.carry_out(task.orders[device])
            mine[1] = time.monotonic()
            group = task.groups[device] if task.groups else ()
            wrong = group and not host.right(task.elements, group)
            boss.sendall(b"a wrong result" if wrong else b"+")


@contextmanager
def crew(wiring: Wiring, tasks: Sequence[Task]) -> Iterator[Crew]:
    """Processes for some tasks on a network that is up, for as long as the block lasts."""
    hired = Crew(wiring, tasks)
    try:
        yield hired
    finally:
        hired.dismiss()


@contextmanager
def _step(boss: socket.socket) -> Iterator[None]:
    """What is done when asked; then say that all is well."""
    if not boss.recv(1):
        raise ConnectionError("nobody asks any more")
    yield
    boss.sendall(b"+")


def _reach(address: str, device: int) -> socket.socket:
    made = socket.create_connection((address, _PORT), timeout=20)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(bytes([device]))
    made.setblocking(False)
    return made


def _accepted(listener: socket.socket, count: int) -> Iterable[tuple[int, socket.socket]]:
    listener.settimeout(20)
    for _ in range(count):
        made, _ = listener.accept()
        made.settimeout(20)
        [device] = made.recv(1)
        made.setblocking(False)
        yield device, made
