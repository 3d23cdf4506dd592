"""Suggested numbers for values that files lack, each with its source."""

from __future__ import annotations

from collections.abc import Mapping

from hierarchies.files.loading import load
from hierarchies.importers.draft import Blank

Latencies = Mapping[str, Blank]
"""Latencies of a link by NCCL's protocols Simple, LL and LL128, as far as it supports them."""

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
