"""The protocol of workers: a submitted piece gets a ticket, with a future of its result."""

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
    """How far work is: ``done`` of ``of`` in a ``stage``; ``of`` is None where it is not known.

    ``best`` is JSON of the best answers so far, where there are any that were not reported before.
    """

    stage: str
    done: int
    of: int | None
    best: bytes | None = None


OnProgress = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Takes a report of progress and does nothing."""


def guard_callback(on_progress: OnProgress) -> OnProgress:
    """The same callback, but where it fails that is logged: it must not end the work."""

    def report(progress: Progress) -> None:
        try:
            on_progress(progress)
        except Exception:
            log.exception("progress could not be told")

    return report


class Ticket(Protocol):
    """A piece that was submitted."""

    @property
    def future(self) -> Future[Json]:
        """The piece's result. Its exceptions are InputError and those of ``problems``."""

    def stop(self) -> None:
        """Ask for a partial result. Returns at once; the future ends soon."""

    def kill(self) -> None:
        """End it now, without a result: the future raises KilledError."""


class Workers(Protocol):
    """Carry out pieces, in the order in which they are submitted, several at a time."""

    @property
    def slots(self) -> int:
        """How many pieces can be carried out at a time."""

    @property
    def idle(self) -> int:
        """How many more pieces would be begun at once."""

    @property
    def lost(self) -> int:
        """How many pieces have lost their worker so far: its process died, or left the cluster."""

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        on_progress: OnProgress = ignore,
    ) -> Ticket:
        """Queue a piece. Its budget counts from when it is begun, not while it waits.

        ``on_progress`` is called in a thread of the workers', a few times a second. Raises
        NoWorkersError after ``close``.
        """

    def close(self, grace_seconds: float = 5) -> None:
        """End all: drop the pieces that wait, stop those under way, kill them after the grace."""
