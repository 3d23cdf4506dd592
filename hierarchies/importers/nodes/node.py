"""The levels of a system from the picture of one node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath

from hierarchies.errors import InputError
from hierarchies.files.loading import load
from hierarchies.importers.draft import (
    UNKNOWN,
    Blank,
    Draft,
    DraftLevel,
    Entry,
    ImportOptions,
    StatedValue,
    is_refinement,
    likely_value,
)
from hierarchies.importers.models import GpuModel, find_model, memory_of, model_of
from hierarchies.importers.nccl_rates import NVLINK, PCIE, PCIE_OF_AMD, suggest_mi300x_latencies
from hierarchies.importers.nodes.agreement import (
    claims_of,
    degraded_gpus,
    hint_of,
    warn_of_unlisted,
)
from hierarchies.importers.nodes.islands import IslandShape, find_shape, members_of_parts
from hierarchies.importers.nodes.nics import network_level
from hierarchies.importers.nodes.picture import GpuGrouping, NodePicture, check_sizes
from hierarchies.system import LONGEST_NAME, Domain

_ISLAND = "island"
_JOIN = {
    Domain.SWITCH: "from every GPU to the NVSwitches",
    Domain.MESH: "between every two GPUs",
    Domain.RING: "between neighbours in a ring",
}


def draft_of(picture: NodePicture, file: str, options: ImportOptions) -> Draft:
    """Return the node's levels, with its network outermost; the draft is named after the file.

    Raises InputError if no system can represent the node.
    """
    check_sizes(len(picture.gpus), len(picture.nics))
    picture = _add_model(picture, options.gpu)
    inside = _find_inner_levels(picture)
    inner, order, notes = inside.levels, inside.order, inside.notes
    outer, network_notes = network_level(
        replace(picture, groups=inside.groups), inner, options.nodes
    )
    if order != tuple(range(len(order))):
        names = ", ".join(picture.gpus[gpu] for gpu in order)
        notes = (f"Devices are numbered in this order: {names}.", *notes)
    memory = picture.memory
    if memory == UNKNOWN:
        memory = memory_of(picture.device)
    stem = PurePath(file).name.partition(".")[0]
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:LONGEST_NAME]
    levels = (*outer, *inner)
    lacks, warnings = degraded_gpus(picture, inside.off, order, levels)
    draft = Draft(
        name or "imported",
        f"Node of {len(picture.gpus)} GPUs, described by {picture.source}",
        levels,
        picture.device,
        memory,
        (*picture.notes, *notes, *network_notes),
        picture.counted,
        lacks,
        tuple(claims_of(picture)),
        (*picture.warnings, *warn_of_unlisted(picture), *warnings),
        holds_devices=True,
    )
    return draft.settled(hint_of(picture))


def _add_model(picture: NodePicture, name: str | None) -> NodePicture:
    """Return the picture with the catalogue's numbers of a GPU that the user names."""
    if name is None:
        return picture
    model = find_model(name)
    link = picture.links.rate
    notes = picture.notes
    if isinstance(link, Blank):
        link = model.link or link
    elif model.link is not None:
        notes = (*notes, _note_two_rates(picture, link, model))
    return replace(
        picture,
        device=picture.device if name.lower() in picture.device.lower() else name,
        memory=model.memory,
        links=replace(picture.links, rate=link),
        notes=notes,
        model=model,
    )


def _note_two_rates(picture: NodePicture, link: StatedValue, model: GpuModel) -> str:
    assert model.link is not None, "called only for a GPU that has links"
    stated, known = float(link.value) / 1e9, float(model.link.value) / 1e9
    return (
        f"One {picture.link_name} is assumed to carry {stated:g} GB/s ({link.source}); "
        f"{model.system.name} in the catalogue has {known:g}."
    )


@dataclass(frozen=True)
class _NodeLevels:
    """The levels inside a node, the order of its GPUs, and notes.

    Also has the groupings that became levels, and the GPUs that have lost all links.
    """

    levels: tuple[DraftLevel, ...]
    order: tuple[int, ...]
    notes: tuple[str, ...] = ()
    groups: tuple[GpuGrouping, ...] = ()
    off: tuple[int, ...] = ()


def _find_inner_levels(picture: NodePicture) -> _NodeLevels:
    gpus = len(picture.gpus)
    order = tuple(range(gpus))
    if not picture.links.known:
        return _NodeLevels((_unknown_links(picture),), order)
    if picture.links.switched is not None:
        shape = _switches(picture)
    else:
        shape = find_shape(gpus, picture.links.direct, picture.gpus)
    size = len(shape.islands[0])
    if size == gpus and (gpus > 1 or shape.domain):
        level, notes = _island(picture, shape, gpus)
        return _NodeLevels((level,), shape.islands[0], notes, off=shape.off)
    return replace(_group_levels(picture, shape, size), off=shape.off)


def _switches(picture: NodePicture) -> IslandShape:
    """Return the shape of GPUs joined by NVSwitches.

    Raises InputError if their parts are unequal.
    """
    parts = members_of_parts(picture.links.parts or (0,) * len(picture.gpus))
    if len({len(part) for part in parts}) > 1:
        sizes = " and ".join(str(len(part)) for part in parts)
        raise InputError(f"NVSwitches connect the GPUs in parts of {sizes}")
    return IslandShape(tuple(parts), Domain.SWITCH, picture.links.switched or 0)


def _switches_reduce(picture: NodePicture) -> Blank | None:
    """Whether the NVSwitches reduce: no file states it, but switches of Hopper and later do."""
    reduces = picture.reduces
    known = (picture.model, "") if picture.model else model_of(picture.device)
    if reduces is None and known is not None:
        reduces = known[0].system.links[-1].reduces
    source = load("dgx-h100").links[-1].source("reduces")
    reason = f"the NVSwitches of Hopper and later reduce: {source}"
    if reduces is None:
        return Blank(None, f"{reason}; the file does not name the GPU (--gpu)", needed=False)
    return Blank(True, reason, needed=False) if reduces else None


def _unknown_links(picture: NodePicture) -> DraftLevel:
    reason = f"{picture.source} has no {picture.link_name}s"
    count = len(picture.gpus)
    domain, bandwidth, reduces = Blank(None, reason), _blank_of_link(picture, reason), None
    if picture.model and picture.model.system.hierarchy.cardinalities[-1] == count:
        link, name = picture.model.system.links[-1], picture.model.system.name
        domain = Blank(link.domain.value, f"{reason}; as {name} in the catalogue")
        source = link.source("bandwidth_GB_per_s")
        bandwidth = Blank(link.bandwidth_bytes_per_second, f"{reason}; as {name}: {source}")
        reduces = _switches_reduce(picture) if link.reduces else None
    return _gpu_level(picture, domain, bandwidth, count, reduces)


def _blank_of_link(picture: NodePicture, reason: str) -> Blank:
    if isinstance(picture.links.rate, StatedValue):
        value, source = float(picture.links.rate.value), picture.links.rate.source
        return Blank(None, f"{reason}; one link has {value / 1e9:g} GB/s ({source})")
    return Blank(None, reason)


def _gpu_level(
    picture: NodePicture, domain: Entry, bandwidth: Entry, count: int, reduces: Entry | None
) -> DraftLevel:
    stated = StatedValue(count, f"{picture.source} shows {len(picture.gpus)} GPUs")
    medium = "xgmi" if picture.amd else "nvlink"
    level = DraftLevel("gpu", domain, bandwidth, count=stated, reduces=reduces, medium=medium)
    return level.having(suggest_mi300x_latencies(-1) if picture.amd else NVLINK)


def _island(
    picture: NodePicture, shape: IslandShape, count: int
) -> tuple[DraftLevel, tuple[str, ...]]:
    rate, name = _rate_of_links(picture, shape.links), picture.link_name
    if shape.domain is not None:
        joined = f"{picture.several(shape.links)} {_JOIN[shape.domain]}"
        reduces = _switches_reduce(picture) if shape.domain is Domain.SWITCH else None
        stated = StatedValue(shape.domain.value, joined)
        return _gpu_level(picture, stated, rate, count, reduces), ()
    note = (
        f"The {name}s form neither a ring nor equal links between every two GPUs, and no system "
        "can describe them: the level 'gpu' is left blank."
    )
    reason = f"{name}s form neither a ring nor a mesh"
    domain = Blank("ring", f"{reason}, but rings through all GPUs exist")
    if not shape.ring:
        domain, rate = Blank(None, reason), _blank_of_link(picture, reason)
    elif not picture.links.counted:
        rate = _blank_of_link(picture, f"the file does not say how many {name}s a GPU has")
    else:
        each = f"{picture.several(shape.links)} to each neighbour"
        reason = f"rings that use all links of a GPU: {each}; {rate.source}"
        rate = Blank(likely_value(rate), reason)
    return _gpu_level(picture, domain, rate, count, None), (note,)


def _rate_of_links(picture: NodePicture, links: float) -> Entry:
    link, description = picture.links.rate, picture.several(links)
    if isinstance(link, Blank):
        reason = link.source or "the bandwidth of a link depends on the GPU: give --gpu"
        suggested = None if link.suggestion is None else float(link.suggestion) * links
        return Blank(suggested, f"{description}; {reason}")
    rate = float(link.value)
    source = f"{description} of {rate / 1e9:g} GB/s: {link.source}"
    return StatedValue(rate * links, source, link.unconfirmed)


def _group_levels(picture: NodePicture, shape: IslandShape, size: int) -> _NodeLevels:
    """Return levels of sockets, PCIe switches and islands around the innermost level of GPUs."""
    gpus = len(picture.gpus)
    groups = picture.groups
    if size > 1:
        part = {gpu: index for index, island in enumerate(shape.islands) for gpu in island}
        parts = tuple(part[gpu] for gpu in range(gpus))
        groups = (*groups, GpuGrouping(_ISLAND, parts, _rate_between_islands(picture, shape)))
    kept, notes = _select_nested(groups, gpus)
    place = {gpu: index for island in shape.islands for index, gpu in enumerate(island)}
    ranks = [tuple(map(group.parts.index, group.parts)) for group in kept]
    order = tuple(sorted(range(gpus), key=lambda gpu: (*(rank[gpu] for rank in ranks), place[gpu])))
    count = gpus
    levels: list[DraftLevel] = []
    for group in kept:
        parts_here = len(set(group.parts))
        levels.append(_group_level(picture, group, parts_here * count // gpus, shape))
        count = gpus // parts_here
    if size > 1:
        last, island_notes = _island(picture, shape, count)
        notes = (*notes, *island_notes)
    else:
        last = _pcie_level(picture, count)
    return _NodeLevels((*_chain_crossings(levels), last), order, notes, kept)


def _select_nested(
    groups: tuple[GpuGrouping, ...], gpus: int
) -> tuple[tuple[GpuGrouping, ...], tuple[str, ...]]:
    """Return the groupings that divide evenly and nest; islands take precedence over sockets."""
    kept: list[GpuGrouping] = []
    notes = []
    for group in reversed(groups):
        sizes = {group.parts.count(part) for part in group.parts}
        finer = kept[0].parts if kept else tuple(range(gpus))
        if len(set(group.parts)) in (1, len(set(finer))) or (
            kept and is_refinement(group.parts, finer)
        ):
            continue
        if len(sizes) > 1 or not is_refinement(finer, group.parts):
            problem = "have different numbers of GPUs" if len(sizes) > 1 else "divide linked GPUs"
            notes.append(f"The parts of level {group.name!r} {problem}: the level is left out.")
            continue
        kept.insert(0, group)
    bridges = [group for group in kept if group.name.startswith("bridge")]
    if len(bridges) == 1:
        kept = [replace(g, name="bridge") if g is bridges[0] else g for g in kept]
    return tuple(kept), tuple(notes)


def _chain_crossings(levels: list[DraftLevel]) -> list[DraftLevel]:
    """Extend the crossed levels of outer levels by those that their inner levels cross."""
    chained = list(levels)
    for outer, inner in reversed(list(pairwise(range(len(levels))))):
        if chained[inner].through:
            through = (chained[inner].name, *chained[inner].through)
            chained[outer] = replace(chained[outer], through=through)
    return chained


def _group_level(
    picture: NodePicture, group: GpuGrouping, count: int, shape: IslandShape
) -> DraftLevel:
    size = len(shape.islands[0])
    source = f"{picture.source}: {len(set(group.parts))} parts of {len(picture.gpus)} GPUs"
    level = DraftLevel(
        group.name,
        StatedValue("switch", "PCIe and the sockets, assumed to be a switch that never blocks"),
        group.uplink,
        count=StatedValue(count, source),
        ports=StatedValue(1, source),
        through=() if size > 1 else ("gpu",),
        medium="pcie",
    ).having(PCIE_OF_AMD if picture.amd else PCIE)
    if group.name != _ISLAND:
        return level
    if shape.domain is not Domain.SWITCH:
        way = (
            picture.several(picture.links.to_cpu) + " to its CPU"
            if picture.links.to_cpu
            else "a PCIe link"
        )
        return replace(level, ports=StatedValue(size, f"every GPU has its own {way}"))
    reason = f"{picture.source} shows no links between the switches of the parts"
    return replace(
        level,
        domain=Blank("switch", reason),
        ports=Blank(size, reason),
        through=("gpu",),
        medium="nvlink",
    ).having(NVLINK)


def _rate_between_islands(picture: NodePicture, shape: IslandShape) -> Blank:
    if shape.domain is Domain.SWITCH:
        return Blank(None, f"{picture.source} shows no links between the switches of the parts")
    if picture.links.to_cpu:
        return _rate_over_cpus(picture, shape)
    reason = "of a GPU over PCIe; less where GPUs share it"
    if isinstance(picture.pcie, StatedValue):
        return Blank(picture.pcie.value, f"{reason}; {picture.pcie.source}")
    return Blank(None, reason)


def _rate_over_cpus(picture: NodePicture, shape: IslandShape) -> Blank:
    """Return a GPU's bandwidth between sockets: its links to the CPU, or a share between CPUs."""
    to_cpu = _rate_of_links(picture, picture.links.to_cpu)
    rate = likely_value(to_cpu)
    reason = f"over the CPUs, to which each GPU has {to_cpu.source}"
    sockets = [group for group in picture.groups if group.name == "socket"]
    between = sockets[0].uplink if sockets else UNKNOWN
    share = likely_value(between)
    if rate is not None and share is not None:
        size = len(shape.islands[0])
        rate = min(float(rate), float(share) / size)
        reason += f"; {between.source}, shared by {size} GPUs"
    return Blank(rate, reason)


def _pcie_level(picture: NodePicture, count: int) -> DraftLevel:
    about = (
        "The GPUs are connected by PCIe only, which is assumed to be a switch that never blocks."
    )
    pcie = picture.pcie
    if pcie == UNKNOWN:
        pcie = Blank(None, f"{picture.source} does not state the speed of PCIe")
    return DraftLevel(
        "gpu",
        StatedValue("switch", f"no {picture.link_name}s: {about}"),
        pcie,
        count=StatedValue(count, f"{picture.source} shows {len(picture.gpus)} GPUs"),
        medium="pcie",
    ).having(PCIE_OF_AMD if picture.amd else PCIE)
