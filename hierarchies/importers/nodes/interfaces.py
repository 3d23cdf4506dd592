"""Chooses the network interfaces of a node that are ports of NICs, not created by software.

Bridges, bonds, tunnels and the ends of containers' cables are listed with real ports, often with
speeds that a kernel invents (10 Gb/s for a veth). A job's traffic leaves by ports. Virtual
functions (SR-IOV) are shares of a port: if their port is listed, they do not count. In a virtual
machine, which sees no port, they are its NICs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hierarchies.importers.hostlist import shorten_list

_MADE_UP = re.compile(
    r"(br-|br\d|bridge|veth|virbr|vnet|docker|podman|lo$|lo\d|tap|tun|cni|flannel|cali|cilium|lxc"
    r"|vxlan|geneve|gre|wg\d|dummy|macv|ipvlan|vlan|ovs|kube|nodelocaldns|rxe|siw|weave|zt)"
)
"""Kernel and container networks by their usual names; rxe and siw are RDMA in software."""
_TAGGED = re.compile(r"[^\s:]+\.[0-9]{1,4}")
"""A VLAN on top of an interface: ``eth0.100``."""
_BOND = re.compile(r"(bond|team)[0-9]")
_PARAVIRTUAL = frozenset({"1af4:1000", "1af4:1041", "15ad:07b0", "5853:0001", "1414:0001"})
"""Network devices that hypervisors emulate: virtio, VMXNET3, Xen, Hyper-V."""
_FUNCTIONS_OF = {
    "15b3": ("1002", "1004", "1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3"),
    "8086": ("10ca", "10ed", "1515", "1520", "154c", "1565", "15a8", "15c5", "1889", "37cd"),
    "14e4": ("16c1", "16cb", "16d3", "16dc", "16e1", "16e5", "1806", "1807", "1808", "1809"),
}
"""Virtual functions by vendor, from Linux's drivers (mlx4, mlx5, ixgbevf, iavf, bnxt)."""


class InterfaceOrigin(Enum):
    """The origin of an interface, as the reason to leave it out of the NICs.

    The first present one in this order is taken as NICs.
    """

    PORT = ""
    FUNCTION = "virtual functions of listed ports"
    UNKNOWN = "no PCIe device belongs to them"
    PARAVIRTUAL = "a hypervisor emulates them"
    BOND = "they are bonds of others"
    SOFTWARE = "software emulates them"


@dataclass(frozen=True)
class Interface:
    """An interface by its name and, if a PCIe device is behind it, that device's ``vendor:device``.

    ``pci`` is empty if that device is unknown; ``on_pci`` says whether there is one.
    """

    name: str
    pci: str = ""
    on_pci: bool = True

    @property
    def made(self) -> InterfaceOrigin:
        if _BOND.match(self.name):
            return InterfaceOrigin.BOND
        if _MADE_UP.match(self.name) or _TAGGED.fullmatch(self.name):
            return InterfaceOrigin.SOFTWARE
        if not self.on_pci:
            return InterfaceOrigin.UNKNOWN
        if self.pci in _PARAVIRTUAL:
            return InterfaceOrigin.PARAVIRTUAL
        vendor, _, device = self.pci.partition(":")
        return (
            InterfaceOrigin.FUNCTION
            if device in _FUNCTIONS_OF.get(vendor, ())
            else InterfaceOrigin.PORT
        )


@dataclass(frozen=True)
class NicSelection:
    """The positions of the interfaces that are NICs, and notes on the others."""

    kept: tuple[int, ...]
    notes: tuple[str, ...]


def choose_nics(interfaces: Sequence[Interface]) -> NicSelection:
    """Choose ports, and virtual functions of other vendors' ports; else the best origin present.

    Interfaces made by software are never chosen. Notes name the others.
    """
    present = {interface.made for interface in interfaces}
    best = next((origin for origin in InterfaceOrigin if origin in present), None)
    vendors = {each.pci[:4] for each in interfaces if each.made is InterfaceOrigin.PORT}
    kept, others = [], []
    for place, interface in enumerate(interfaces):
        origin = interface.made
        function = origin is InterfaceOrigin.FUNCTION and interface.pci[:4] not in vendors
        if origin is not InterfaceOrigin.SOFTWARE and (origin is best or function):
            kept.append(place)
        else:
            others.append(interface)
    return NicSelection(tuple(kept), _notes(others))


def _notes(others: Sequence[Interface]) -> tuple[str, ...]:
    return tuple(
        f"Left out of the NICs, as {origin.value}: {shorten_list(names)}."
        for origin in InterfaceOrigin
        if (names := [interface.name[:40] for interface in others if interface.made is origin])
    )
