"""The computation of a question by a worker, and by another worker if the first is lost."""

from __future__ import annotations

import logging
import threading
import time as clock

from synth.ask.partition import REPLY, Piece
from synth.ask.questions.question import Question
from synth.ask.reply import Reply
from synth.service.workers.pool import OnProgress, Ticket, Workers, ignore
from synth.service.workers.problems import WorkerLostError

TRIES = 3
"""How often a piece is submitted while each worker is lost."""
log = logging.getLogger("collsynth.work")


class QuestionRun:
    """Computes a question. ``run`` waits for the answer; other threads may stop or kill it."""

    def __init__(
        self,
        workers: Workers,
        verb: str,
        question: Question,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> None:
        self._workers, self._memory_bytes, self._on_progress = workers, memory_bytes, on_progress
        plain = question.model_dump(mode="json", by_alias=True)
        self._piece = Piece(verb=verb, question=plain)
        self._budget_seconds = budget_seconds
        self._lock = threading.RLock()
        self._stopped = self._killed = False
        self._ticket: Ticket | None = None
        self.pieces = 0
        """How many pieces have been computed."""

    def run(self) -> Reply:
        """Return the answer, which is partial if the run was stopped or its budget is spent.

        Raises InputError if the question has no answer, and WorkError if it could not be computed.
        """
        budget = self._budget_seconds
        end = None if budget is None else clock.monotonic() + budget
        for tries_left in reversed(range(TRIES)):
            seconds_left = None if end is None else max(0.0, end - clock.monotonic())
            try:
                reply = self._wait_for(seconds_left)
            except WorkerLostError as lost:
                if not tries_left:
                    raise
                log.warning("a piece is submitted again: %s", lost)
            else:
                self.pieces += 1
                return reply
        raise AssertionError("it is tried at least once")

    def stop(self) -> None:
        """Ask for a partial answer."""
        with self._lock:
            self._stopped = True
            if self._ticket:
                self._ticket.stop()

    def kill(self) -> None:
        """End the work now: ``run`` raises KilledError."""
        with self._lock:
            self._killed = True
            if self._ticket:
                self._ticket.kill()

    def _wait_for(self, budget_seconds: float | None) -> Reply:
        """Return the result of one piece, or raise its error.

        Drops all references to the ticket, which has a copy of the question: a raised error refers
        to this frame, so a ticket in it would form a cycle and stay in memory.
        """
        ticket = self._submit(budget_seconds)
        try:
            return REPLY.validate_python(ticket.future.result())
        finally:
            self._ticket = None
            del ticket

    def _submit(self, budget_seconds: float | None) -> Ticket:
        with self._lock:
            ticket = self._ticket = self._workers.submit(
                self._piece,
                budget_seconds=budget_seconds,
                memory_bytes=self._memory_bytes,
                on_progress=self._on_progress,
            )
            if self._stopped:
                ticket.stop()
            if self._killed:
                ticket.kill()
        return ticket
