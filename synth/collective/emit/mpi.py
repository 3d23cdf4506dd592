"""MPI: a self-contained file for mpi4py, with a check and a clock."""

from __future__ import annotations

from grammar.tensors.sharding import ReductionKind
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.text import python_file


def write(source: EmitSource) -> Files:
    """Returns ``collsynth_mpi_STAMP.py``. Raises CannotExpressError for groups that no mesh has."""
    op = source.schedule.op
    return python_file("mpi", source, with_op="" if op is ReductionKind.SUM else f", MPI.{op.name}")
