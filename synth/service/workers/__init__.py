"""Workers: pieces of questions carried out in other processes, here or on a cluster."""

from synth.service.workers.local import LocalWorkers
from synth.service.workers.pool import Progress, Ticket, Workers
from synth.service.workers.problems import (
    InternalError,
    KilledError,
    NoWorkersError,
    OutOfMemoryError,
    OverTimeError,
    WorkerLostError,
    WorkError,
)
from synth.service.workers.question_run import QuestionRun

__all__ = [
    "InternalError",
    "KilledError",
    "LocalWorkers",
    "NoWorkersError",
    "OutOfMemoryError",
    "OverTimeError",
    "Progress",
    "QuestionRun",
    "Ticket",
    "WorkError",
    "WorkerLostError",
    "Workers",
]
