"""Workers on this machine: one process for each slot, driven by a thread through a pipe.

Not a ProcessPoolExecutor: one whose process is killed while it writes a long result waits for the
rest for ever, as it holds the other end of that pipe itself. Here only the worker holds it.
"""

from __future__ import annotations

import atexit
import json
import logging
import multiprocessing
import queue
import threading
import time as clock
from concurrent.futures import Future
from itertools import count
from math import inf

from synth.service.workers.pool import OnProgress, Progress, ignore
from synth.service.workers.problems import (
    KilledError,
    NoWorkersError,
    OverTimeError,
    WorkerLostError,
    WorkError,
    result_of,
)
from synth.service.workers.process import serve
from synth.verbs.answers.parts import Json
from synth.verbs.partition import Piece

_LOOK_SECONDS = 0.1
"""How often a slot checks whether its piece must be stopped or killed, or is late."""
_BEGINNINGS = 3
"""How many processes may die before they have begun a piece, until it counts as lost."""
log = logging.getLogger("collsynth.work")


class LocalTicket:
    """A piece in the queue of a LocalWorkers, or under way."""

    def __init__(
        self,
        number: int,
        piece: Piece,
        budget_seconds: float | None,
        memory_bytes: int | None,
        on_progress: OnProgress,
    ) -> None:
        self.number, self.piece = number, piece
        self.budget_seconds, self.memory_bytes = budget_seconds, memory_bytes
        self._on_progress = on_progress
        self.future: Future[Json] = Future()
        self.stopping = threading.Event()
        self.killing = threading.Event()
        self._lock = threading.RLock()

    def stop(self) -> None:
        self.stopping.set()

    def kill(self) -> None:
        with self._lock:
            self.killing.set()
            if not self.future.running() and not self.future.done():
                self.future.set_exception(KilledError("ended before it was begun"))

    def begin(self) -> bool:
        """Mark the piece as under way; False if it has been killed before."""
        with self._lock:
            return not self.future.done() and self.future.set_running_or_notify_cancel()

    def progressed(self, said: Json) -> None:
        """Pass progress on. A callback that fails is logged: it must not end the work."""
        best = said.get("best")
        try:
            self._on_progress(
                Progress(said["stage"], said["done"], said["of"], best and best.encode())
            )
        except Exception:
            log.exception("progress could not be told")


class LocalWorkers:
    """Processes of this machine, replaced when they die.

    A piece that is stopped, or over its budget, has ``grace_seconds`` to come to an end by itself;
    then its process is killed.
    """

    def __init__(self, slots: int, grace_seconds: float = 10) -> None:
        self._numbers = count(1)
        self._waiting: queue.SimpleQueue[LocalTicket | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["synth.service.workers.preload"])
        self._slots = [_Slot(self._waiting, grace_seconds) for _ in range(slots)]
        for slot in self._slots:
            slot.start()
        atexit.register(self.close, 0)

    @property
    def slots(self) -> int:
        return len(self._slots)

    @property
    def at_once(self) -> int:
        return len(self._slots) + 1

    @property
    def lost(self) -> int:
        return sum(slot.lost for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that there are at the moment."""
        return [slot.pid for slot in self._slots if slot.pid]

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> LocalTicket:
        with self._lock:
            if self._closed:
                raise NoWorkersError("the workers have been sent home")
            ticket = LocalTicket(
                next(self._numbers), piece, budget_seconds, memory_bytes, on_progress
            )
            self._waiting.put(ticket)
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        for slot in self._slots:
            slot.leave(grace_seconds)
            self._waiting.put(None)
        for slot in self._slots:
            slot.join()


class _Slot(threading.Thread):
    """A thread with a process of its own, which carries out one ticket of the queue at a time."""

    def __init__(
        self, waiting: queue.SimpleQueue[LocalTicket | None], grace_seconds: float
    ) -> None:
        super().__init__(name="collsynth-slot", daemon=True)
        self._waiting = waiting
        self._grace_seconds = grace_seconds
        self._leave_by: float | None = None
        self.lost = 0
        self._worker: _Worker | None = _Worker()

    @property
    def pid(self) -> int | None:
        worker = self._worker
        return worker.pid if worker else None

    def leave(self, grace_seconds: float) -> None:
        """Begin nothing more, and end within the grace."""
        self._leave_by = clock.monotonic() + grace_seconds

    def run(self) -> None:
        try:
            while (ticket := self._waiting.get()) is not None:
                self._take(ticket)
                if self._worker is None and self._leave_by is None:
                    self._worker = _Worker()
        finally:
            if self._worker:
                self._worker.end()
                self._worker = None

    def _take(self, ticket: LocalTicket) -> None:
        if not ticket.begin():
            return
        try:
            if self._leave_by is not None:
                raise NoWorkersError("the workers were sent home before it was begun")
            result = result_of(self._carried(ticket))
        except Exception as error:
            ticket.future.set_exception(error)
        else:
            ticket.future.set_result(result)

    def _carried(self, ticket: LocalTicket) -> str:
        """The outcome of a piece, as text. A process that dies, or must be killed, is replaced."""
        for _ in range(_BEGINNINGS):
            worker = self._worker = self._worker or _Worker()
            try:
                worker.begin(ticket)
                said = self._awaited(worker, ticket)
                if said["keeps"]:
                    self._dismiss(worker)
                outcome: str = said["done"]
                return outcome
            except (EOFError, OSError):
                self.lost += 1
                how = self._dismiss(worker, 1)
                if worker.begun:
                    break
            except WorkError:
                self._dismiss(worker)
                raise
        problem = f"the process that worked on it has died ({how})"
        raise WorkerLostError(problem, "another try may well succeed")

    def _dismiss(self, worker: _Worker, patience_seconds: float = 0) -> str:
        self._worker = None
        return worker.end(patience_seconds)

    def _awaited(self, worker: _Worker, ticket: LocalTicket) -> Json:
        """Wait for the end of a piece. Raises WorkError where it was killed or is too late."""
        budget, grace = ticket.budget_seconds, self._grace_seconds
        end = inf if budget is None else clock.monotonic() + budget + grace
        stopped = False
        while True:
            said = worker.hear(_LOOK_SECONDS)
            if said and "done" in said:
                return said
            if said and "progress" in said:
                ticket.progressed(said["progress"])
            now, leave_by = clock.monotonic(), self._leave_by or inf
            if ticket.killing.is_set():
                raise KilledError("ended as was asked")
            if not stopped and (ticket.stopping.is_set() or leave_by < inf):
                stopped, end = True, min(end, now + grace)
                worker.stop(ticket.number)
            if now >= leave_by:
                raise NoWorkersError("the workers were sent home while it was under way")
            if now >= end:
                raise OverTimeError("the time was up, and there was no answer in time")


class _Worker:
    """A process and our end of its pipe. Reading raises EOFError or OSError once it is dead."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        self.begun = False
        theirs.close()

    def begin(self, ticket: LocalTicket) -> None:
        self.begun = False
        self._say(
            number=ticket.number,
            piece=ticket.piece.text,
            budget_seconds=ticket.budget_seconds,
            memory_bytes=ticket.memory_bytes,
        )

    def stop(self, number: int) -> None:
        self._say(stop=number)

    def _say(self, **order: object) -> None:
        self._pipe.send_bytes(json.dumps(order).encode())

    def hear(self, seconds: float) -> Json | None:
        """The next message, or None if none comes in that time."""
        if not self._pipe.poll(seconds):
            return None
        said: Json = json.loads(self._pipe.recv_bytes())
        self.begun = True
        return said

    def end(self, patience_seconds: float = 0) -> str:
        """Close the pipe, kill the process if it does not end in time; how it ended, in words."""
        self._pipe.close()
        self._process.join(patience_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
