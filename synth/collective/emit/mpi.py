"""MPI: one self-contained file for mpi4py, with a check and a clock."""

from __future__ import annotations

from grammar.tensors.sharding import Kind
from synth.collective.emit.source import Files, Source
from synth.collective.emit.text import python_file


def write(source: Source) -> Files:
    """``collsynth_mpi_STAMP.py``. Raises CannotExpressError for groups no mesh has."""
    op = source.schedule.op
    return python_file("mpi", source, with_op="" if op is Kind.SUM else f", MPI.{op.name}")
