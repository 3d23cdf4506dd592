"""One question carried out by workers: round after round of pieces, merged into its answer."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from synth.service.workers.pool import OnProgress, Progress, Ticket, Workers, ignore
from synth.service.workers.problems import WorkerLostError
from synth.verbs.answers.parts import Json
from synth.verbs.partition import Piece, rounds_of
from synth.verbs.questions.question import Question
from synth.verbs.reply import Reply

TRIES = 3
"""How often a piece is submitted at most, if each time its worker is lost."""
_PIECES_A_SLOT = 4
"""How many pieces to cut for each slot: small ones, so that no slot waits long for the last."""
log = logging.getLogger("collsynth.work")


class QuestionRun:
    """Carries a question out. ``run`` waits for the answer; other threads may stop or kill it.

    ``on_progress`` is called with the progress of the whole question, summed over its pieces.
    """

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
        pieces = workers.slots * _PIECES_A_SLOT if workers.slots > 1 else 1
        self._rounds = rounds_of(verb, question, pieces)
        self._budget_seconds = budget_seconds
        self._end: float | None = None
        self._lock = threading.RLock()
        self._stopped = self._killed = False
        self._tickets: dict[Ticket, int] = {}
        self.pieces = 0
        """How many pieces have been carried out."""

    def run(self) -> Reply:
        """The answer; a partial one if the run was stopped or its budget is spent.

        Raises InputError for a question that cannot be answered, and WorkError.
        """
        if self._budget_seconds is not None:
            self._end = clock.monotonic() + self._budget_seconds
        try:
            pieces = next(self._rounds)
            while True:
                pieces = self._rounds.send(self._carried(pieces))
        except StopIteration as stop:
            reply: Reply = stop.value
            return reply

    def stop(self) -> None:
        """Ask for a partial answer."""
        with self._lock:
            self._stopped = True
            for ticket in self._tickets:
                ticket.stop()

    def kill(self) -> None:
        """End it now: ``run`` raises KilledError."""
        with self._lock:
            self._killed = True
            for ticket in self._tickets:
                ticket.kill()

    def _carried(self, pieces: Sequence[Piece]) -> list[Json]:
        """The results of the pieces of a round.

        Only as many are submitted at a time as keep the workers busy, so that pieces of other
        questions get their turn between them.
        """
        added = _Added(pieces, self._on_progress)
        results: dict[int, Json] = {}
        tries = [TRIES] * len(pieces)
        waiting: dict[Future[Json], int] = {}
        coming = deque(range(len(pieces)))
        try:
            while waiting or coming:
                while coming and len(waiting) < max(1, self._workers.at_once):
                    number = coming.popleft()
                    waiting[self._submitted(number, pieces, added)] = number
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    number = waiting.pop(future)
                    tries[number] -= 1
                    try:
                        results[number] = future.result()
                        self.pieces += 1
                        added.ended(number)
                    except WorkerLostError as lost:
                        if not tries[number]:
                            raise
                        log.warning("a piece is handed in again: %s", lost)
                        coming.appendleft(number)
        finally:
            with self._lock:
                for ticket in self._tickets:
                    ticket.kill()
                self._tickets.clear()
        return [results[number] for number in range(len(pieces))]

    def _submitted(self, number: int, pieces: Sequence[Piece], added: _Added) -> Future[Json]:
        left = None if self._end is None else max(0.0, self._end - clock.monotonic())
        with self._lock:
            ticket = self._workers.submit(
                pieces[number],
                budget_seconds=left,
                memory_bytes=self._memory_bytes,
                on_progress=lambda progress: added.progressed(number, progress),
            )
            self._tickets[ticket] = number
            if self._stopped:
                ticket.stop()
            if self._killed:
                ticket.kill()
        return ticket.future


class _Added:
    """Sums the progress of the pieces of a round into that of the question.

    The best so far is passed on only where the question is one piece: of one piece among many it
    would be the best of one size or system, and not of the question.
    """

    def __init__(self, pieces: Sequence[Piece], on_progress: OnProgress) -> None:
        self._weights = [piece.weight for piece in pieces]
        self._done = [0] * len(pieces)
        self._on_progress = on_progress
        self._lock = threading.Lock()

    def progressed(self, number: int, progress: Progress) -> None:
        """Add the progress of a piece."""
        if len(self._weights) == 1:
            self._on_progress(progress)
            return
        with self._lock:
            if progress.of is not None:
                self._done[number] = min(progress.done, self._weights[number])
            done = sum(self._done)
        self._on_progress(Progress(progress.stage, done, sum(self._weights)))

    def ended(self, number: int) -> None:
        """Count a piece as done."""
        with self._lock:
            self._done[number] = self._weights[number]
