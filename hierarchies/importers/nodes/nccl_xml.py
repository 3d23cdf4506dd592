"""Reads topologies that NCCL or RCCL dumps as XML, and those that vendors ship."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from hierarchies.errors import InputError
from hierarchies.importers import markup, nccl_rates
from hierarchies.importers.draft import UNKNOWN, Entry
from hierarchies.importers.markup import parse_whole_attribute, parse_xml, walk
from hierarchies.importers.models import memory_of
from hierarchies.importers.nodes.interfaces import Interface, choose_nics
from hierarchies.importers.nodes.picture import (
    Nic,
    NodeLinks,
    NodePicture,
    check_alike,
    check_sizes,
    collect_links,
    count_parts,
    find_groupings,
    find_near_gpus,
    slowest_private_link,
)

MOST_LINKS_OF_ONE = 1000
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_NIC_CLASSES = ("0x0200", "0x0207")
_SWITCH_LINK, _CPU_LINK = "0x068000", "0x068001"
_MEGABIT = 1e6 / 8


@dataclass(frozen=True)
class _XmlDevice:
    """An element, and those that contain it, from its CPU on."""

    element: Element
    path: tuple[Element, ...]

    @property
    def slot(self) -> Element:
        """The PCIe device of a GPU or a network port."""
        return next((e for e in reversed(self.path) if e.tag == "pci"), self.element)

    @property
    def bridges(self) -> tuple[Element, ...]:
        """The CPU and the PCIe switches above the device, outermost first."""
        return tuple(e for e in self.path if e.tag in ("cpu", "pci") and e is not self.slot)


@dataclass(frozen=True)
class _Parts:
    """GPUs and ports; ``partial``: the file has only their PCIe devices."""

    gpus: Sequence[_XmlDevice]
    nics: Sequence[_XmlDevice]
    partial: bool


def check_beginning(text: str) -> None:
    """Raise InputError for a text that does not begin as XML of <system>."""
    markup.check_beginning(text, "system")


def read(text: str) -> NodePicture:
    """Return the node that a text describes. Raises InputError for other texts."""
    root = parse_xml(text)
    _check_root(root)
    return _picture(root)


def _check_root(root: Element) -> None:
    if root.tag == "graphs":
        raise InputError(
            "this is NCCL's graph (its rings and trees), not the topology",
            hint="set NCCL_TOPO_DUMP_FILE, not NCCL_GRAPH_DUMP_FILE",
        )
    if root.tag != "system":
        raise InputError(
            f"<{root.tag[:40]}> is not an NCCL topology",
            hint="an NCCL topology starts with <system>",
        )
    if root.find("cpu") is None:
        raise InputError(
            "no <cpu> in <system>: neither NCCL nor RCCL writes such a file",
            hint="set NCCL_TOPO_DUMP_FILE in a run, and import the file it writes",
        )


def _parts(root: Element) -> _Parts:
    devices = [_XmlDevice(element, path) for element, path in walk(root)]
    ports = [device for device in devices if device.element.tag == "net"]
    if gpus := [device for device in devices if device.element.tag == "gpu"]:
        return _Parts(gpus, ports, False)
    slots = [_XmlDevice(d.element, (*d.path, d.element)) for d in devices if d.element.tag == "pci"]
    kinds = [slot.element.get("class", "")[:6] for slot in slots]
    gpus = [slot for slot, kind in zip(slots, kinds, strict=True) if kind in _GPU_CLASSES]
    nics = [slot for slot, kind in zip(slots, kinds, strict=True) if kind in _NIC_CLASSES]
    return _Parts(gpus, [*ports, *(nic for nic in nics if not len(nic.element))], True)


def _picture(root: Element) -> NodePicture:
    parts = _parts(root)
    if not parts.gpus:
        raise InputError("no <gpu>, and no PCIe device that is a GPU")
    check_sizes(len(parts.gpus), len(parts.nics))
    names = tuple(gpu.slot.get("busid", "").lower() for gpu in parts.gpus)
    if "" in names or len(set(names)) < len(names):
        raise InputError("two GPUs without their own busid")
    for name, gpu in zip(names, parts.gpus, strict=True):
        if (*gpu.path, gpu.element)[0].tag != "cpu":
            hint = "the file is damaged: dump it again"
            raise InputError(f"GPU {name} is outside of every <cpu>", hint=hint)
    amd = any(gpu.element.find("xgmi") is not None or gpu.element.get("gcn") for gpu in parts.gpus)
    nics = choose_nics(
        [Interface(_name(nic), _pci_id(nic.slot), _is_physical(nic)) for nic in parts.nics]
    )
    notes = nics.notes
    links, device, arch = NodeLinks(known=False), "", ""
    if parts.partial:
        notes = (*notes, "The file lists only PCIe devices and no links of GPUs.")
    else:
        device, arch, rate = _device(parts.gpus, bool(amd))
        links = replace(_links(parts.gpus, names), rate=rate)
        notes = (*notes, *links.notes)
    hosts = {e.get("host_hash") for e in root.findall("cpu")}
    if len(hosts) > 1:
        notes = (*notes, f"The file shows {len(hosts)} hosts in one NVLink domain.")
    ways = [gpu.bridges for gpu in parts.gpus]
    ports = [nic.bridges for nic in parts.nics if _is_physical(nic)]
    labels = names
    if not parts.partial:
        labels = tuple(f"GPU {gpu.element.get('dev', '?')[:20]}" for gpu in parts.gpus)
    counted = {("xgmi" if amd else "nvlinks"): links.count(len(names))}
    return NodePicture(
        "RCCL's topology XML" if amd else "NCCL's topology XML",
        labels,
        links,
        find_groupings(ways, ports, _uplink),
        slowest_private_link(ways, [gpu.slot for gpu in parts.gpus], _speed),
        _nics(parts, nics.kept),
        device or _pci_name(parts.gpus[0].slot),
        memory_of(_pci_name(parts.gpus[0].slot)),
        arch=arch,
        amd=bool(amd),
        reduces=_sm(parts.gpus[0].element) >= 90 if parts.gpus[0].element.get("sm") else None,
        notes=notes,
        counted=count_parts(len(names), len(parts.nics), len(nics.kept), **counted),
    )


def _sm(gpu: Element) -> int:
    return parse_whole_attribute(gpu, "sm", 100_000, "gpu") if gpu.get("sm") else 0


def _device(gpus: Sequence[_XmlDevice], amd: bool) -> tuple[str, str, Entry]:
    """Return the GPUs' name, architecture, and bandwidth per link.

    Raises InputError if they differ.
    """
    key = "gcn" if amd else "sm"
    kinds = {gpu.element.get(key, "")[:20] for gpu in gpus}
    check_alike(key, kinds)
    name = _pci_name(gpus[0].slot)
    kind = kinds.pop()
    if not kind:
        return name, "", UNKNOWN
    rate = nccl_rates.xgmi_rate(kind) if amd else nccl_rates.nvlink_rate(_sm(gpus[0].element))
    return f"{key} {kind}{', ' if name else ''}{name}", kind, rate


def _pci_name(slot: Element) -> str:
    return f"PCI {_pci_id(slot)}" if _pci_id(slot) else ""


def _pci_id(slot: Element) -> str:
    vendor, device = slot.get("vendor", ""), slot.get("device", "")
    return f"{vendor[2:8]}:{device[2:8]}".lower() if vendor and device else ""


def _links(gpus: Sequence[_XmlDevice], names: tuple[str, ...]) -> NodeLinks:
    index_of = {name: index for index, name in enumerate(names)}
    direct: dict[tuple[int, int], int] = {}
    into, to_cpu = [0] * len(gpus), [0] * len(gpus)
    notes = set()
    for index, gpu in enumerate(gpus):
        for link in (*gpu.element.iterfind("nvlink"), *gpu.element.iterfind("xgmi")):
            count = parse_whole_attribute(link, "count", MOST_LINKS_OF_ONE, f"GPU {names[index]}")
            target, kind = link.get("target", "").lower(), link.get("tclass", "").lower()
            if kind.startswith(_SWITCH_LINK) and not _is_power(gpu):
                into[index] += count
            elif target == names[index]:
                notes.add("Links of a GPU to itself are left out.")
            elif target in index_of:
                pair = index, index_of[target]
                direct[pair] = direct.get(pair, 0) + count
            elif kind.startswith((_SWITCH_LINK, _CPU_LINK)):
                to_cpu[index] += count
            else:
                notes.add("Links to GPUs that are not in the file are left out.")
        if gpu.element.find("c2c") is not None:
            notes.add("C2C links to CPUs are left out.")
    links = collect_links(_check_both_ways(direct, names), into, to_cpu, names, "NVLink")
    return replace(links, notes=(*sorted(notes), *links.notes))


def _is_power(gpu: _XmlDevice) -> bool:
    """Whether a GPU is attached to a POWER CPU: its NVLinks into bridges lead to the CPU."""
    return gpu.path[0].get("arch", "").startswith("ppc")


def _check_both_ways(
    direct: dict[tuple[int, int], int], names: tuple[str, ...]
) -> dict[tuple[int, int], int]:
    for (first, second), count in direct.items():
        back = direct.get((second, first), 0)
        if back != count:
            raise InputError(
                f"{count} links from GPU {names[first]} to {names[second]}, {back} in "
                "the other direction",
                hint="the file is damaged: dump it again",
            )
    return {pair: count for pair, count in direct.items() if pair[0] < pair[1] and count}


def _nics(parts: _Parts, kept: Sequence[int]) -> tuple[Nic, ...]:
    """Return the NICs among the interfaces, by their positions."""
    ways = [gpu.bridges for gpu in parts.gpus]
    nics = []
    for nic in (parts.nics[place] for place in kept):
        speed = nic.element.get("speed")
        rate = None
        if nic.element.tag == "net" and speed is not None:
            rate = parse_whole_attribute(nic.element, "speed", 10**12, "net") * _MEGABIT or None
        beside = find_near_gpus(nic.bridges, ways)
        nics.append(Nic(_name(nic)[:100], rate, beside, default=not _is_physical(nic)))
    return tuple(nics)


def _name(nic: _XmlDevice) -> str:
    return nic.element.get("name") or nic.element.get("busid") or "a NIC"


def _is_physical(nic: _XmlDevice) -> bool:
    return any(element.tag == "pci" for element in nic.path)


def _uplink(bridge: Element) -> Entry:
    if bridge.tag == "cpu":
        family, model = (_number(bridge.get(key)) for key in ("familyid", "modelid"))
        arch = bridge.get("arch", "")
        return nccl_rates.socket_link_rate(arch, bridge.get("vendor", ""), family, model)
    return _speed(bridge)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 0


def _speed(slot: Element) -> Entry:
    return nccl_rates.pcie_rate(slot.get("link_speed", ""), _number(slot.get("link_width")))
