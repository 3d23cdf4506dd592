"""The machine of each adapter of an InfiniBand subnet."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from hierarchies.errors import InputError
from hierarchies.importers.networks.infiniband import Subnet, SubnetDevice

_ADAPTER = re.compile(r"(?:mlx[0-9]+_[0-9]+|HCA-?[0-9]+|ib[a-z]*[0-9]\S*|rocep\S+|hfi1_[0-9]+)")
_UNNAMED = re.compile(r"\s*(?:MT[0-9]+\b.*|.*Mellanox Technologies.*)?")
_AGGREGATION = "Aggregation Node"


@dataclass(frozen=True)
class Machines:
    """The hosts of a subnet: the leaf switch that each cable of a host leads to.

    ``nameless`` are the leaf switches of adapters that do not name their host; ``few`` are hosts
    with at most half of the usual number of cables, taken for storage or login nodes instead of
    compute nodes.
    """

    leaves: Mapping[str, tuple[str, ...]]
    nameless: tuple[str, ...]
    few: tuple[str, ...]
    usual: int


def is_aggregation(device: SubnetDevice) -> bool:
    """Whether a device is the reducing part of a switch (SHARP) instead of a machine's adapter."""
    return not device.is_switch and _AGGREGATION in (device.description or "")


def machines_of(net: Subnet) -> Machines:
    """Hosts by the names of their adapters: ``host mlx5_0`` and ``host mlx5_1`` are one host."""
    leaves: defaultdict[str, list[str]] = defaultdict(list)
    nameless: list[str] = []
    for device in net.devices.values():
        if device.is_switch or is_aggregation(device):
            continue
        ends = [peer for peer, _ in net.cables_of[device.id] if net.devices[peer].is_switch]
        name = _host(device)
        (nameless if name is None else leaves[name]).extend(ends)
    counts = Counter(len(ends) for ends in leaves.values() if ends)
    usual = counts.most_common(1)[0][0] if counts else 1
    few = [name for name, ends in leaves.items() if 2 * len(ends) <= usual]
    for ends in leaves.values():
        if len(ends) > usual:
            nameless.extend(ends)
    kept = {n: tuple(e) for n, e in leaves.items() if usual / 2 < len(e) <= usual}
    if not kept and not nameless:
        raise InputError("no switch has adapters of hosts", hint="the file may have been cut off")
    return Machines(kept, tuple(nameless), tuple(few), usual)


def _host(device: SubnetDevice) -> str | None:
    if device.description is None:
        return device.id
    if _UNNAMED.fullmatch(device.description):
        return None
    *words, last = device.description.split()
    return " ".join(words) if words and _ADAPTER.fullmatch(last) else device.description.strip()


def nameless_hosts(machines: Machines, part_of: Mapping[str, str]) -> dict[str, int]:
    """The number of hosts that each part's nameless adapters form, with usual cables per host."""
    usual: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for leaves in machines.leaves.values():
        usual[part_of[leaves[0]]][len(leaves)] += 1
    counts = Counter(part_of[leaf] for leaf in machines.nameless)
    return {
        part: ceil(count / (usual[part].most_common(1)[0][0] if usual[part] else machines.usual))
        for part, count in counts.items()
    }
