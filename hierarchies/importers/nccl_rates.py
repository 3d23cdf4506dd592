"""Bandwidths of links from the constants of NCCL's and RCCL's topology models."""

from __future__ import annotations

from collections.abc import Mapping

from hierarchies.files.loading import load
from hierarchies.importers.draft import Blank, Entry, StatedValue

_BY_SM = ((100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0), (70, 20.0), (60, 18.0), (0, 20.0))
_BY_GCN = (("gfx95", 48.0), ("gfx94", 48.0), ("94", 48.0), ("gfx90a", 36.0), ("910", 36.0))
_VEGA = 24.0
# By GT/s, in 100 Mb/s of a lane: those of NCCL's kvDictPciGen.
_GIGATRANSFERS = {"2.5": 15, "5": 30, "5.0": 30, "8": 60, "8.0": 60, "16": 120, "16.0": 120}
_GIGATRANSFERS |= {"32": 240, "32.0": 240, "64": 480, "64.0": 480}
_INTEL = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0))
_AMD, _POWER, _ARM = 16.0, 32.0, 6.0


def nvlink_rate(sm: int) -> StatedValue:
    """Return bytes per second of one NVLink of a GPU of compute capability ``sm`` (80 is 8.0)."""
    rate = next(rate for lowest, rate in _BY_SM if sm >= lowest)
    return StatedValue(
        rate * 1e9, f"NCCL's table for sm {sm}, {rate:g} GB/s a link (src/graph/topo.h)"
    )


def xgmi_rate(gcn: str) -> StatedValue:
    """Return bytes per second of one xGMI link, by RCCL's architecture (``gfx942``, ``908``)."""
    rate = next((rate for start, rate in _BY_GCN if gcn.startswith(start)), _VEGA)
    return StatedValue(
        rate * 1e9, f"RCCL's table for gcn {gcn}, {rate:g} GB/s a link (src/graph/topo.h)"
    )


def pcie_rate(link_speed: str, link_width: int) -> Entry:
    """Return bytes per second of a PCIe link, computed as in NCCL from the kernel's description."""
    words = link_speed.split()
    per_lane = _GIGATRANSFERS.get(words[0]) if words else None
    if per_lane is None:
        return Blank(None, "the file does not state the speed of PCIe")
    width = link_width or 16
    rate = width * per_lane / 80
    text = f"NCCL's {rate:g} GB/s for PCIe of {words[0]} GT/s and {width} lanes"
    return StatedValue(rate * 1e9, f"{text} (src/graph/topo.cc)")


def socket_link_rate(arch: str, vendor: str, family: int, model: int) -> Blank:
    """NCCL's bandwidth of the link between two sockets, as a blank: no file states it."""
    rate = {"ppc64": _POWER, "arm64": _ARM}.get(arch)
    if vendor == "AuthenticAMD":
        rate = _AMD
    if vendor == "GenuineIntel" and family == 6:
        rate = next(rate for lowest, rate in _INTEL if model >= lowest)
    if rate is None:
        return Blank(None, "the file does not state the bandwidth between sockets")
    return Blank(
        rate * 1e9, f"NCCL's {rate:g} GB/s between CPUs of {vendor or arch} (src/graph/topo.h)"
    )


Latencies = Mapping[str, Blank]
"""Latencies of a link by NCCL's protocols Simple, LL and LL128, if it supports them."""

_TUNING = (
    "NCCL's constant for every GPU, https://github.com/NVIDIA/nccl/blob/"
    "b6475625fbcaa2c3c0e50eed2fa1255d7514d4a2/src/graph/tuning.cc, 2026-11-21"
)


def _nccl_latencies(**microseconds: float) -> Latencies:
    return {
        key: Blank(number * 1e-6, _TUNING, needed=key == "latency_us")
        for key, number in microseconds.items()
    }


NETWORK = _nccl_latencies(latency_us=14.0, ll_latency_us=2.7, ll128_latency_us=4.0)
NVLINK = _nccl_latencies(latency_us=3.4, ll_latency_us=0.6, ll128_latency_us=1.9)
PCIE = _nccl_latencies(latency_us=5.7, ll_latency_us=1.0)
PCIE_OF_AMD = _nccl_latencies(latency_us=5.7)


def suggest_mi300x_latencies(level: int) -> Latencies:
    """Latencies of a level of the catalogue's MI300X: -1 for xGMI links, 0 for the network."""
    link = load("mi300x").links[level]
    source = f"mi300x in the catalogue: {link.source('latency_us')}"
    return {"latency_us": Blank(link.latency_seconds, source)}
