"""The protocol of workers: submitting a piece returns a ticket with a future of its result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from synth.ask.answers.parts import Json
from synth.ask.partition import Piece

log = logging.getLogger("collsynth.work")


@dataclass(frozen=True)
class Progress:
    """The progress of work: ``done`` of ``of`` in a ``stage``; ``of`` is None if unknown.

    ``best`` is JSON of the best answers so far, if they have changed since the last report.
    """

    stage: str
    done: int
    of: int | None
    best: bytes | None = None


OnProgress = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Ignore a report of progress."""


def guard_callback(on_progress: OnProgress) -> OnProgress:
    """Wrap a callback so that its errors are logged and do not end the work."""

    def report(progress: Progress) -> None:
        try:
            on_progress(progress)
        except Exception:
            log.exception("progress could not be reported")

    return report


class Ticket(Protocol):
    """A piece that was submitted."""

    @property
    def future(self) -> Future[Json]:
        """The piece's result. Its exceptions are InputError and those of ``problems``."""

    def stop(self) -> None:
        """Ask for a partial result. Returns at once; the future ends soon."""

    def kill(self) -> None:
        """End the piece now, without a result: the future raises KilledError."""


class Workers(Protocol):
    """Compute pieces in the order of submission, several at a time."""

    @property
    def slots(self) -> int:
        """How many pieces can run at a time."""

    @property
    def idle(self) -> int:
        """How many more pieces would start immediately."""

    @property
    def divides_sweeps(self) -> bool:
        """Whether a sweep gains by pieces for several workers: not if one may use idle slots."""

    @property
    def lost(self) -> int:
        """How many pieces have lost their worker: its process died or left the cluster."""

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> Ticket:
        """Queue a piece. Its budget counts from its start, not while it waits.

        ``on_progress`` is called a few times a second in a thread of the workers. Raises
        NoWorkersError after ``close``.
        """

    def close(self, grace_seconds: float = 5) -> None:
        """Drop waiting pieces, stop running ones, and kill them after the grace period."""
