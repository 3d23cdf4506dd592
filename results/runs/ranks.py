"""Processes, one in every host's namespace and on a core of its own, that run written steps.

They are forked once PyTorch is loaded, and told by pipes what to do next; only what steps send
crosses the network. They run before all else on this machine, at real-time priority, and threads
that communicate before those that compute: on cores that others use, too, a small all-reduce took
0.3 or 4 ms, as a tick happened to come; so it takes 0.25. They take turns of a tick (a thread of
gloo's that asks for a lock without end would keep who holds it from the core for ever). When one
dies, or does not answer, the others are ended and its last words are told.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from results.runs.worker import Worker
from results.testbed.hosts.crew import TroubleError
from results.testbed.hosts.network import enter
from results.testbed.hosts.wiring import Wiring
from synth.step.profiles.trial import ALLOCATOR

PATIENCE_SECONDS = 20.0
_DIE_WITH_PARENT = 1
_TURNS = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
SHORTEST_TURN_MS = "4"
"""How long a thread at real-time priority goes on before another of the same has its turn."""


def alike(module: str) -> None:
    """Start a module of results again where memory is not handed out as its ranks are to have it.

    Its words stay; the process is another, as an allocator is told when a process begins.
    """
    if ALLOCATOR.items() - os.environ.items():
        more = {**os.environ, **ALLOCATOR, "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], more)


class Ranks:
    """The processes of one network."""

    def __init__(self, wiring: Wiring, folder: Path, worker: type[Worker]) -> None:
        import torch  # noqa: F401  # loaded before forking, so once

        self._folder = folder
        self._ends: list[Connection] = []
        self.pids: list[int] = []
        for rank in range(wiring.system.devices):
            mine, theirs = Pipe()
            pid = os.fork()
            if not pid:
                for one in (*self._ends, mine):
                    one.close()
                _live(worker, rank, wiring, folder, theirs)
            theirs.close()
            self._ends.append(mine)
            self.pids.append(pid)
        self.all("hello")

    def all(self, what: str, *given: Any) -> list[Any]:
        """What every process answers. Raises TroubleError where one fails or does not answer."""
        return self.some(range(len(self._ends)), what, *given)

    def some(self, asked: Sequence[int], what: str, *given: Any) -> list[Any]:
        """The same of some processes, while the others wait."""
        for rank in asked:
            try:
                self._ends[rank].send((what, given))
            except OSError:
                raise TroubleError(f"rank {rank} has gone; {self._words(rank)}") from None
        found: dict[int, Any] = {}
        end_of_time = time.monotonic() + PATIENCE_SECONDS
        while waiting := {self._ends[at]: at for at in asked if at not in found}:
            ready = wait(list(waiting), max(0.0, end_of_time - time.monotonic()))
            if not ready:
                raise TroubleError(f"ranks {sorted(waiting.values())} do not answer")
            for rank in [at for end, at in waiting.items() if end in ready]:
                found[rank] = self._answer(rank, self._ends[rank])
        return [found[rank] for rank in asked]

    def _answer(self, rank: int, end: Connection) -> Any:
        try:
            kind, told = end.recv()
        except EOFError:
            raise TroubleError(f"rank {rank} has gone; {self._words(rank)}") from None
        if kind == "failed":
            raise TroubleError(f"rank {rank}: {told}")
        return told

    def _words(self, rank: int) -> str:
        """The last that a process said."""
        with suppress(OSError):
            lines = (self._folder / f"rank{rank}.err").read_text(encoding="utf-8").split("\n")
            said = [line.strip() for line in lines if line.strip()][-3:]
            return "it said: " + " | ".join(said) if said else "it said nothing"
        return "it said nothing"

    def end(self) -> None:
        for one in self._ends:
            one.close()
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


@contextmanager
def ranks(wiring: Wiring, folder: Path, worker: type[Worker] = Worker) -> Iterator[Ranks]:
    """Processes on a network that is up, for as long as the block lasts, and what each can do."""
    before = _TURNS.read_text(encoding="ascii")
    _TURNS.write_text(SHORTEST_TURN_MS, encoding="ascii")
    try:
        found = Ranks(wiring, folder, worker)
        try:
            yield found
        finally:
            found.end()
    finally:
        _TURNS.write_text(before, encoding="ascii")


def _live(worker: type[Worker], rank: int, wiring: Wiring, folder: Path, boss: Connection) -> None:
    """What a process does; it never comes back."""
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        words = os.open(folder / f"rank{rank}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(words, 2)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
        enter(wiring.hosts[rank])
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
        told = worker(rank, wiring.system.devices, folder)
        while True:
            what, given = boss.recv()
            try:
                boss.send(("done", getattr(told, what)(*given)))
            except Exception:
                boss.send(("failed", traceback.format_exc().strip().split("\n")[-1]))
    except (EOFError, OSError):
        pass
    except BaseException:
        print(traceback.format_exc(), file=sys.stderr, flush=True)
    finally:
        os._exit(1)
