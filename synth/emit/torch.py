"""PyTorch: one self-contained file with process groups, hooks, a check and a clock."""

from __future__ import annotations

from synth.emit.source import Files, Source
from synth.emit.text import python_file

_DELEGATED = (
    "allgather",
    "allgather_into_tensor_coalesced",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
    "_allgather_base",
    "_reduce_scatter_base",
)
"""What a process group can be asked for beside the all-reduce."""


def write(source: Source) -> Files:
    """``collsynth_torch.py``. Raises CannotExpressError for groups no mesh has."""
    return python_file("torch", source, delegated=_DELEGATED)
