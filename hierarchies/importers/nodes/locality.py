"""GPUs that share sockets and PCIe switches, from their paths in a tree of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from hierarchies.importers.draft import Blank, Entry, StatedValue
from hierarchies.importers.nodes.picture import GpuGrouping

Way = tuple[Element, ...]
"""The path to a device: its socket and its PCIe switches, outermost first."""


def find_groupings(
    gpus: Sequence[Way], nics: Sequence[Way], uplink: Callable[[Element], Entry]
) -> tuple[GpuGrouping, ...]:
    """The groupings of GPUs by sockets, then PCIe switches; every path starts with the socket."""
    inside = {id(step) for way in nics for step in way}
    kept: list[GpuGrouping] = []
    for depth in range(max(len(way) for way in gpus)):
        above = [way[min(depth, len(way) - 1)] for way in gpus]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(map(id, above)))}
        parts = tuple(numbers[id(step)] for step in above)
        if not kept or kept[-1].parts != parts:
            name = "socket" if depth == 0 else f"bridge{depth}"
            kept.append(
                GpuGrouping(name, parts, uplink(above[0]), all(k in inside for k in numbers))
            )
    return tuple(kept)


def slowest_private_link(
    gpus: Sequence[Way], slots: Sequence[Element], rate: Callable[[Element], Entry]
) -> Entry:
    """The slowest PCIe link above a GPU that no other GPU uses."""
    users = Counter(id(step) for way in gpus for step in way)
    rates = set()
    for way, slot in zip(gpus, slots, strict=True):
        private = [rate(step) for step in (*way[1:], slot) if users[id(step)] <= 1]
        stated = [entry for entry in private if isinstance(entry, StatedValue)]
        rates.add(min(stated, key=lambda entry: float(entry.value)) if stated else private[-1])
    return rates.pop() if len(rates) == 1 else Blank(None, "the PCIe links of the GPUs differ")


def find_near_gpus(nic: Way, gpus: Sequence[Way]) -> frozenset[int]:
    """The GPUs that share a PCIe switch with the NIC."""
    switches = {id(step) for step in nic[1:]}
    return frozenset(
        gpu for gpu, way in enumerate(gpus) if any(id(step) in switches for step in way[1:])
    )
