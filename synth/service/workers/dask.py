"""Workers of a Dask cluster: the same pieces, carried out wherever the scheduler finds room.

Text travels and functions of ours by their names; nothing else. A piece whose worker is lost is
given to another one by Dask. Progress comes back as events of the worker. One piece at a time is
carried out by a worker process, as z3 is not safe among threads: start workers with one thread.
"""

from __future__ import annotations

import json
import logging
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker, get_worker

from synth.service.workers.crew import Progress, Tell, nothing
from synth.service.workers.problems import (
    CrewLostError,
    KilledError,
    OverTimeError,
    WorkerLostError,
    guarded,
    opened,
)
from synth.service.workers.reporting import PAUSE_SECONDS, Reporting
from synth.verbs.answers.parts import Json
from synth.verbs.identity.edition import edition
from synth.verbs.partition import Piece, Shelf

_LOOK_SECONDS = 0.5
"""How often it is looked for pieces that are late."""
_COUNTED_SECONDS = 1.0
"""How long it is taken that there are as many workers as there were: the scheduler is asked."""
_RETRIES = 2
"""How often Dask hands a piece to another worker whose code fails, as where it is not installed."""
log = logging.getLogger("collsynth.work")


class DaskCrew:
    """The workers of the cluster whose scheduler has this address, as in ``tcp://host:8786``.

    A piece that is stopped, or over its budget, has ``grace_seconds`` to come to an end by itself;
    then nobody waits for it any more. Processes of the cluster are not ours to kill: such work ends
    where it next asks whether to go on. Memory is limited by the workers' own ``--memory-limit``.
    Raises CrewLostError where no scheduler answers.
    """

    def __init__(
        self, address: str, grace_seconds: float = 10, connect_seconds: float = 10
    ) -> None:
        try:
            self._client = Client(
                address, timeout=connect_seconds, set_as_default=False, name="collsynth"
            )
        except (OSError, ValueError) as error:
            raise CrewLostError(
                f"no Dask scheduler answers at {address}", "start one with 'dask scheduler'"
            ) from error
        self._address = address
        self._grace_seconds = grace_seconds
        self._name = f"collsynth-{uuid4().hex}"
        self._numbers = count(1)
        self._tickets: dict[int, DaskTicket] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._workers, self._counted_until = 1, 0.0
        self._executor = self._client.get_executor(pure=False, retries=_RETRIES)
        self._words = ThreadPoolExecutor(1, "collsynth-words")
        self._client.subscribe_topic(self._name, self._heard)
        self._watch = threading.Thread(target=self._look, name="collsynth-watch", daemon=True)
        self._watch.start()

    @property
    def slots(self) -> int:
        """How many workers there are at the moment; 1 where that is not known."""
        now = clock.monotonic()
        if now >= self._counted_until:
            with suppress(OSError, RuntimeError, TimeoutError):
                self._workers = max(1, len(self._client.nthreads()))
            self._counted_until = now + _COUNTED_SECONDS
        return self._workers

    @property
    def at_once(self) -> int:
        """One on its way to every worker while it works on another."""
        return 2 * self.slots

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        tell: Tell = nothing,
    ) -> DaskTicket:
        if self._closed.is_set() or self._client.status not in ("running", "connecting"):
            raise CrewLostError(f"the Dask cluster at {self._address} is gone")
        ticket = DaskTicket(self, next(self._numbers), tell)
        ticket.late_seconds = (
            inf if budget_seconds is None else budget_seconds + self._grace_seconds
        )
        order = {
            "name": self._name,
            "number": ticket.number,
            "piece": piece.text,
            "partial": piece.partial,
            "budget_seconds": budget_seconds,
            "edition": edition(),
        }
        with self._lock:
            self._tickets[ticket.number] = ticket
        try:
            ticket.away = self._executor.submit(carry_remotely, json.dumps(order))
        except Exception as error:
            self.forget(ticket)
            raise CrewLostError(f"the Dask cluster at {self._address} takes no work") from error
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
            ticket.fail(CrewLostError("the cluster was left while it was under way"))
        self._watch.join()
        self._words.shutdown()
        self._client.close()

    def forget(self, ticket: DaskTicket) -> None:
        """It is at its end."""
        with self._lock:
            self._tickets.pop(ticket.number, None)

    def say_stop(self, ticket: DaskTicket) -> None:
        """Tell all workers; one of them has the piece, or will have it."""
        ticket.late_by = min(ticket.late_by, clock.monotonic() + self._grace_seconds)
        with suppress(RuntimeError):
            self._words.submit(self._run, stop_remotely, f"{self._name} {ticket.number}")

    def _run(self, function: Any, word: str) -> None:
        try:
            self._client.run(function, word, on_error="ignore")
        except Exception:
            log.exception("the cluster cannot be told to stop a piece")

    def _heard(self, event: Any) -> None:
        """An event of a worker: a piece is begun there, or has come so far."""
        said: Json = event[1]
        with self._lock:
            ticket = self._tickets.get(said["number"])
        if ticket is None:
            return
        if "progress" in said:
            ticket.told(said["progress"])
        else:
            ticket.late_by = min(ticket.late_by, clock.monotonic() + ticket.late_seconds)

    def _look(self) -> None:
        """Give up on pieces that are late, until the crew is closed."""
        while not self._closed.wait(_LOOK_SECONDS):
            now = clock.monotonic()
            with self._lock:
                late = [ticket for ticket in self._tickets.values() if now >= ticket.late_by]
            for ticket in late:
                ticket.fail(OverTimeError("the time was up, and there was no answer in time"))


class DaskTicket:
    """A piece that was sent to the cluster."""

    def __init__(self, crew: DaskCrew, number: int, tell: Tell) -> None:
        self.number = number
        self.future: Future[Json] = Future()
        self.future.set_running_or_notify_cancel()
        self.away: Future[str] = Future()
        self.late_seconds = self.late_by = inf
        self._crew = crew
        self._tell = tell
        self._lock = threading.RLock()

    def stop(self) -> None:
        self._crew.say_stop(self)

    def kill(self) -> None:
        self.fail(KilledError("ended as was asked"))

    def fail(self, error: Exception) -> None:
        """End here what may go on there, until it asks whether to."""
        with self._lock:
            if self.future.done():
                return
            self.future.set_exception(error)
        self._crew.say_stop(self)
        self._crew.forget(self)
        self.away.cancel()

    def returned(self, away: Future[str]) -> None:
        """It has come to an end there."""
        with self._lock:
            if self.future.done():
                return
            try:
                self.future.set_result(opened(_text_of(away)))
            except Exception as error:
                self.future.set_exception(error)
        self._crew.forget(self)

    def told(self, said: Json) -> None:
        """Progress that came, passed on; who listens must not end the work by failing."""
        best = said.get("best")
        try:
            self._tell(Progress(said["stage"], said["done"], said["of"], best and best.encode()))
        except Exception:
            log.exception("progress could not be told")


def _text_of(away: Future[str]) -> str:
    """What a worker answered. Raises WorkError for what kept it from answering."""
    try:
        return away.result()
    except KilledWorker as error:
        problem = "all workers that tried have died"
        raise WorkerLostError(problem, "another try may well succeed") from error
    except (ImportError, AttributeError) as error:
        raise CrewLostError(
            f"a worker lacks our code ({type(error).__name__}: {error})",
            "install the same version of collsynth on server and workers",
        ) from error
    except (CancelledError, OSError, TimeoutError) as error:
        raise CrewLostError("the Dask cluster has gone") from error


# On the workers.

_stopped: set[str] = set()
"""Pieces that are to come to an end. What the workers are told has no other place to be."""
_shelf = Shelf()
_one_at_a_time = threading.Lock()
_next_report = 0.0
"""When the next report is due, of whichever piece: one costs about as much as a piece's way."""


def stop_remotely(word: str) -> None:
    """Remember, on a worker, that a piece is to be stopped."""
    _stopped.add(word)


def carry_remotely(text: str) -> str:
    """Carry a piece out, on a worker, and say what came of it, as text.

    That it is begun is said of a piece that takes longer than a moment.
    """
    order = json.loads(text)
    if order["edition"] != edition():
        told = {"kind": "other edition", "ours": order["edition"], "theirs": edition()}
        return json.dumps(told)
    worker, name, number = get_worker(), order["name"], order["number"]

    def say(what: Json) -> None:
        worker.log_event(name, {"number": number, **what})

    with _one_at_a_time:
        begun = threading.Timer(PAUSE_SECONDS, say, ({"begun": True},))
        begun.start()
        try:
            told_text = _guarded(order, say)
        finally:
            begun.cancel()
    _stopped.discard(f"{name} {number}")
    return told_text


def _guarded(order: Json, say: Callable[[Json], None]) -> str:
    """What comes of the piece of an order, under way in no other thread."""
    global _next_report
    watcher = Reporting(
        lambda progress: say({"progress": progress}),
        lambda: f"{order['name']} {order['number']}" in _stopped,
        order["budget_seconds"],
        part=order["partial"],
        next_report=_next_report,
    )
    told_text = guarded(order["piece"], watcher, shelf=_shelf)
    _next_report = watcher.next_report
    return told_text
