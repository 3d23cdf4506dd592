"""GPUs by their usual names, with their numbers from the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hierarchies.devices import devices
from hierarchies.errors import InputError, suggest_nearest
from hierarchies.files.loading import load
from hierarchies.importers.claims import Claim
from hierarchies.importers.draft import Blank, Entry, StatedValue, likely_value
from hierarchies.system import System

_ENTRIES = {
    "v100": ("dgx1-v100", 3, 6, ("70",)),
    "a100": ("dgx-a100", 12, 12, ("80",)),
    "a100-40gb": ("azure-ndv4", 12, 12, ("80",)),
    "a100-80gb": ("dgx-a100", 12, 12, ("80",)),
    "h100": ("dgx-h100", 18, 18, ("90",)),
    "h200": ("dgx-h200", 18, 18, ("90",)),
    "b200": ("dgx-b200", 18, 18, ("100",)),
    "b300": ("dgx-b300", 18, 18, ("103",)),
    "gb200": ("gb200-nvl72", 18, 18, ("100",)),
    "gb300": ("gb300-nvl72", 18, 18, ("103",)),
    "mi300x": ("mi300x", 1, 7, ("gfx942", "942")),
    "mi325x": ("mi325x", 1, 7, ("gfx942", "942")),
    "mi355x": ("mi355x", 1, 7, ("gfx950", "950")),
    "l40s": ("l40s-pcie", 0, 0, ("89",)),
}
"""By model: its machine in the catalogue, the links that the machine's bandwidth counts, the links
of one GPU, and its architectures as in NCCL's ``sm`` or RCCL's ``gcn``.

For NVIDIA, links of one GPU times 25 GB/s (50 from Blackwell on) are the bandwidth in the machine's
file, which has its source. Links of one GPU: V100, A100, Hopper: https://wikimili.com/en/NVLink;
Blackwell: NVIDIA's own words, kept at
https://catalogone.com/data-center-and-cloud-computing-nvlink-nvswitch; MI300X:
https://www.wheelersnetwork.com/2024/01/, all 2026-11-29. MI325X and MI355X have one link to each of
the 7 others, as their machines' files say that every pair is linked. L40S has none.
"""
_DEVICES = {"a100-80gb": "A100 SXM4 80 GB"}
"""Models whose device differs from that of their machine in the catalogue."""
_SEVERAL = {"a100": "of the one with 40 GB; the one with 80 GB has more"}
_BY_PCI = {
    "10de:20b0": ("a100-40gb", "the id in AWS's topology file of p4d instances"),
    "10de:2330": ("h100", "the PCI ID database, https://pci-ids.ucw.cz/"),
    "1002:74a1": ("mi300x", "the PCI ID database, https://pci-ids.ucw.cz/"),
    "1002:74b5": ("mi300x", "the PCI ID database, https://pci-ids.ucw.cz/"),
}
MODELS = tuple(_ENTRIES)
_OF_OTHERS = re.compile(
    r"(p100|p40|t4|a2|a10g?|a16|a30|a40|a800|h20|h800|b100|gh200|l4|l20|l40|rtx[a0-9]*(ti|ada)?|a[0-9]{4}"
    r"|gtx[0-9]*(ti)?|mi50|mi60|mi100|mi210|mi250x?|mi300a|mi308x|mi350x|gaudi[0-9]?|max1[0-9]{3})"
    r"(pcie|sxm[0-9]?|nvl|[0-9]{2,3}gb)*"
)
"""GPUs unknown to the catalogue, so that they are not taken for misspellings of known ones."""
_MAKERS = {"nvidia", "amd", "instinct", "tesla"}
_OTHER_BOARDS = {"pcie", "nvl"}
_INSTEAD = "leave --gpu out, and write what the GPU's data sheet states for each blank"


@dataclass(frozen=True)
class GpuModel:
    """A GPU: its memory bandwidth and the bandwidth of one NVLink or xGMI link per direction.

    ``links`` is the number of links that the bandwidth of the catalogue's machine includes, 0 if it
    has none; ``most_links`` the number of links of one GPU; ``archs`` its names in NCCL's ``sm`` or
    RCCL's ``gcn``.
    """

    name: str
    system: System
    links: int
    most_links: int
    archs: tuple[str, ...]

    @property
    def amd(self) -> bool:
        """Whether its links are xGMI."""
        return self.name.startswith("mi")

    @property
    def device(self) -> str:
        """The GPU's name in the catalogue."""
        return _DEVICES.get(self.name, self.system.device)

    @property
    def memory(self) -> Entry:
        """Its memory bandwidth; blank if the name fits several GPUs (A100 with 40 or 80 GB)."""
        if self.name in _DEVICES:
            device = devices()[self.device]
            return StatedValue(
                device.memory_bytes_per_second,
                f"{device.name} in the catalogue: {device.sources['memory_GB_per_s']}",
                "memory_GB_per_s" in device.unconfirmed,
            )
        source = f"{self.system.name} in the catalogue: {self.system.memory_source}"
        if self.name in _SEVERAL:
            return Blank(self.system.memory_bytes_per_second, f"{_SEVERAL[self.name]}; {source}")
        return StatedValue(
            self.system.memory_bytes_per_second,
            source,
            "memory_GB_per_s" in self.system.unconfirmed,
        )

    @property
    def link(self) -> StatedValue | None:
        if not self.links:
            return None
        link = self.system.links[-1]
        source = link.source("bandwidth_GB_per_s")
        return StatedValue(
            link.bandwidth_bytes_per_second / self.links,
            f"{self.links} links of {self.system.name} in the catalogue: {source}",
            "bandwidth_GB_per_s" in link.unconfirmed,
        )


def find_model(name: str) -> GpuModel:
    """Return the GPU with a name, as people or the catalogue spell it.

    Raises InputError for a GPU that the catalogue does not have.
    """
    words = _words(name)
    matches = [model for model in MODELS if _is_match(words, model)]
    if matches:
        return _model(max(matches, key=lambda model: len(_words(model))))
    known = f"known are: {', '.join(MODELS)}; for other GPUs {_INSTEAD}"
    plain = "".join(re.findall(r"[a-z0-9]+", name.lower()))
    if "tpu" in plain or plain.startswith("trn"):
        hint = f"no GPU: import jax reads TPUs; {known}"
    elif _OF_OTHERS.fullmatch(plain) or words & _OTHER_BOARDS:
        hint = known
    else:
        hint = f"{suggest_nearest(name, MODELS)} For other GPUs {_INSTEAD}"
    raise InputError(f"the catalogue has no GPU {name[:60]!r}", hint=hint)


def _model(name: str) -> GpuModel:
    entry, links, most_links, archs = _ENTRIES[name]
    return GpuModel(name, load(entry), links, most_links, archs)


def _words(name: str) -> frozenset[str]:
    """Return the words of a name; equal for ``A100-SXM4-80GB`` and ``A100 SXM4 80 GB``."""
    joined = re.sub(r"([0-9]) ?gb\b", r"\1gb", re.sub(r"sxm[0-9]", "sxm", name.lower()))
    return frozenset(re.findall(r"[a-z0-9]+", joined))


def _is_match(words: frozenset[str], model: str) -> bool:
    """Whether words name a model: all words of the model, and others only from the catalogue."""
    own = _words(model)
    return own <= words and words <= own | _words(_model(model).device) | _MAKERS


def numbers_of_links() -> frozenset[int]:
    """Return the numbers of links that GPUs of the catalogue have."""
    return frozenset(most_links for _, _, most_links, _ in _ENTRIES.values())


def model_of(device: str) -> tuple[GpuModel, str] | None:
    """Return the GPU that a tool's name or PCI id probably denotes, and the source of an id.

    None for a card of another board (``H100 PCIe``), whose numbers differ.
    """
    words = device.lower().replace("-", " ").replace("_", " ").split()
    if _OTHER_BOARDS & {*words}:
        return None
    for word in words:
        name, why = (word, "") if word in MODELS else _BY_PCI.get(word, ("", ""))
        if name:
            return _model(name), f"PCI {word} is {name} in {why}; " if why else ""
    return None


def memory_of(device: str) -> Blank:
    """Return a blank that suggests the memory bandwidth of a device with this name or PCI id."""
    match = model_of(device)
    if match is None:
        return Blank(None, f"say which GPU it is (--gpu {', '.join(MODELS)}), or write it")
    model, origin = match
    return Blank(likely_value(model.memory), f"{origin}{model.memory.source}")


def claims_of_device(device: str, place: str, yields: bool = False) -> Iterator[Claim]:
    """Yield the claim that a device's name or PCI id makes about the model of GPU, if it names one.

    A card of another board (``H100 PCIe``) is not one of the catalogue's models.
    """
    models = frozenset(model for model in MODELS if _model(model).device == device)
    names = [_model_in_word(word) for word in re.findall(r"[a-z0-9:]+", device.lower())]
    named = next(filter(None, names), "")
    if models:
        yield Claim("GPU model", "", place, device, models, yields)
    elif named and _OTHER_BOARDS & _words(device):
        yield Claim("GPU model", "", place, device[:60], frozenset({f"{named} of another board"}))
    elif named:
        yield claim_of_model(named, place, device[:60], yields)


def _model_in_word(word: str) -> str:
    """Return the GPU that a word of a device's name denotes, in the catalogue or not, or ""."""
    if word in MODELS or _OF_OTHERS.fullmatch(word):
        return word
    return _BY_PCI.get(word, ("", ""))[0]


def claim_of_model(name: str, place: str, words: str, yields: bool = False) -> Claim:
    """Return the claim that GPUs are of a model; ``a100`` leaves the size of the memory open."""
    family, _, size = name.partition("-")
    same = {name, *(model for model in MODELS if model.partition("-")[0] == family)}
    return Claim("GPU model", "", place, words, frozenset({name, family} if size else same), yields)


def claim_of_architecture(arch: str, place: str) -> Claim:
    """Return the claim that GPUs have an architecture, as NCCL or RCCL names it."""
    models = frozenset(name for name, (*_, archs) in _ENTRIES.items() if arch in archs)
    known = f" ({', '.join(sorted(models))})" if models else ""
    return Claim("GPU model", "", place, f"architecture {arch}{known}", models)
