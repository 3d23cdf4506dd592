"""Reads hwloc's XML (``lstopo --of xml``): the places of GPUs and NICs, and NVLinks if present."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import gcd
from xml.etree.ElementTree import Element

from hierarchies.errors import InputError
from hierarchies.importers import markup
from hierarchies.importers.draft import Blank, Entry, StatedValue
from hierarchies.importers.markup import parse_whole_attribute, parse_xml, walk
from hierarchies.importers.nodes.interfaces import Interface, choose_nics
from hierarchies.importers.nodes.islands import parts_of
from hierarchies.importers.nodes.picture import (
    Nic,
    NodeLinks,
    NodePicture,
    Way,
    check_alike,
    check_sizes,
    collect_links,
    count_parts,
    find_groupings,
    find_near_gpus,
    slowest_private_link,
)

SOURCE = "hwloc's XML"
MOST_OBJECTS = 4096
MOST_MEGABYTES = 10**9
_GPU_CLASSES = ("0302", "0380", "1200")
_DISPLAY = "0300"
_COMPUTE = re.compile(r"(cuda|nvml|rsmi|opencl|ze)[0-9]")
_NIC_CLASSES = ("02", "0c06")
_PACKAGES = ("Package:", "Socket:")
_AMD = "[1002:"
_RATE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class _PciDevice:
    """A PCI device, with the objects that contain it."""

    element: Element
    path: tuple[Element, ...]

    @property
    def kind(self) -> str:
        return self.element.get("pci_type", "")

    @property
    def way(self) -> Way:
        """The package (or the outermost object), then the bridges above the device."""
        packages = [e for e in self.path if e.get("type") in ("Package", "Socket")]
        bridges = [e for e in self.path if e.get("type") == "Bridge"]
        return (packages[-1] if packages else self.path[0], *bridges)

    def names(self) -> list[str]:
        """Return the operating system's names of the device: ``eth0``, ``mlx5_0``."""
        inside = (e for e in self.element.iter("object") if e.get("type") == "OSDev")
        return [e.get("name", "") for e in inside]


def check_beginning(text: str) -> None:
    """Raise InputError for a text that does not begin as XML of <topology>."""
    markup.check_beginning(text, "topology")


def read(text: str) -> NodePicture:
    """Return the node that a text describes. Raises InputError for other texts."""
    root = parse_xml(text)
    if root.tag != "topology" or root.find("object") is None:
        raise InputError("not hwloc's XML", hint="lstopo --of xml writes it")
    return _picture(root)


def _is_gpu(device: _PciDevice) -> bool:
    if device.kind.startswith(_GPU_CLASSES):
        return True
    names = device.names()
    return device.kind.startswith(_DISPLAY) and any(_COMPUTE.match(name) for name in names)


def _picture(root: Element) -> NodePicture:
    devices = [_PciDevice(e, path) for e, path in walk(root) if path and e.get("type") == "PCIDev"]
    gpus = [device for device in devices if _is_gpu(device)]
    if not gpus:
        problem = f"{len(devices)} PCI devices, but no GPU" if devices else "no PCI devices"
        raise InputError(
            f"hwloc saw {problem}", hint="run lstopo --whole-io --of xml on the GPU node"
        )
    listed = [d for d in devices if d.kind.startswith(_NIC_CLASSES) and d.names()]
    check_sizes(len(gpus), len(listed))
    check_alike("PCI", {gpu.kind[5:16] for gpu in gpus})
    selection = choose_nics([Interface(nic.names()[-1], nic.kind[6:15]) for nic in listed])
    real = [listed[place] for place in selection.kept]
    nics, notes = _nics(real, gpus)
    links = _links(root, gpus)
    ways = [gpu.way for gpu in gpus]
    return NodePicture(
        SOURCE,
        tuple(_name(gpu) for gpu in gpus),
        links,
        find_groupings(ways, [nic.way for nic in listed], _rate),
        slowest_private_link(ways, [gpu.element for gpu in gpus], _rate),
        nics,
        _model(gpus[0]),
        amd=_AMD in gpus[0].kind,
        notes=(*selection.notes, *notes, *links.notes),
        counted=count_parts(len(gpus), len(listed), len(real), connections=links.count(len(gpus))),
        warnings=links.warnings,
    )


def _name(gpu: _PciDevice) -> str:
    return gpu.element.get("pci_busid", "?")[:20]


def _model(gpu: _PciDevice) -> str:
    models = (e.get("value", "") for e in gpu.element.iter("info") if e.get("name") == "GPUModel")
    return next(models, "")[:80] or f"PCI {gpu.kind[6:15]}"


def _nics(
    nics: list[_PciDevice], gpus: list[_PciDevice]
) -> tuple[tuple[Nic, ...], tuple[str, ...]]:
    """Return the NICs with a device for verbs (``mlx5_0``), else all NICs; hwloc gives no speed."""
    fabrics = [nic for nic in nics if any(_is_fabric(e) for e in nic.element.iter("object"))]
    kept = fabrics or nics
    notes: tuple[str, ...] = ()
    if len(kept) < len(nics):
        others = ", ".join(nic.names()[0] for nic in nics if nic not in kept)
        notes = (f"Left out of level 'node', as they have no verbs: {others}.",)
    ways = [gpu.way for gpu in gpus]
    return tuple(
        Nic(nic.names()[-1][:100], None, find_near_gpus(nic.way, ways)) for nic in kept
    ), notes


def _is_fabric(element: Element) -> bool:
    name = element.get("name", "")
    return element.get("type") == "OSDev" and name.startswith(
        ("mlx", "hfi", "qib", "efa", "bnxt_re")
    )


def _rate(element: Element) -> Entry:
    """Return the bandwidth of a PCIe bridge or device; hwloc writes gigabytes per second."""
    text = element.get("pci_link_speed", "")
    if element.get("type") in ("Package", "Socket") or not _RATE.fullmatch(text) or not float(text):
        return Blank(None, f"{SOURCE} does not say it")
    source = f"{SOURCE}: {float(text):g} GB/s at {element.get('pci_busid', 'a bridge')[:20]}"
    return StatedValue(float(text) * 1e9, source)


def _links(root: Element, gpus: list[_PciDevice]) -> NodeLinks:
    """Return NVLinks, which hwloc sees only if it was built with NVML."""
    if _AMD in gpus[0].kind:
        note = "hwloc's XML has no xGMI links."
        return NodeLinks(False, bonded=True, notes=(note,))
    matrices = [e for e in root if e.get("name") == "NVLinkBandwidth"]
    if not matrices:
        note = "No NVLinks in the file: hwloc needs NVML to see them."
        return NodeLinks(False, bonded=True, notes=(note,))
    gpu_by_index = _places(gpus)
    objects = _words(matrices[0], "indexes")
    rates = _numbers(_words(matrices[0], "u64values"))
    if len(objects) > MOST_OBJECTS or len(rates) != len(objects) ** 2:
        raise InputError(f"NVLinkBandwidth has {len(rates)} values for {len(objects)} objects")
    index = [gpu_by_index.get(name.rpartition(":")[2]) for name in objects]
    packages = {number for number, name in enumerate(objects) if name.startswith(_PACKAGES)}
    listed = [number for number in index if number is not None]
    if len({*listed}) < len(listed):
        raise InputError("NVLinkBandwidth lists a GPU twice")
    if listed and len(listed) < len(gpus):
        absent = next(gpu for number, gpu in enumerate(gpus) if number not in listed)
        note = (
            f"NVLinkBandwidth lists {len(listed)} of {len(gpus)} GPUs, not "
            f"{_name(absent)}: the links "
            "between GPUs are left open."
        )
        return NodeLinks(False, bonded=True, warnings=(note,))
    return _links_of_matrix(index, packages, rates, len(gpus))


def _links_of_matrix(
    index: list[int | None], packages: Collection[int], rates: list[int], gpus: int
) -> NodeLinks:
    """Return the links of a matrix of GPUs (by number), CPUs (in ``packages``) and NVSwitches."""
    size = len(index)
    direct: dict[tuple[int, int], int] = {}
    into, to_cpu = [0] * gpus, [0] * gpus
    switches: dict[tuple[int, int], int] = {}
    for row, gpu in enumerate(index):
        for column, peer in enumerate(index):
            rate = rates[row * size + column]
            if gpu is None or not rate or row == column:
                continue
            if column in packages:
                to_cpu[gpu] += rate
            elif peer is None:
                into[gpu] += rate
                switches[gpu, gpus + column] = 1
            elif gpu < peer:
                direct[gpu, peer] = rate
                if rates[column * size + row] != rate:
                    raise InputError("NVLinkBandwidth differs between the two directions")
    off_diagonal = (rate for i, rate in enumerate(rates) if i // size != i % size)
    unit = gcd(*direct.values(), *off_diagonal) or 1
    source = f"{SOURCE}, NVLinkBandwidth: {unit / 1000:g} GB/s"
    links = collect_links(
        {pair: rate // unit for pair, rate in direct.items()},
        [rate // unit for rate in into],
        [rate // unit for rate in to_cpu],
        [f"GPU {gpu}" for gpu in range(gpus)],
        "NVLink bond",
    )
    links = replace(links, rate=StatedValue(unit * 1e6, source), bonded=True)
    if links.switched is None:
        return links
    parts = parts_of(gpus + size, switches)[:gpus]
    unlinked = {gpu for gpu, count in links.short.items() if not count}
    return replace(links, parts=_complete_parts(parts, unlinked))


def _complete_parts(parts: tuple[int, ...], unlinked: Collection[int]) -> tuple[int, ...]:
    """Return the parts, with each GPU that has no links put into the smallest of the others."""
    sizes = Counter(part for gpu, part in enumerate(parts) if gpu not in unlinked)
    whole = list(parts)
    for gpu in sorted(unlinked):
        whole[gpu] = min(sizes, key=lambda part: sizes[part])
        sizes[whole[gpu]] += 1
    return tuple(whole)


def _places(gpus: list[_PciDevice]) -> dict[str, int]:
    """Return the number of each GPU, by its hwloc index and by those of the objects inside it."""
    return {
        element.get("gp_index", ""): number
        for number, gpu in enumerate(gpus)
        for element in gpu.element.iter("object")
    }


def _words(element: Element, tag: str) -> list[str]:
    return " ".join(part.text or "" for part in element.iterfind(tag)).split()


def _numbers(words: list[str]) -> list[int]:
    for word in words:
        parse_whole_attribute(
            Element("u64values", value=word), "value", MOST_MEGABYTES, "NVLinkBandwidth"
        )
    return [int(word) for word in words]
