"""The watcher of a piece: tells progress, a few times a second, and keeps budget and stop."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Sequence

from synth.plan.request import Leader, Watcher
from synth.service.workers.problems import StoppedError
from synth.verbs.answers.bodies import Json
from synth.verbs.partition import best_so_far_json

PAUSE_SECONDS = 0.2
"""Between two reports."""


class Reporting(Watcher):
    """Keeps ``budget_seconds`` from now on, and ends when ``stopped`` answers True.

    Nothing is reported before ``next_report``, which each report moves on; reports go to ``send``
    as JSON. Work that cannot answer in ``part`` is broken off: raises StoppedError where it asks
    whether to go on and may not.
    """

    def __init__(
        self,
        send: Callable[[Json], None],
        stopped: Callable[[], bool],
        budget_seconds: float | None,
        *,
        part: bool,
        next_report: float = 0.0,
    ) -> None:
        self._send = send
        self._stopped = stopped
        self._end = None if budget_seconds is None else clock.monotonic() + budget_seconds
        self._part = part
        self.next_report = next_report
        self._leaders: Callable[[], Sequence[Leader]] | None = None

    def go_on(self) -> bool:
        if not self._stopped() and (self._end is None or clock.monotonic() < self._end):
            return True
        if not self._part:
            raise StoppedError
        return False

    def explored(self, states: int) -> None:
        if states % 1000 == 0 and states:
            self._report("states explored", states, None)

    def placed(self, done: int, of: int) -> None:
        self._report("placements priced", done, of)

    def judged(self, done: int, of: int) -> None:
        self._report("answers proved", done, of)

    def ranked(self, leaders: Callable[[], Sequence[Leader]]) -> None:
        self._leaders = leaders

    def _report(self, stage: str, done: int, of: int | None) -> None:
        now = clock.monotonic()
        if now >= self.next_report:
            self.next_report = now + PAUSE_SECONDS
            self._send({"stage": stage, "done": done, "of": of, **self._best()})

    def _best(self) -> Json:
        """The best so far, if they are others than were told last."""
        if self._leaders is None:
            return {}
        leaders, self._leaders = self._leaders, None
        return {"best": json.dumps(best_so_far_json(leaders()))}
