"""PyTorch: a self-contained file with process groups, hooks, a check and a clock."""

from __future__ import annotations

from grammar import Goal
from grammar.tensors.sharding import ReductionKind
from synth.collective.emit.source import EmitSource, Files
from synth.collective.emit.text import python_file

_OWN = {
    Goal.ALL_REDUCE: ("allreduce",),
    Goal.REDUCE_SCATTER: ("_reduce_scatter_base", "reduce_scatter_single"),
    Goal.ALL_GATHER: ("_allgather_base", "all_gather_single"),
    Goal.REDUCE: ("reduce",),
    Goal.BROADCAST: ("broadcast",),
    Goal.ALL_TO_ALL: ("alltoall_base", "all_to_all_single"),
}
"""A process group's methods for a request: the name before torch 2.13, and from then on."""

_OTHERS = (
    "allgather",
    "allgather_into_tensor_coalesced",
    "allreduce_coalesced",
    "alltoall",
    "barrier",
    "gather",
    "recv",
    "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)
"""Other methods of a process group."""


def write(source: EmitSource) -> Files:
    """Returns ``collsynth_torch_STAMP.py``. Raises CannotExpressError for groups no mesh has."""
    schedule = source.schedule
    own = _OWN[schedule.goal]
    names = sorted({*_OTHERS, *(name for names in _OWN.values() for name in names)})
    sums = schedule.op is ReductionKind.SUM
    return python_file(
        "torch",
        source,
        delegated=[name for name in names if name not in own],
        with_op="" if sums else f", op=dist.ReduceOp.{schedule.op.name}",
        hooks=sums and not schedule.goal.rooted,
    )
