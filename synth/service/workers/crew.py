"""What a crew is: pieces go in, tickets come out; whoever works on them is nobody's concern."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from synth.verbs.answers.parts import Json
from synth.verbs.partition import Piece


@dataclass(frozen=True)
class Progress:
    """How far the work is: ``done`` of ``of`` (None where that is not known) in a stage.

    ``best`` is JSON of the best answers so far, where there are any and they are new.
    """

    stage: str
    done: int
    of: int | None
    best: bytes | None = None


Tell = Callable[[Progress], None]


def nothing(progress: Progress) -> None:
    """Told of progress, does nothing."""


class Ticket(Protocol):
    """A piece that was handed in."""

    @property
    def future(self) -> Future[Json]:
        """What will come of it. Its exceptions are InputError and those of ``problems``."""

    def stop(self) -> None:
        """Ask for what there is. Comes back at once; the future ends soon."""

    def kill(self) -> None:
        """End it now, without an answer: the future ends as KilledError."""


class Crew(Protocol):
    """Carries out pieces, in the order in which they are handed in, several at a time."""

    @property
    def slots(self) -> int:
        """How many pieces are worked on at a time."""

    @property
    def at_once(self) -> int:
        """How many pieces of one question it wants at a time, so that no slot is idle between."""

    def submit(
        self,
        piece: Piece,
        *,
        budget_seconds: float | None = None,
        memory_bytes: int | None = None,
        tell: Tell = nothing,
    ) -> Ticket:
        """Hand a piece in. The budget counts from when it is begun, not while it waits.

        ``tell`` is called in a thread of the crew, a few times a second. Raises CrewLostError if
        the crew is closed.
        """

    def close(self, grace_seconds: float = 5) -> None:
        """End: what waits is dropped, what is under way stopped, and killed after the grace."""
