"""Workers of a Dask cluster: the same pieces, computed wherever the scheduler finds room.

Only text and the names of functions are sent. If a worker is lost, Dask gives its piece to another
worker. Progress is reported by events of the worker. A worker process computes one piece at a time,
as z3 is not thread-safe; a worker with several threads uses that number of processes for the piece.
A piece is a whole question: splitting a question among several workers costs more than it gains. A
sweep of plans is many questions, and its pieces have several of them.
"""

from __future__ import annotations

import logging
import threading
import time as clock
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker, get_worker
from pydantic import BaseModel

from synth.ask.answers.parts import Json
from synth.ask.identity.edition import edition
from synth.ask.partition import LibraryCache, Piece
from synth.service.workers.pool import OnProgress, Progress, guard_callback, ignore
from synth.service.workers.problems import (
    KilledError,
    NoWorkersError,
    OverTimeError,
    WorkerLostError,
    other_edition,
    outcome_text,
    result_of,
)
from synth.service.workers.reporting import PAUSE_SECONDS, BudgetWatcher

_LOOK_SECONDS = 0.5
"""How often to check for late pieces."""
_ANSWER_SECONDS = 2.0
"""Timeout for the scheduler to report its workers, or to be reached again."""
_STALE_SECONDS = 5.0
"""How long a count of workers is valid. After that, there are presumably none."""
_RETRIES = 2
"""How often Dask retries a piece that fails on a worker, such as a worker without collsynth."""
log = logging.getLogger("collsynth.work")


class PieceOrder(BaseModel):
    """A piece to compute, as text; its events go to the topic ``name`` with its ``number``."""

    name: str
    number: int
    piece: str
    partial: bool
    budget_seconds: float | None
    edition: str

    @property
    def key(self) -> str:
        """The piece's key in Dask, which also names it in stop requests."""
        return f"{self.name} {self.number}"


class _Sender(BaseModel):
    """The field that orders of all editions share."""

    edition: str


class WorkerReport(BaseModel):
    """An event of a piece's worker: the piece has begun or made progress."""

    number: int
    begun: bool = False
    progress: Progress | None = None


class DaskWorkers:
    """The workers of the cluster whose scheduler has this address, such as ``tcp://host:8786``.

    A piece that is stopped or over its budget has ``grace_seconds`` to end by itself. After that,
    the server stops waiting for it. It cannot kill processes of the cluster, so the work continues
    until its next ``go_on``. Memory is limited by the workers' own ``--memory-limit``. Raises
    NoWorkersError if no scheduler answers. If the scheduler disappears later, its running pieces
    are lost, and the client reconnects: later pieces go to the next scheduler at its address.
    """

    def __init__(
        self, address: str, grace_seconds: float = 10, connect_seconds: float = 10
    ) -> None:
        self._address = address
        self._grace_seconds = grace_seconds
        self._name = f"collsynth-{uuid4().hex}"
        self._numbers = count(1)
        self.lost = 0
        self._tickets: dict[int, DaskTicket] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._workers, self._counted = 0, -inf
        try:
            self._connect(connect_seconds)
        except (OSError, ValueError) as error:
            raise NoWorkersError(
                f"no Dask scheduler answers at {address}", "start one with 'dask scheduler'"
            ) from error
        self._count()
        self._stops = ThreadPoolExecutor(1, "collsynth-stops")
        self._watch = threading.Thread(
            target=self._watch_cluster, name="collsynth-watch", daemon=True
        )
        self._watch.start()

    def _connect(self, seconds: float) -> None:
        """Connect to the scheduler. Raises OSError if none answers in time."""
        client = Client(self._address, timeout=seconds, set_as_default=False, name="collsynth")
        client.subscribe_topic(self._name, self._on_event)
        client.subscribe_topic("all", self._on_cluster_event)
        self._executor = client.get_executor(pure=False, retries=_RETRIES)
        self._client, self._line = client, client.scheduler_comm

    @property
    def _connected(self) -> bool:
        """Whether the client still has its first connection to the scheduler.

        A client that loses it reconnects by itself for a while. But a new scheduler does not have
        its subscriptions, so no events of pieces would arrive.
        """
        client = self._client
        return client.status == "running" and client.scheduler_comm is self._line

    def _connect_again(self) -> None:
        with suppress(Exception):  # it may be closed or closing already
            self._client.close(_ANSWER_SECONDS)
        try:
            self._connect(_ANSWER_SECONDS)
        except (OSError, ValueError):
            return
        log.warning("the Dask scheduler at %s answers again", self._address)

    def _count(self) -> None:
        """Update the number of workers. Blocks while the scheduler is slow, so not on the loop."""
        with suppress(Exception):  # Dask raises many types if the scheduler disappears meanwhile
            client = self._client
            scheduler: Any = client.scheduler
            cores = client.sync(scheduler.ncores, callback_timeout=_ANSWER_SECONDS)
            self._workers, self._counted = len(cores), clock.monotonic()

    @property
    def slots(self) -> int:
        """How many workers there were a moment ago; 0 if unknown."""
        fresh = self._connected and clock.monotonic() < self._counted + _STALE_SECONDS
        return self._workers if fresh else 0

    @property
    def divides_sweeps(self) -> bool:
        return True

    @property
    def idle(self) -> int:
        return max(0, self.slots - len(self._tickets))

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> DaskTicket:
        if self._closed.is_set() or not self._connected:
            raise NoWorkersError(f"the Dask cluster at {self._address} is gone")
        order = PieceOrder(
            name=self._name,
            number=next(self._numbers),
            piece=piece.text,
            partial=piece.partial,
            budget_seconds=budget_seconds,
            edition=edition(),
        )
        ticket = DaskTicket(self, order, on_progress)
        if budget_seconds is not None:
            ticket.late_seconds = budget_seconds + self._grace_seconds
        with self._lock:
            self._tickets[order.number] = ticket
        try:
            text = order.model_dump_json()
            ticket.away = self._executor.submit(carry_remotely, text, key=order.key)
        except Exception as error:
            self.forget(ticket)
            raise NoWorkersError(f"the Dask cluster at {self._address} accepts no work") from error
        ticket.away.add_done_callback(ticket.returned)
        return ticket

    def close(self, grace_seconds: float = 5) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        waiting = list(self._tickets.values())
        for ticket in waiting:
            ticket.stop()
        end = clock.monotonic() + grace_seconds
        for ticket in waiting:
            with suppress(Exception):
                ticket.future.exception(max(0.0, end - clock.monotonic()))
            ticket.fail(
                NoWorkersError("the connection to the cluster was closed while it was running")
            )
        self._watch.join()
        self._stops.shutdown()
        self._client.close()

    def forget(self, ticket: DaskTicket) -> None:
        """Drop a ticket that has ended."""
        with self._lock:
            self._tickets.pop(ticket.order.number, None)

    def send_stop(self, ticket: DaskTicket) -> None:
        """Send a stop request to all workers: any of them may have the piece, or may get it."""
        ticket.late_by = min(ticket.late_by, clock.monotonic() + self._grace_seconds)
        with suppress(RuntimeError):
            self._stops.submit(self._stop_everywhere, ticket.order.key)

    def _stop_everywhere(self, key: str) -> None:
        if not self._connected:
            return
        try:
            self._client.run(stop_remotely, key, on_error="ignore")
        except Exception:
            log.exception("the cluster could not be asked to stop a piece")

    def _on_event(self, event: Any) -> None:
        """Handle an event of a worker: a piece has begun or made progress."""
        report = WorkerReport.model_validate(event[1])
        with self._lock:
            ticket = self._tickets.get(report.number)
        if ticket is None:
            return
        ticket.begun = True
        if report.progress is not None:
            ticket.on_progress(report.progress)
        else:
            ticket.late_by = min(ticket.late_by, clock.monotonic() + ticket.late_seconds)

    def _on_cluster_event(self, event: Any) -> None:
        """Count our pieces on a lost worker; the scheduler gives them to another worker."""
        match event[1]:
            case {"action": "remove-worker", "expected": False, "processing-tasks": keys}:
                self.lost += sum(str(key).startswith(self._name) for key in keys)

    def _watch_cluster(self) -> None:
        """Until ``close``, reconnect if needed, count workers, and fail late pieces.

        Errors must not end this loop: without it the server would never have workers again.
        """
        while not self._closed.wait(_LOOK_SECONDS):
            try:
                if not self._connected:
                    self._connect_again()
                self._count()
            except Exception:
                log.exception("the watch of the Dask cluster failed, and continues")
            now = clock.monotonic()
            with self._lock:
                late = [ticket for ticket in self._tickets.values() if now >= ticket.late_by]
            for ticket in late:
                ticket.fail(OverTimeError("the time limit was reached without an answer"))


class DaskTicket:
    """A piece sent to the cluster."""

    def __init__(self, workers: DaskWorkers, order: PieceOrder, on_progress: OnProgress) -> None:
        self.order = order
        self.future: Future[Json] = Future()
        self.future.set_running_or_notify_cancel()
        self.away: Future[str] = Future()
        self.late_seconds = self.late_by = inf
        self.begun = False
        self._workers = workers
        self.on_progress = guard_callback(on_progress)
        self._lock = threading.RLock()

    def stop(self) -> None:
        self._workers.send_stop(self)

    def kill(self) -> None:
        self.fail(KilledError("killed on request"))

    def fail(self, error: Exception) -> None:
        """End the piece here. The worker continues until its next ``go_on``.

        A piece that has begun is not cancelled. If it were, the scheduler would consider its worker
        free, and later pieces would wait there behind a piece that may never stop.
        """
        with self._lock:
            if self.future.done():
                return
            self.future.set_exception(error)
        self._workers.send_stop(self)
        self._workers.forget(self)
        if not self.begun:
            self.away.cancel()

    def returned(self, away: Future[str]) -> None:
        """Set the outcome that the worker sent."""
        with self._lock:
            if self.future.done():
                return
            try:
                self.future.set_result(result_of(_text_of(away)))
            except Exception as error:
                self.future.set_exception(error)
        self._workers.forget(self)


def _text_of(away: Future[str]) -> str:
    """Return the outcome that a worker sent. Raises WorkError if it sent none."""
    try:
        return away.result()
    except KilledWorker as error:
        problem = "all workers that tried have died"
        raise WorkerLostError(problem, "a retry may succeed") from error
    except (ImportError, AttributeError) as error:
        raise NoWorkersError(
            f"a worker lacks our code ({type(error).__name__}: {error})",
            "install the same version of collsynth on server and workers",
        ) from error
    except (CancelledError, OSError, TimeoutError) as error:
        raise NoWorkersError("the Dask cluster has disappeared") from error


# On the workers.

_MOST_STOPPED = 1000
"""How many stop requests are kept: they go to all workers, most of which never get the piece."""
_stopped_keys: dict[str, None] = {}
"""Pieces to stop, the latest last. Module state, because Dask calls functions, not methods."""
_stop_lock = threading.Lock()
_libraries = LibraryCache()
_work_lock = threading.Lock()
_next_report = 0.0
"""Time of the next report of any piece. Reports are rare: each costs as much as sending a piece."""


def stop_remotely(key: str) -> None:
    """Mark a piece as stopped. Runs on a worker."""
    with _stop_lock:
        _stopped_keys[key] = None
        while len(_stopped_keys) > _MOST_STOPPED:
            del _stopped_keys[next(iter(_stopped_keys))]


def carry_remotely(text: str) -> str:
    """Compute a piece and return its outcome as text. Runs on a worker.

    An event reports that a piece has begun, unless it ends soon: most pieces do, and an event costs
    time.
    """
    sender = _Sender.model_validate_json(text)
    if sender.edition != edition():
        return other_edition(ours=sender.edition, theirs=edition())
    order = PieceOrder.model_validate_json(text)
    worker = get_worker()

    def report(**fields: Any) -> None:
        event = WorkerReport(number=order.number, **fields).model_dump(
            mode="json", exclude_unset=True
        )
        worker.log_event(order.name, event)

    with _work_lock:
        begun = threading.Timer(PAUSE_SECONDS, report, kwargs={"begun": True})
        begun.start()
        try:
            send, threads = (lambda progress: report(progress=progress)), worker.state.nthreads
            outcome = _outcome(order, send, threads)
        finally:
            begun.cancel()
    with _stop_lock:
        _stopped_keys.pop(order.key, None)
    return outcome


def _outcome(order: PieceOrder, send: OnProgress, processes: int) -> str:
    """Compute an order's piece with at most ``processes``. Not thread-safe."""
    global _next_report
    watcher = BudgetWatcher(
        send,
        lambda: order.key in _stopped_keys,
        order.budget_seconds,
        part=order.partial,
        next_report=_next_report,
        may_use=lambda: processes,
    )
    outcome = outcome_text(order.piece, watcher, libraries=_libraries)
    _next_report = watcher.next_report
    return outcome
