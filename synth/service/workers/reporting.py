"""The watcher of a piece: reports progress a few times a second and ends work that must stop."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Sequence

from synth.ask.partition import best_so_far_json
from synth.collective.ranking.request import ProvisionalResult, Watcher
from synth.service.workers.pool import OnProgress, Progress
from synth.service.workers.problems import StoppedError

PAUSE_SECONDS = 0.2
"""The shortest time between two reports."""


class BudgetWatcher(Watcher):
    """Ends work after ``budget_seconds`` from now, or when ``stopped()`` is True.

    ``may_use`` returns how many processes may work at the moment, including this one. Work with
    partial answers (``part``) ends with the answer so far. Other work is aborted: ``go_on`` raises
    StoppedError. Reports are at least PAUSE_SECONDS apart: none is sent before ``next_report``,
    which each report advances.
    """

    def __init__(
        self,
        send: OnProgress,
        stopped: Callable[[], bool],
        budget_seconds: float | None,
        *,
        part: bool,
        next_report: float = 0.0,
        may_use: Callable[[], int] = lambda: 1,
    ) -> None:
        self._send = send
        self._stopped = stopped
        self._end = None if budget_seconds is None else clock.monotonic() + budget_seconds
        self._part = part
        self._may_use = may_use
        self.next_report = next_report
        self._ranked: Callable[[], Sequence[ProvisionalResult]] | None = None

    @property
    def processes(self) -> int:
        return self._may_use()

    def go_on(self) -> bool:
        if not self._stopped() and (self._end is None or clock.monotonic() < self._end):
            return True
        if not self._part:
            raise StoppedError
        return False

    def explored(self, states: int) -> None:
        if states % 1000 == 0 and states:  # the search may report every state
            self._report("states explored", states, None)

    def placed(self, done: int, of: int) -> None:
        self._report("placements priced", done, of)

    def judged(self, done: int, of: int) -> None:
        self._report("answers proved", done, of)

    def ranked(self, best: Callable[[], Sequence[ProvisionalResult]]) -> None:
        self._ranked = best

    def _report(self, stage: str, done: int, of: int | None) -> None:
        now = clock.monotonic()
        if now >= self.next_report:
            self.next_report = now + PAUSE_SECONDS
            self._send(Progress(stage, done, of, self._best()))

    def _best(self) -> bytes | None:
        """Return the best answers so far, if they have changed since the last report."""
        if self._ranked is None:
            return None
        best, self._ranked = self._ranked, None
        return json.dumps(best_so_far_json(best())).encode()
