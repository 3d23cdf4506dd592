"""GPUs by the names people call them, with the numbers that the catalogue has of them."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchies.errors import InputError, nearest
from hierarchies.files.loading import load
from hierarchies.importers.draft import Blank, Entry, Stated
from hierarchies.system import System

_ENTRIES = {
    "v100": ("dgx1-v100", 3, ("70",)),
    "a100": ("dgx-a100", 12, ("80",)),
    "a100-40gb": ("azure-ndv4", 12, ("80",)),
    "h100": ("dgx-h100", 18, ("90",)),
    "h200": ("dgx-h200", 18, ("90",)),
    "gb200": ("gb200-nvl72", 18, ("100",)),
    "mi300x": ("mi300x", 1, ("gfx942", "942")),
    "l40s": ("l40s-pcie", 0, ("89",)),
}
_SEVERAL = {"a100": "of the one with 40 GB: there is one with 80 GB, which has more"}
_BY_PCI = {
    "10de:20b0": ("a100-40gb", "the id in AWS's topology file of p4d instances"),
    "10de:2330": ("h100", "the PCI ID database, https://pci-ids.ucw.cz/"),
    "1002:74a1": ("mi300x", "the PCI ID database, https://pci-ids.ucw.cz/"),
    "1002:74b5": ("mi300x", "the PCI ID database, https://pci-ids.ucw.cz/"),
}
MODELS = tuple(_ENTRIES)


@dataclass(frozen=True)
class Model:
    """A GPU: its memory bandwidth and what one NVLink or xGMI link carries in each direction.

    ``links``: how many of these the catalogue's machine counts in its bandwidth, 0 if it has none.
    ``archs``: how NCCL's ``sm`` or RCCL's ``gcn`` names it.
    """

    name: str
    system: System
    links: int
    archs: tuple[str, ...]

    @property
    def memory(self) -> Entry:
        """Its bandwidth; blank where the name fits several GPUs (A100 with 40 and with 80 GB)."""
        source = f"{self.system.name} in the catalogue: {self.system.memory_source}"
        if self.name in _SEVERAL:
            return Blank(self.system.memory_bytes_per_second, f"{_SEVERAL[self.name]}; {source}")
        return Stated(
            self.system.memory_bytes_per_second,
            source,
            "memory_GB_per_s" in self.system.unconfirmed,
        )

    @property
    def link(self) -> Stated | None:
        if not self.links:
            return None
        link = self.system.links[-1]
        source = link.source("bandwidth_GB_per_s")
        return Stated(
            link.bandwidth_bytes_per_second / self.links,
            f"{self.links} links of {self.system.name} in the catalogue: {source}",
            "bandwidth_GB_per_s" in link.unconfirmed,
        )


def model_named(name: str) -> Model:
    """The GPU of a name. Raises InputError for one that the catalogue knows nothing of."""
    if name.lower() not in _ENTRIES:
        raise InputError(f"no GPU {name!r} is known", hint=nearest(name, MODELS))
    entry, links, archs = _ENTRIES[name.lower()]
    return Model(name.lower(), load(entry), links, archs)


def model_of(device: str) -> tuple[Model, str] | None:
    """The GPU that a tool's name or PCI id probably means, and who says so of an id."""
    words = device.lower().replace("-", " ").replace("_", " ").split()
    for word in words:
        name, why = (word, "") if word in MODELS else _BY_PCI.get(word, ("", ""))
        if name:
            return model_named(name), f"PCI {word} is {name} in {why}; " if why else ""
    return None


def memory_of(device: str) -> Blank:
    """A blank with the memory bandwidth that a device of this name or PCI id probably has."""
    found = model_of(device)
    if found is None:
        return Blank(None, f"say which GPU it is (--gpu {', '.join(MODELS)}), or write it")
    model, what = found
    memory = model.memory
    value = memory.value if isinstance(memory, Stated) else memory.suggestion
    return Blank(value, f"{what}{memory.source}")
