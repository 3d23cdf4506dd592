"""Numbers that importers suggest where a file has none, each with who says so."""

from __future__ import annotations

from hierarchies.files.loading import load
from hierarchies.importers.draft import Blank

_TUNING = (
    "NCCL's constant for every GPU, https://github.com/NVIDIA/nccl/blob/"
    "b6475625fbcaa2c3c0e50eed2fa1255d7514d4a2/src/graph/tuning.cc, 2026-11-21"
)

NETWORK_LATENCY = Blank(14.0e-6, _TUNING)
NETWORK_LL_LATENCY = Blank(2.7e-6, _TUNING, needed=False)
NETWORK_LL128_LATENCY = Blank(4.0e-6, _TUNING, needed=False)
NVLINK_LATENCY = Blank(3.4e-6, _TUNING)
NVLINK_LL_LATENCY = Blank(0.6e-6, _TUNING, needed=False)
NVLINK_LL128_LATENCY = Blank(1.9e-6, _TUNING, needed=False)
PCIE_LATENCY = Blank(5.7e-6, _TUNING)
PCIE_LL_LATENCY = Blank(1.0e-6, _TUNING, needed=False)


def amd_link_latency() -> Blank:
    """Seconds of a message over xGMI, as the catalogue has it for the MI300X."""
    return _as_in_mi300x(-1)


def amd_network_latency() -> Blank:
    """The same from node to node."""
    return _as_in_mi300x(0)


def _as_in_mi300x(level: int) -> Blank:
    link = load("mi300x").links[level]
    source = (link.sources or {}).get("latency_us", "")
    return Blank(link.latency_seconds, f"mi300x in the catalogue: {source}")
