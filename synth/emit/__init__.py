"""OUT: schedules in the words of other people's runtimes and tools. Nothing here imports them."""

from synth.emit.mesh import Mesh, RankOrder
from synth.emit.source import CannotExpressError, Files, Options, Source
from synth.emit.targets import TARGETS, able_to_run, emit, target_of

__all__ = [
    "TARGETS",
    "CannotExpressError",
    "Files",
    "Mesh",
    "Options",
    "RankOrder",
    "Source",
    "able_to_run",
    "emit",
    "target_of",
]
