"""What to run where a level falls short: tests that find its slow node, rail, link or path.

Tests of ``calibrate --plan`` distinguish levels, not the parts of one. Tools for its links do
(perftest between NICs, copies from GPU to GPU, the driver's NVLink status) and so does the runtime:
NICs that pass bytes through the host's memory, or sockets in their place, are slow on a fast
network. Sources: github.com/linux-rdma/perftest; NCCL's ``net.cc``
(``via NET/IB/0/GDRDMA`` of a channel) and ``enqueue.cc`` (``Bytes -> Algo`` of a call), which RCCL
has too; ``nvidia-smi nvlink -h``; github.com/NVIDIA/nvbandwidth;
rocm.docs.amd.com/projects/TransferBench ("presets").

>>> from hierarchies import load
>>> next_steps(load("dgx-h100:2"), "gpu")
('nvidia-smi nvlink -s on a node shows links that are down, nvbandwidth what pairs of its GPUs reach',)
"""  # noqa: E501 - what is printed

from __future__ import annotations

from hierarchies import System
from synth.collective.algorithms.algorithms import innermost_network_level
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system


def next_steps(system: System, level: str) -> tuple[str, ...]:
    """Returns commands that find a level's slow part; empty if its links have no known tool."""
    by, at = runtime_of_system(system), system.hierarchy.index(level)
    medium = system.links[at].medium
    if not by.told:
        return ()
    if at <= innermost_network_level(system):
        return _next_steps_between(by, medium)
    pairs = "what pairs of its GPUs reach"
    if by is CollectiveRuntime.RCCL:
        return (f"TransferBench a2a on a node shows {pairs}",)
    if medium == "nvlink":
        return (f"nvidia-smi nvlink -s on a node shows links that are down, nvbandwidth {pairs}",)
    return (f"nvbandwidth on a node shows {pairs}",)


def _next_steps_between(by: CollectiveRuntime, medium: str) -> tuple[str, ...]:
    """Returns tests for slow nodes or NICs, and for the path and algorithm in use."""
    pairs = f"{by.value.lower()}-tests on two nodes at a time"
    if medium in ("infiniband", "roce"):
        pairs = f"ib_write_bw (perftest) between two NICs at a time, or {pairs},"
    debug_advice = (
        f"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,TUNING has {by.value} say how each channel "
        "goes ('via NET/...', with /GDRDMA where GPUDirect RDMA is on) and which algorithm ran"
    )
    return f"{pairs} shows which node or rail is slow", debug_advice
