"""The computation of a question by workers, and by another worker if one is lost.

A question is one worker's piece, except for a sweep of plans on a cluster: that is many questions,
and is divided into pieces of several questions each. Their rows are put together in the order of
the values, so the answer has the same bytes as by one process. On one machine a sweep is one piece,
whose questions use idle slots by forks: dividing it there took longer (results/speedup).
"""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from functools import partial
from math import prod

from synth.ask.partition import REPLY, Piece
from synth.ask.questions.question import Question
from synth.ask.reply import Reply
from synth.ask.training.swept import SweptValues, divide_sweep, join_sweeps
from synth.service.workers.pool import OnProgress, Progress, Ticket, Workers, ignore
from synth.service.workers.problems import OverTimeError, WorkerLostError

TRIES = 3
"""How often a piece is submitted while each worker is lost."""
PIECES_PER_WORKER = 4
"""Into how many pieces a sweep is divided for each worker: the last ones end at different times."""
_LOOK_SECONDS = 0.5
"""How often to see whether another worker is idle."""
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
        self._sweep: SweptValues = getattr(question, "sweep", {})
        slots = workers.slots if workers.divides_sweeps else 1
        parts = divide_sweep(self._sweep, PIECES_PER_WORKER * slots if slots > 1 else 1)
        questions = (
            [question.model_copy(update={"sweep": part}) for part in parts]
            if len(parts) > 1
            else [question]
        )
        self._pieces = [
            Piece(verb=verb, question=part.model_dump(mode="json", by_alias=True))
            for part in questions
        ]
        self._sizes = [prod(map(len, part.values())) for part in parts]
        self._done = [0] * len(parts)
        self._budget_seconds = budget_seconds
        self._lock = threading.RLock()
        self._stopped = self._killed = False
        self._tickets: dict[int, Ticket] = {}
        self.pieces = 0
        """How many pieces have been computed."""

    def run(self) -> Reply:
        """Return the answer, which is partial if the run was stopped or its budget is spent.

        Raises InputError if the question has no answer, and WorkError if it could not be computed.
        """
        budget = self._budget_seconds
        end = None if budget is None else clock.monotonic() + budget
        waiting, losses = deque(range(len(self._pieces))), Counter[int]()
        replies: dict[int, Reply] = {}
        try:
            while self._tickets or self._may_begin(waiting, replies, end):
                while self._may_begin(waiting, replies, end) and self._has_room():
                    self._submit(waiting.popleft(), end)
                for number in self._ended():
                    try:
                        replies[number] = self._take(number)
                    except WorkerLostError as lost:
                        losses[number] += 1
                        if losses[number] == TRIES:
                            raise
                        log.warning("a piece is submitted again: %s", lost)
                        waiting.appendleft(number)
                    except OverTimeError:
                        if not replies:
                            raise
        finally:
            self._drop_tickets()
        if len(self._pieces) == 1:
            return replies[0]
        return join_sweeps(self._sweep, replies.values())

    def stop(self) -> None:
        """Ask for a partial answer."""
        with self._lock:
            self._stopped = True
            for ticket in [*self._tickets.values()]:
                ticket.stop()

    def kill(self) -> None:
        """End the work now: ``run`` raises KilledError."""
        with self._lock:
            self._killed = True
            for ticket in [*self._tickets.values()]:
                ticket.kill()

    def _may_begin(
        self, waiting: deque[int], replies: Mapping[int, Reply], end: float | None
    ) -> bool:
        """Whether another piece may be submitted; one always is, as an answer needs a row."""
        if not waiting:
            return False
        over = self._stopped or (end is not None and clock.monotonic() >= end)
        return not over or not (replies or self._tickets)

    def _has_room(self) -> bool:
        """Whether a worker is idle: a sweep leaves those of other jobs alone, but for its first."""
        return not self._tickets or self._workers.idle > 0

    def _submit(self, number: int, end: float | None) -> None:
        with self._lock:
            ticket = self._tickets[number] = self._workers.submit(
                self._pieces[number],
                budget_seconds=None if end is None else max(0.0, end - clock.monotonic()),
                memory_bytes=self._memory_bytes,
                on_progress=self._on_progress
                if len(self._pieces) == 1
                else partial(self._add_progress, number),
            )
            if self._stopped:
                ticket.stop()
            if self._killed:
                ticket.kill()

    def _ended(self) -> list[int]:
        """Wait for a piece to end, or to see whether another worker is idle; return the ended."""
        futures = {ticket.future: number for number, ticket in self._tickets.items()}
        alone = len(self._pieces) == 1
        done, _ = wait(futures, None if alone else _LOOK_SECONDS, FIRST_COMPLETED)
        return sorted(futures[future] for future in done)

    def _take(self, number: int) -> Reply:
        """Return the result of an ended piece, or raise its error.

        Drops all references to the ticket, which has a copy of the question: a raised error refers
        to this frame, so a ticket in it would form a cycle and stay in memory.
        """
        with self._lock:  # ``stop`` and ``kill`` go through the tickets in threads of their own
            ticket = self._tickets.pop(number)
        try:
            reply = REPLY.validate_python(ticket.future.result())
        finally:
            del ticket
        self.pieces += 1
        if len(self._pieces) > 1:
            self._add_progress(number, Progress("", self._sizes[number], None))
        return reply

    def _add_progress(self, number: int, progress: Progress) -> None:
        """Report the combinations answered in all pieces: each reports its own."""
        with self._lock:
            self._done[number] = progress.done
            done = sum(self._done)
        self._on_progress(Progress("questions answered", done, sum(self._sizes)))

    def _drop_tickets(self) -> None:
        """End what is left after an error."""
        with self._lock:
            for ticket in self._tickets.values():
                with suppress(Exception):
                    ticket.kill()
            self._tickets.clear()
