"""Workers: pieces of questions carried out in other processes, here or on a cluster."""

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
