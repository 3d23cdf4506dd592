"""A server of the service as it is started from the command line, its processes, and its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from results.service.asked import COMMAND

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_SAMPLE_SECONDS = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")
MiB = 2**20


@dataclass
class Running:
    """A server that listens on ``port`` of this machine, and what it has logged."""

    process: subprocess.Popen[str]
    host: str
    port: int
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """kill -9 of the server alone: what it started must see by itself that it is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The processes that carry jobs out: those that the server's forkserver made."""
        family = children()
        return [own for child in family.get(self.pid, []) for own in family.get(child, [])]

    def logged(self) -> list[dict[str, Any]]:
        """The lines of its log that are whole."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found


@contextmanager
def serving(store_url: str, folder: Path, *more: str, workers: int = 2) -> Iterator[Running]:
    """A server with a name of its own for as long as the block lasts; then it is told to stop."""
    running = start(store_url, folder, *more, workers=workers)
    try:
        yield running
    finally:
        stop(running)


def start(store_url: str, folder: Path, *more: str, workers: int = 2) -> Running:
    """Start a server on a free port, and wait until it is ready.

    Its log is appended to ``folder/server.log``. Raises RuntimeError where it does not get ready.
    """
    log = folder / "server.log"
    how = ("--port", "0", "--store", store_url, "--workers", str(workers), "--name", "measured")
    with log.open("a") as said:
        process = subprocess.Popen(
            [*COMMAND, "serve", *how, *more], stdout=subprocess.PIPE, stderr=said, text=True
        )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address.startswith("http://"):
        process.kill()
        raise RuntimeError(f"no server: {address!r}; {log.read_text(encoding='utf-8')[-2000:]}")
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    running = Running(process, host, int(port), log)
    end = time.monotonic() + _START_SECONDS
    while not _ready(running):
        if time.monotonic() > end or process.poll() is not None:
            process.kill()
            raise RuntimeError(f"not ready: {log.read_text(encoding='utf-8')[-2000:]}")
        time.sleep(0.05)
    return running


def stop(running: Running) -> None:
    """Tell it to stop, and make it if it does not."""
    if running.process.poll() is None:
        running.process.terminate()
    try:
        running.process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        running.kill()
    if running.process.stdout is not None:
        running.process.stdout.close()


def _ready(running: Running) -> bool:
    try:
        with urlopen(f"http://{running.host}:{running.port}/readyz", timeout=5) as told:
            return bool(told.status == 200)
    except OSError:
        return False


def children() -> dict[int, list[int]]:
    """The processes of this machine by their parent."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            told = (entry / "stat").read_text()
        except OSError:
            continue
        parent = int(told.rpartition(")")[2].split()[1])
        found.setdefault(parent, []).append(int(entry.name))
    return found


def descendants(pid: int) -> list[int]:
    """All that a process has started, and what these have started."""
    family, found, left = children(), [], [pid]
    while left:
        inside = family.get(left.pop(), [])
        found += inside
        left += inside
    return found


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident_bytes(pid: int) -> int:
    """The resident memory of a process; 0 of one that is gone."""
    try:
        told = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return int(told[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """What a process has used of processors so far; 0 of one that is gone."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(told[11]) + int(told[12])) / _TICKS


@dataclass
class Memory:
    """The resident memory of a server and of all it has started, looked at four times a second."""

    pid: int
    server: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def look(self) -> None:
        self.server.append(resident_bytes(self.pid))
        self.others.append(sum(map(resident_bytes, descendants(self.pid))))

    def told(self) -> dict[str, float]:
        """Mebibytes: at the beginning, at most, in the end."""
        return {
            "server_first_MiB": round(self.server[0] / MiB, 1),
            "server_peak_MiB": round(max(self.server) / MiB, 1),
            "server_last_MiB": round(self.server[-1] / MiB, 1),
            "workers_peak_MiB": round(max(self.others) / MiB, 1),
            "workers_last_MiB": round(self.others[-1] / MiB, 1),
        }


@contextmanager
def watched(pid: int) -> Iterator[Memory]:
    """Memory sampled by a thread for as long as the block lasts."""
    memory, over = Memory(pid), threading.Event()

    def watch() -> None:
        while not over.wait(_SAMPLE_SECONDS):
            memory.look()

    memory.look()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()
        memory.look()
