"""MPI: one self-contained mpi4py file; every collective of the language exists there."""

from __future__ import annotations

from synth.emit.source import Files, Source
from synth.emit.text import rendered


def write(source: Source) -> Files:
    """``collsynth_mpi.py``. Raises CannotExpressError for groups no mesh has."""
    return {"collsynth_mpi.py": rendered("mpi.py.jinja", source)}
