"""A node as a file describes it, independent of the tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from hierarchies.errors import InputError
from hierarchies.importers.claims import Claim
from hierarchies.importers.draft import UNKNOWN, Blank, Entry, StatedValue
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.models import GpuModel

MOST_GPUS, MOST_NICS = 1024, 8192
"""Limits for one node; each NIC is compared with each GPU."""
MOST_CHARACTERS = 2**21
"""The limit for a tool's output of one node."""


@dataclass(frozen=True)
class Nic:
    """A network port: its bandwidth, None if unknown, and the GPUs behind its PCIe switch.

    ``default``: no PCIe device is known behind it, so its bandwidth may be a default.
    """

    name: str
    bytes_per_second: float | None = None
    near: frozenset[int] = frozenset()
    default: bool = False


@dataclass(frozen=True)
class GpuGrouping:
    """A grouping of GPUs (socket, PCIe switch): the part of each GPU, and the uplink of a part.

    ``nics_inside``: every part has NICs of its own, whose traffic does not leave it.
    """

    name: str
    parts: tuple[int, ...]
    uplink: Entry = UNKNOWN
    nics_inside: bool = True


@dataclass(frozen=True)
class NodeLinks:
    """The links of a node's GPUs, NVLinks or xGMI links; ``known``: False if the file omits them.

    ``direct`` is the number of links between two GPUs, lower number first, without pairs that have
    none. ``switched`` is the number of links from each GPU into the switches that join all GPUs;
    None without switches. ``short`` has the numbers of GPUs with fewer links into the switches.
    ``parts`` is the part of each GPU, if NVSwitches join only some of the GPUs. ``to_cpu`` is the
    number of links from each GPU to its own CPU, as in POWER machines; 0 if there are none, or if
    the numbers differ. ``rate`` is the bytes per second of one link, per direction. ``counted``:
    False if a link of ``direct`` may be several. ``bonded``: a "link" is everything that joins two
    devices, because only its bandwidth is given.
    """

    known: bool = True
    direct: Mapping[tuple[int, int], int] = field(default_factory=dict)
    switched: int | None = None
    short: Mapping[int, int] = field(default_factory=dict)
    parts: tuple[int, ...] = ()
    to_cpu: int = 0
    rate: Entry = UNKNOWN
    counted: bool = True
    bonded: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def count(self, gpus: int) -> int:
        """Return the number of all links of a node of so many GPUs."""
        into = (self.switched or 0) * (gpus - len(self.short)) + sum(self.short.values())
        return sum(self.direct.values()) + into


@dataclass(frozen=True)
class NodePicture:
    """One node. GPUs are numbered in the order of ``gpus``, which has the file's names.

    ``groups`` begins with the coarsest. ``pcie`` is the bandwidth of one GPU's own PCIe link.
    ``arch`` is the GPUs' architecture in their tools, ``90`` or ``gfx942``, if the file has it.
    ``amd``: xGMI instead of NVLink. ``reduces``: whether the switches can reduce, None if unknown.
    ``model`` is the GPU that the user names. ``claims`` has claims of the file's tables about the
    same quantities, ``warnings`` errors of the file or faults of the machine, ``notes`` other
    remarks.
    """

    source: str
    gpus: tuple[str, ...]
    links: NodeLinks
    groups: tuple[GpuGrouping, ...] = ()
    pcie: Entry = UNKNOWN
    nics: tuple[Nic, ...] = ()
    device: str = ""
    memory: Entry = UNKNOWN
    arch: str = ""
    amd: bool = False
    reduces: bool | None = None
    notes: tuple[str, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    model: GpuModel | None = None
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def link_name(self) -> str:
        if self.links.bonded:
            return "NVLink bond"
        return "xGMI link" if self.amd else "NVLink"

    def several(self, links: float) -> str:
        """``1 NVLink``, ``12 NVLinks``."""
        return f"{links:g} {self.link_name}{'' if links == 1 else 's'}"


def collect_links(
    direct: Mapping[tuple[int, int], int],
    into: Sequence[int],
    to_cpu: Sequence[int],
    names: Sequence[str],
    link_name: str,
) -> NodeLinks:
    """Return the links of GPUs, by each GPU's number of links into switches and to CPUs.

    In a machine all GPUs have the same number, so fewer links are a fault. Raises InputError,
    naming GPUs, if half of them have fewer, or if there are also ``direct`` links.
    """
    most = max(into, default=0)
    short = {gpu: count for gpu, count in enumerate(into) if count < most}
    if most and (any(direct.values()) or 2 * len(short) >= len(into)):
        reason = "besides links from GPU to GPU" if any(direct.values()) else f"by {most} links"
        others = shorten_list(f"{names[gpu]} by {count}" for gpu, count in short.items())
        raise InputError(
            f"some GPUs are attached to NVSwitches {reason}{f', but {others}' if short else ''}",
            hint="a GPU may have lost links: nvidia-smi nvlink -s shows which",
        )
    notes: tuple[str, ...] = ()
    if any(to_cpu):
        counts = " or ".join(map(str, sorted({*to_cpu})))
        where = f"{link_name}s to CPUs ({counts} a GPU)"
        notes = (f"{where} are not links between GPUs, but lead out of a socket.",)
    return NodeLinks(
        direct=direct,
        switched=most or None,
        short=short,
        to_cpu=to_cpu[0] if len({*to_cpu}) == 1 else 0,
        notes=notes,
    )


def count_parts(gpus: int, listed: int, nics: int, **links: int) -> dict[str, int]:
    """Return the counts of a picture; some of the ``listed`` interfaces are not NICs."""
    virtual = {"virtual interfaces": listed - nics} if listed > nics else {}
    return {"gpus": gpus, "nics": nics, **virtual, **links}


def check_alike(key: str, kinds: Collection[str]) -> None:
    """Refuse GPUs of several kinds. Raises InputError."""
    if len(kinds) > 1:
        raise InputError(
            f"the GPUs differ: {key} {', '.join(sorted(kinds))}",
            hint="all devices of a system are equal: remove the others from the file",
        )


def check_sizes(gpus: int, nics: int) -> None:
    """Refuse more devices than one node has. Raises InputError."""
    if gpus > MOST_GPUS:
        raise InputError(f"{gpus} GPUs in one node", hint=f"at most {MOST_GPUS} are read")
    if nics > MOST_NICS:
        raise InputError(f"{nics} network ports in one node", hint=f"at most {MOST_NICS} are read")


def check_length(text: str, source: str) -> None:
    """Raise InputError for a text that is longer than any node's output."""
    if len(text) > MOST_CHARACTERS:
        problem = f"{len(text)} characters are not the output of {source}"
        raise InputError(problem, hint=f"at most {MOST_CHARACTERS}: give only that output")


Way = tuple[Element, ...]
"""The path to a device: its socket and its PCIe switches, outermost first."""


def find_groupings(
    gpus: Sequence[Way], nics: Sequence[Way], uplink: Callable[[Element], Entry]
) -> tuple[GpuGrouping, ...]:
    """Return groupings of GPUs by sockets, then PCIe switches; paths start with the socket."""
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
    """Return the slowest PCIe link above a GPU that no other GPU uses."""
    users = Counter(id(step) for way in gpus for step in way)
    rates = set()
    for way, slot in zip(gpus, slots, strict=True):
        private = [rate(step) for step in (*way[1:], slot) if users[id(step)] <= 1]
        stated = [entry for entry in private if isinstance(entry, StatedValue)]
        rates.add(min(stated, key=lambda entry: float(entry.value)) if stated else private[-1])
    return rates.pop() if len(rates) == 1 else Blank(None, "the PCIe links of the GPUs differ")


def find_near_gpus(nic: Way, gpus: Sequence[Way]) -> frozenset[int]:
    """Return the GPUs that share a PCIe switch with the NIC."""
    switches = {id(step) for step in nic[1:]}
    return frozenset(
        gpu for gpu, way in enumerate(gpus) if any(id(step) in switches for step in way[1:])
    )
