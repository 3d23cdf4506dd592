"""Parses ibnetdiscover's output, and the net files of ibsim, which have the same format."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from hierarchies.errors import InputError
from hierarchies.importers.structured import BEGINNING, check_lines

_HEADER = re.compile(r'(Switch|Ca|Hca|Rt)\s+([0-9]{1,3})\s+"([^"]{1,100})"\s*(?:#\s*"([^"]*)")?')
_PORT = re.compile(
    r"\[([0-9]{1,3})\](?:\[ext [0-9]{1,3}\])?(?:\([0-9a-fA-F]{1,16}\))?"
    r'\s*"([^"]{1,100})"\s*\[([0-9]{1,3})\](.*)'
)
_RATE = re.compile(r"\b([0-9]{1,2})x([A-Z]{2,4}[0-9]{0,2})\b")
_MOST_LINES = 1_000_000
_QUOTED = re.compile(r'"([^"]*)"')
_FACT = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid|module|[a-z]+guid)\s*=")

# Gb/s of data per lane and direction, after line coding (8b/10b up to QDR, then 64b/66b).
_LANE_GIGABITS = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 14.0625 * 64 / 66,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}

Port = tuple[str, int]


@dataclass(frozen=True)
class Speed:
    """The speed of a cable: as the file spells it, and in bits per second per direction."""

    spelled: str
    bits_per_second: float

    def __str__(self) -> str:
        return f"{self.spelled} = {self.bits_per_second / 1e9:g} Gb/s"


@dataclass(frozen=True)
class SubnetDevice:
    """A switch, or an adapter (a NIC, a router, the aggregation node inside a switch)."""

    id: str
    is_switch: bool
    description: str | None


@dataclass(frozen=True)
class Cable:
    """A cable between two ports; ``speed`` is None if the file has none."""

    ends: tuple[Port, Port]
    speed: Speed | None


@dataclass(frozen=True)
class Subnet:
    """All devices by their ids, and all cables, each once."""

    devices: Mapping[str, SubnetDevice]
    cables: tuple[Cable, ...]

    @cached_property
    def cables_of(self) -> Mapping[str, tuple[tuple[str, Cable], ...]]:
        """For each device, the device at the other end of each of its cables, and the cable."""
        cables_of: dict[str, list[tuple[str, Cable]]] = {id: [] for id in self.devices}
        for cable in self.cables:
            (first, _), (second, _) = cable.ends
            cables_of[first].append((second, cable))
            cables_of[second].append((first, cable))
        return {id: tuple(ends) for id, ends in cables_of.items()}

    @cached_property
    def trunks(self) -> tuple[tuple[str, str, Cable], ...]:
        """Cables between two switches, with both ends. Cached, as it is needed once per tier."""
        ends = ((cable.ends[0][0], cable.ends[1][0], cable) for cable in self.cables)
        switches = {id for id, device in self.devices.items() if device.is_switch}
        return tuple(trunk for trunk in ends if switches.issuperset(trunk[:2]))


def parse_subnet(text: str) -> Subnet:
    """Return the devices and cables of a subnet.

    A cable is listed in the blocks of both its ends, or of one end; adapters may have no block.
    Raises InputError, naming the line, for invalid lines, for ports with two cables, and for a
    switch that others name but that has no block, because the file was truncated.
    """
    devices, peers, cables = _read(text)
    _add_peers(devices, peers)
    return Subnet(devices, tuple(dict.fromkeys(cables.values())))


def check_beginning(text: str) -> None:
    """Raise InputError for a text whose first lines are not of a subnet."""
    check_lines(text, _MOST_LINES)
    _read(text[:BEGINNING].rpartition("\n")[0] or text[:BEGINNING])


def _read(
    text: str,
) -> tuple[dict[str, SubnetDevice], dict[str, tuple[int, str | None]], dict[Port, Cable]]:
    """Return devices with blocks; each peer's first line and description; cables by both ends."""
    devices: dict[str, SubnetDevice] = {}
    peers: dict[str, tuple[int, str | None]] = {}
    cables: dict[Port, Cable] = {}
    current: str | None = None
    check_lines(text, _MOST_LINES)
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#") or _FACT.match(line):
            continue
        try:
            if match := _HEADER.match(line):
                current = _begin_device(match, devices)
            elif match := _PORT.match(line):
                if current is None:
                    raise InputError("a port before any switch or adapter")
                _connect(current, match, cables)
                peers.setdefault(match[2], (number, _description(match[4])))
            else:
                raise InputError(
                    f"{line[:60]!r} is not a line of ibnetdiscover",
                    hint='blocks begin with Switch or Ca, then ports: [1] "H-..."[1] # ... 4xNDR',
                )
        except InputError as error:
            raise error.at(f"line {number}") from None
    return devices, peers, cables


def _begin_device(match: re.Match[str], devices: dict[str, SubnetDevice]) -> str:
    id = match[3]
    if id in devices:
        raise InputError(f"{id!r} is given twice")
    devices[id] = SubnetDevice(id, match[1] == "Switch", match[4])
    return id


def _connect(current: str, match: re.Match[str], cables: dict[Port, Cable]) -> None:
    own_port, peer_port = (current, int(match[1])), (match[2], int(match[3]))
    first, second = sorted((own_port, peer_port))
    cable = Cable((first, second), _speed(match[4]))
    for end in (first, second):
        known = cables.setdefault(end, cable)
        if known.ends != cable.ends:
            raise InputError(f"port {end[1]} of {end[0]!r} has two cables")
        if known.speed and cable.speed and known.speed != cable.speed:
            raise InputError(
                f"the cable at port {end[1]} of {end[0]!r} is {known.speed.spelled} at one end "
                f"and {cable.speed.spelled} at the other"
            )


def _speed(rest: str) -> Speed | None:
    matches = _RATE.findall(_QUOTED.sub("", rest))
    if not matches:
        return None
    lanes, rate = matches[-1]
    if rate not in _LANE_GIGABITS:
        raise InputError(
            f"the speed {lanes}x{rate} is not known", hint=f"known are {', '.join(_LANE_GIGABITS)}"
        )
    return Speed(f"{lanes}x{rate}", int(lanes) * _LANE_GIGABITS[rate] * 1e9)


def _description(rest: str) -> str | None:
    match = _QUOTED.search(rest)
    return match[1] if match else None


def _add_peers(
    devices: dict[str, SubnetDevice], peers: Mapping[str, tuple[int, str | None]]
) -> None:
    """Add adapters that have no block, and appear only in the blocks of switches."""
    for id, (number, description) in peers.items():
        if id in devices:
            continue
        if id.startswith("S-"):
            raise InputError(
                f"no block for the switch {id!r}",
                where=f"line {number}",
                hint="the file may have been cut off",
            )
        devices[id] = SubnetDevice(id, False, description)


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
    """Return hosts by their adapters' names: ``host mlx5_0`` and ``host mlx5_1`` are one host."""
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
    """Return the hosts that each part's nameless adapters form, with the usual cables per host."""
    usual: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for leaves in machines.leaves.values():
        usual[part_of[leaves[0]]][len(leaves)] += 1
    counts = Counter(part_of[leaf] for leaf in machines.nameless)
    return {
        part: ceil(count / (usual[part].most_common(1)[0][0] if usual[part] else machines.usual))
        for part, count in counts.items()
    }
