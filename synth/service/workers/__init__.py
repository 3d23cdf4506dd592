"""Workers: pieces of questions carried out in other processes, here or on a cluster.

A piece travels as text and comes back as text: its result, or what went wrong, as a process may be
killed for its memory or end between two bytes. Not a ``ProcessPoolExecutor``: one whose process is
killed while it writes a long result waits for the rest for ever.

>>> from synth.plan.request import Watcher
>>> from synth.service.workers.problems import guarded, opened
>>> from synth.verbs.partition import Piece, WholeQuestion
>>> task = WholeQuestion(verb="count", question={"digits": 1, "max_steps": 2})
>>> piece = Piece(task)
>>> opened(guarded(piece.text, Watcher()))["body"]["by_length"]
[1, 2]
"""

from synth.service.workers.crew import Crew, Progress, Ticket
from synth.service.workers.errand import Errand
from synth.service.workers.local import LocalCrew
from synth.service.workers.problems import (
    CrewLostError,
    InternalError,
    KilledError,
    OutOfMemoryError,
    OverTimeError,
    WorkerLostError,
    WorkError,
)

__all__ = [
    "Crew",
    "CrewLostError",
    "Errand",
    "InternalError",
    "KilledError",
    "LocalCrew",
    "OutOfMemoryError",
    "OverTimeError",
    "Progress",
    "Ticket",
    "WorkError",
    "WorkerLostError",
]
