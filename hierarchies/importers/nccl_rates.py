"""Bandwidths of links by the constants of NCCL's and RCCL's topology models."""

from __future__ import annotations

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
    """Bytes per second of one NVLink of a GPU of compute capability ``sm`` (80 is 8.0)."""
    rate = next(rate for lowest, rate in _BY_SM if sm >= lowest)
    return StatedValue(
        rate * 1e9, f"NCCL's table for sm {sm}, {rate:g} GB/s a link (src/graph/topo.h)"
    )


def xgmi_rate(gcn: str) -> StatedValue:
    """Bytes per second of one xGMI link, by RCCL's architecture (``gfx942``, ``908``)."""
    rate = next((rate for start, rate in _BY_GCN if gcn.startswith(start)), _VEGA)
    return StatedValue(
        rate * 1e9, f"RCCL's table for gcn {gcn}, {rate:g} GB/s a link (src/graph/topo.h)"
    )


def pcie_rate(link_speed: str, link_width: int) -> Entry:
    """Bytes per second of a PCIe link, computed as in NCCL from the kernel's description."""
    words = link_speed.split()
    per_lane = _GIGATRANSFERS.get(words[0]) if words else None
    if per_lane is None:
        return Blank(None, "the file does not say how fast PCIe is")
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
        return Blank(None, "the file does not say what goes from socket to socket")
    return Blank(
        rate * 1e9, f"NCCL's {rate:g} GB/s between CPUs of {vendor or arch} (src/graph/topo.h)"
    )
