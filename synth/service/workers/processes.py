"""Workers on this machine: processes, replaced when they die.

Each slot is a thread that drives one process through a pipe. A process that dies breaks the pipe.
Then the slot starts another process, and the piece is lost unless it had not begun. Idle slots are
lent: a process may fork that number of others for its piece. ProcessPoolExecutor is not used,
because it holds the write end of its result pipe itself: if a process is killed while it writes a
long result, the executor waits for the rest without end. Here only the worker holds that end.
"""

from __future__ import annotations

import atexit
import multiprocessing
import queue
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from math import inf
from multiprocessing.connection import Connection

from synth.ask.answers.parts import Json
from synth.ask.partition import Piece
from synth.service.workers.pool import OnProgress, Progress, guard_callback, ignore
from synth.service.workers.problems import (
    KilledError,
    NoWorkersError,
    OverTimeError,
    WorkerLostError,
    WorkError,
    result_of,
)
from synth.service.workers.process_main import (
    EndNotice,
    Instruction,
    Message,
    ProcessGrant,
    StopRequest,
    WorkOrder,
    serve,
)

LOOK_SECONDS = 0.1
"""How often a slot checks whether its piece was stopped or killed, or is late."""
_BEGINNINGS = 3
"""How many processes may die before they begin a piece until the piece counts as lost."""


class ProcessTicket:
    """A queued or running piece of a ProcessWorkers."""

    def __init__(self, order: WorkOrder, on_progress: OnProgress) -> None:
        self.order, self.on_progress = order, guard_callback(on_progress)
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
                self.future.set_exception(KilledError("killed before it started"))

    def begin(self) -> bool:
        """Mark the piece as running; False if it was killed before."""
        with self._lock:
            return not self.future.done() and self.future.set_running_or_notify_cancel()


class ProcessWorkers:
    """Processes on this machine, replaced when they die.

    A piece that is stopped or over its budget has ``grace_seconds`` to end by itself; then its
    process is killed.
    """

    def __init__(self, slots: int, grace_seconds: float = 10) -> None:
        self._numbers = count(1)
        self._waiting: queue.SimpleQueue[ProcessTicket | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["synth.service.workers.preload"])
        self._slots = [_Slot(self._waiting, grace_seconds, self._share) for _ in range(slots)]
        for slot in self._slots:
            slot.start()
        atexit.register(self.close, 0)

    @property
    def slots(self) -> int:
        return sum(slot.is_alive() for slot in self._slots)

    @property
    def divides_sweeps(self) -> bool:
        return False

    @property
    def idle(self) -> int:
        free = sum(not slot.busy for slot in self._slots)
        return max(0, free - self._waiting.qsize())

    def _share(self) -> int:
        """Return how many processes may work on each piece so that all slots are used."""
        pieces = sum(slot.busy for slot in self._slots) + self._waiting.qsize()
        return max(1, len(self._slots) // max(1, pieces))

    @property
    def lost(self) -> int:
        return sum(slot.lost for slot in self._slots)

    @property
    def pids(self) -> list[int]:
        """The ids of the current processes."""
        return [slot.pid for slot in self._slots if slot.pid]

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> ProcessTicket:
        with self._lock:
            if self._closed:
                raise NoWorkersError("the workers have been closed")
            order = WorkOrder(next(self._numbers), piece.text, budget_seconds, memory_bytes)
            ticket = ProcessTicket(order, on_progress)
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
    """A thread with its own process that carries out the queue's tickets one after another."""

    def __init__(
        self,
        waiting: queue.SimpleQueue[ProcessTicket | None],
        grace_seconds: float,
        share: Callable[[], int],
    ) -> None:
        super().__init__(name="collsynth-slot", daemon=True)
        self._waiting = waiting
        self._share = share
        self._grace_seconds = grace_seconds
        self._leave_by: float | None = None
        self.lost = 0
        self.busy = False
        self._process: _Process | None = _Process()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process else None

    def leave(self, grace_seconds: float) -> None:
        """Begin no more pieces, and end within the grace period."""
        self._leave_by = clock.monotonic() + grace_seconds

    def run(self) -> None:
        try:
            while (ticket := self._waiting.get()) is not None:
                self.busy = True
                self._carry_out(ticket)
                del ticket  # free its question, which may be large, before waiting for the next
                self.busy = False
                if self._process is None and self._leave_by is None:
                    with suppress(OSError):  # no resources now, but the next piece tries again
                        self._process = _Process()
        finally:
            if self._process:
                self._end_process(self._process)

    def _carry_out(self, ticket: ProcessTicket) -> None:
        if not ticket.begin():
            return
        try:
            if self._leave_by is not None:
                raise NoWorkersError("the workers were closed before it started")
            result = result_of(self._compute(ticket))
        except Exception as error:
            # Frames in the traceback refer to the ticket, and it to this error: a large cycle.
            ticket.future.set_exception(error.with_traceback(None))
        else:
            ticket.future.set_result(result)

    def _compute(self, ticket: ProcessTicket) -> str:
        """Return the outcome of a piece as text. A process that dies or is killed is replaced."""
        for _ in range(_BEGINNINGS):
            process = self._process = self._process or _Process()
            try:
                process.begin(ticket.order)
                done = self._wait_for(process, ticket)
            except (EOFError, OSError):
                self.lost += 1
                how = self._end_process(process, 1)
                if process.begun:
                    break
            except WorkError:
                self._end_process(process)
                raise
            else:
                if done.replace:
                    self._end_process(process)
                return done.outcome
        problem = f"the process that worked on it has died ({how})"
        raise WorkerLostError(problem, "a retry may succeed")

    def _end_process(self, process: _Process, patience_seconds: float = 0) -> str:
        self._process = None
        return process.end(patience_seconds)

    def _wait_for(self, process: _Process, ticket: ProcessTicket) -> EndNotice:
        """Wait for the end of a piece. Raises WorkError if it was killed or is late."""
        budget, grace = ticket.order.budget_seconds, self._grace_seconds
        end = inf if budget is None else clock.monotonic() + budget + grace
        stopped, share = False, 0
        while True:
            if share != (share := self._share()):
                process.send(ProcessGrant(share))
            match process.receive(LOOK_SECONDS):
                case EndNotice() as done:
                    return done
                case Progress() as progress:
                    ticket.on_progress(progress)
            now, leave_by = clock.monotonic(), self._leave_by or inf
            if ticket.killing.is_set():
                raise KilledError("killed on request")
            if not stopped and (ticket.stopping.is_set() or leave_by < inf):
                stopped, end = True, min(end, now + grace)
                process.send(StopRequest(ticket.order.number))
            if now >= leave_by:
                raise NoWorkersError("the workers were closed while it was running")
            if now >= end:
                raise OverTimeError("the time limit was reached without an answer")


class _Process:
    """A process and our end of its pipe. Reading raises EOFError or OSError once it has died."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        server_end, worker_end = context.Pipe()
        self._pipe: Connection[Instruction, Message] = server_end
        self._process = context.Process(target=serve, args=(worker_end,), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        self.begun = False
        worker_end.close()

    def begin(self, order: WorkOrder) -> None:
        self.begun = False
        self.send(order)

    def send(self, instruction: Instruction) -> None:
        self._pipe.send(instruction)

    def receive(self, seconds: float) -> Message | None:
        """Return the next message, or None after ``seconds`` without one."""
        if not self._pipe.poll(seconds):
            return None
        message = self._pipe.recv()
        self.begun = True
        return message

    def end(self, patience_seconds: float = 0) -> str:
        """Close the pipe, kill the process if it is late, and return how it ended, in words."""
        self._pipe.close()
        self._process.join(patience_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
