"""The network of a system as commands for ``ip`` and ``tc``: nothing is run here.

Every host is a network namespace, and one more holds all bridges: one bridge for every group of
children that a switch joins. A cable is a veth, shaped at both ends by htb, so in both directions.
On the cable of a whole subtree every host below has a class of its own with an equal share, told
apart by source on the way up and by destination on the way down. Classes have next to no rate of
their own and borrow in turns what the whole cable has, byte for byte: it is shared max-min fair by
hosts, whatever TCP does. (With equal shares of their own all classes may begin with a packet at
once, each paid for later: up to 16 KB more a phase for every host.) Pure acknowledgements go first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hierarchies import Domain, InputError, System

PREFIX = "collsynth-"
FABRIC = f"{PREFIX}fabric"
MOST_RATE_BITS_PER_SECOND = 3.2e9
"""All hosts' ports together: beyond it two cores are what is measured, not the network."""
_FRAME_BYTES = 1600
_BURST_SECONDS = 0.00032
_QUEUE_BYTES = 4_000_000
_QUANTUM_BYTES = 6000
_OWN_RATE = "8kbit"
_MTU_BYTES = 1500

GSO_BYTES = 16384
_ACKNOWLEDGEMENTS = (
    "18,40 0 0 12,21 0 15 2048,48 0 0 23,21 0 13 6,177 0 0 14,80 0 0 27,84 0 0 7,21 0 9 0,"
    "80 0 0 26,84 0 0 240,116 0 0 2,12 0 0 0,7 0 0 0,40 0 0 16,28 0 0 0,21 0 1 0,"
    "6 0 0 4294967295,6 0 0 0"
)
"""Classic BPF: IPv4, TCP, no payload, none of FIN, SYN, RST. (Matching by size re-orders data.)"""

KERNEL = {
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_wmem": "4096 65536 1000000",
    "net/ipv4/tcp_rmem": "4096 131072 6291456",
    "net/ipv6/conf/all/disable_ipv6": "1",
}
"""What every host's namespace is told, by the path under /proc/sys."""

Path = tuple[int, ...]
"""The digits of a child, outermost first; all of a host's digits name a host."""


@dataclass(frozen=True)
class Cable:
    """A veth between a child and the switch above it, shaped at both ends."""

    child: Path
    bits_per_second: float
    hosts: tuple[int, ...]


@dataclass(frozen=True)
class Wiring:
    """What a system becomes. Raises InputError for one that is no tree of switches."""

    system: System

    def __post_init__(self) -> None:
        for level, link in enumerate(self.system.links):
            inner = tuple(range(level + 1, len(self.system.links)))
            plain = link.domain is Domain.SWITCH and link.ports == 1 and not link.reduces
            if not plain or tuple(sorted(self.system.through(level))) != inner:
                raise InputError(
                    f"level {self.system.hierarchy.names[level]!r} cannot be built of bridges",
                    hint="a switch with one port a child, whose traffic goes through all inner "
                    "levels",
                )
        if self.rate_bits_per_second > MOST_RATE_BITS_PER_SECOND:
            raise InputError(
                f"the ports of {self.system.devices} hosts carry "
                f"{self.rate_bits_per_second / 1e9:.3g} Gbit/s together",
                hint=f"at most {MOST_RATE_BITS_PER_SECOND / 1e9:.3g}, or processors are measured",
            )

    @property
    def rate_bits_per_second(self) -> float:
        """What the ports of all hosts carry together."""
        return 8 * self.system.devices * self.system.port_bytes_per_second(-1)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The namespaces of the hosts, by device."""
        return tuple(f"{PREFIX}host{device}" for device in range(self.system.devices))

    def address(self, device: int) -> str:
        """The address of a host, for at most 51,200 of them."""
        return f"10.77.{device // 200}.{device % 200 + 1}"

    def cables(self) -> Iterator[Cable]:
        """Every cable, the outermost levels first."""
        hierarchy = self.system.hierarchy
        for level in range(len(hierarchy.levels)):
            inside = hierarchy.devices_in_child(level)
            rate = 8 * self.system.port_bytes_per_second(level)
            paths = product(*(range(count) for count in hierarchy.cardinalities[: level + 1]))
            for number, path in enumerate(paths):
                hosts = range(number * inside, (number + 1) * inside)
                yield Cable(path, rate, tuple(hosts))

    def end_above(self, cable: Cable) -> str:
        """The end of a cable in the fabric that sends down it."""
        return _below(cable.child)

    def namespaces(self) -> list[str]:
        """The commands of ``ip -batch`` that make all namespaces."""
        return [f"netns add {name}" for name in (FABRIC, *self.hosts)]

    def fabric(self) -> list[str]:
        """The commands of ``ip -batch`` inside the fabric's namespace."""
        depth = len(self.system.links)
        said = ["link set lo up", *_bridge(())]
        for cable in self.cables():
            if len(cable.child) == depth:
                peer = f"eth0 netns {self.hosts[cable.hosts[0]]}"
                said.append(f"link add name {_below(cable.child)} type veth peer name {peer}")
            else:
                said += _bridge(cable.child)
                above, below = _above(cable.child), _below(cable.child)
                said.append(f"link add name {below} type veth peer name {above}")
                said.append(f"link set {above} mtu {_MTU_BYTES} master {_name(cable.child)} up")
            master = _name(cable.child[:-1])
            said.append(f"link set {_below(cable.child)} mtu {_MTU_BYTES} master {master} up")
        return said

    def shaping(self) -> list[str]:
        """The commands of ``tc -batch`` inside the fabric's namespace."""
        depth = len(self.system.links)
        said = []
        for cable in self.cables():
            if len(cable.child) == depth:
                said += _shaped(_below(cable.child), cable.bits_per_second, {})
                continue
            for device, way in ((_above(cable.child), "src"), (_below(cable.child), "dst")):
                matches = {host: f"{way} {self.address(host)}/32" for host in cable.hosts}
                said += _shaped(device, cable.bits_per_second, matches)
        return said

    def host(self, device: int) -> tuple[list[str], list[str]]:
        """The commands of ``ip -batch`` and of ``tc -batch`` inside a host's namespace."""
        rate = 8 * self.system.port_bytes_per_second(-1)
        port = f"link set eth0 mtu {_MTU_BYTES} gso_max_size {GSO_BYTES} up"
        address = f"addr add {self.address(device)}/16 dev eth0"
        return ["link set lo up", port, address], _shaped("eth0", rate, {})


def _name(path: Path) -> str:
    """The bridge that joins the children of a path."""
    return "bridge" + ".".join(map(str, path))


def _above(path: Path) -> str:
    """The end of a child's cable that is on its own bridge, and sends up."""
    return "u" + ".".join(map(str, path))


def _below(path: Path) -> str:
    """The end of a child's cable that is on the bridge above, and sends down."""
    return "d" + ".".join(map(str, path))


def _bridge(path: Path) -> list[str]:
    name = _name(path)
    return [f"link add name {name} type bridge stp_state 0 forward_delay 0", f"link set {name} up"]


def _shaped(device: str, bits_per_second: float, matches: dict[int, str]) -> list[str]:
    """htb at one end of a cable; ``matches`` tell the classes of an end that has several.

    A tenth of the rate is the acknowledgements' for sure.
    """
    whole = f"{bits_per_second:.0f}bit"
    rows = list(matches.values()) or [""]
    burst = max(_FRAME_BYTES, round(_BURST_SECONDS * bits_per_second / 8))
    add, wide = f"dev {device} parent", f"burst {burst} cburst {burst}"
    first = f"htb rate {bits_per_second / 10:.0f}bit ceil {whole} {wide} prio 0 quantum 3000"
    said = [
        f"qdisc add dev {device} root handle 1: htb default 10",
        f"class add {add} 1: classid 1:1 htb rate {whole} ceil {whole} {wide} quantum 60000",
        f"class add {add} 1:1 classid 1:2 {first}",
        f"qdisc add {add} 1:2 handle 2: bfifo limit 200000",
        f'filter add {add} 1: protocol ip prio 1 bpf bytecode "{_ACKNOWLEDGEMENTS}" flowid 1:2',
    ]
    each = f"htb rate {_OWN_RATE} ceil {whole} burst {_FRAME_BYTES} cburst {burst} prio 1"
    for number, match in enumerate(rows, start=16):
        what = f"ip {match}" if match else "u32 0 0"
        said += [
            f"class add {add} 1:1 classid 1:{number:x} {each} quantum {_QUANTUM_BYTES}",
            f"qdisc add {add} 1:{number:x} handle {number:x}: bfifo limit {_QUEUE_BYTES}",
            f"filter add {add} 1: protocol ip prio 2 u32 match {what} flowid 1:{number:x}",
        ]
    return said
