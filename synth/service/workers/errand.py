"""One question on its way through a crew: the rounds of its course, piece by piece."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from synth.service.workers.crew import Crew, Progress, Tell, Ticket, nothing
from synth.service.workers.problems import WorkerLostError
from synth.verbs.answers.parts import Json
from synth.verbs.partition import Piece, course
from synth.verbs.questions import Question
from synth.verbs.reply import Reply

TRIES = 3
"""How often a piece is handed in whose worker is lost each time."""
_PIECES_A_SLOT = 4
"""So many pieces for every slot, so that none waits long for the slowest of the others."""
log = logging.getLogger("collsynth.work")


class Errand:
    """Puts a question to a crew. ``run`` waits for the answer; the rest may come from elsewhere.

    ``tell`` hears of the whole question; with several pieces under way their progress is added up.
    """

    def __init__(
        self,
        crew: Crew,
        verb: str,
        question: Question,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        tell: Tell = nothing,
    ) -> None:
        self._crew, self._memory_bytes, self._tell = crew, memory_bytes, tell
        pieces = crew.slots * _PIECES_A_SLOT if crew.slots > 1 else 1
        self._course = course(verb, question, pieces)
        self._budget_seconds = budget_seconds
        self._end: float | None = None
        self._lock = threading.RLock()
        self._stopped = self._killed = False
        self._tickets: dict[Ticket, int] = {}

    def run(self) -> Reply:
        """The answer, in part if it was stopped or its budget is spent.

        Raises InputError for a question that cannot be answered, and WorkError.
        """
        if self._budget_seconds is not None:
            self._end = clock.monotonic() + self._budget_seconds
        try:
            pieces = next(self._course)
            while True:
                pieces = self._course.send(self._carried(pieces))
        except StopIteration as stop:
            reply: Reply = stop.value
            return reply

    def stop(self) -> None:
        """Ask for what there is."""
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
        """What comes of each piece of a round.

        Never are more of them with the crew than keep it at work: so the questions of others get
        their turn between them.
        """
        added = _Added(pieces, self._tell)
        results: dict[int, Json] = {}
        tries = [TRIES] * len(pieces)
        waiting: dict[Future[Json], int] = {}
        coming = deque(range(len(pieces)))
        try:
            while waiting or coming:
                while coming and len(waiting) < max(1, self._crew.at_once):
                    number = coming.popleft()
                    waiting[self._handed_in(number, pieces, added)] = number
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    number = waiting.pop(future)
                    tries[number] -= 1
                    try:
                        results[number] = future.result()
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

    def _handed_in(self, number: int, pieces: Sequence[Piece], added: _Added) -> Future[Json]:
        left = None if self._end is None else max(0.0, self._end - clock.monotonic())
        with self._lock:
            ticket = self._crew.submit(
                pieces[number],
                budget_seconds=left,
                memory_bytes=self._memory_bytes,
                tell=lambda progress: added.told(number, progress),
            )
            self._tickets[ticket] = number
            if self._stopped:
                ticket.stop()
            if self._killed:
                ticket.kill()
        return ticket.future


class _Added:
    """The progress of the pieces of a round as one.

    Only of a question that is one piece the best so far are told: of others they would be those of
    one size or system among many.
    """

    def __init__(self, pieces: Sequence[Piece], tell: Tell) -> None:
        self._weights = [piece.weight for piece in pieces]
        self._done = [0] * len(pieces)
        self._tell = tell
        self._lock = threading.Lock()

    def told(self, number: int, progress: Progress) -> None:
        """A piece has come so far."""
        if len(self._weights) == 1:
            self._tell(progress)
            return
        with self._lock:
            if progress.of is not None:
                self._done[number] = min(progress.done, self._weights[number])
            done = sum(self._done)
        self._tell(Progress(progress.stage, done, sum(self._weights)))

    def ended(self, number: int) -> None:
        """A piece is done."""
        with self._lock:
            self._done[number] = self._weights[number]
