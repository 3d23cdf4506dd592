"""Compares a node's file with the GPU model that a user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hierarchies.files.schema import MachineException
from hierarchies.importers.claims import Claim, NumberRange, exact_claim
from hierarchies.importers.contents import devices_of_machine
from hierarchies.importers.draft import DraftLevel
from hierarchies.importers.models import (
    GpuModel,
    claim_of_architecture,
    claim_of_model,
    claims_of_device,
    numbers_of_links,
)
from hierarchies.importers.nodes.picture import NodePicture


def claims_of(picture: NodePicture) -> Iterator[Claim]:
    """Yield the claims of the file, and of the catalogue about the GPU that the user names."""
    yield from picture.claims
    if picture.arch:
        yield claim_of_architecture(picture.arch, picture.source)
    yield from claims_of_device(picture.device, f"the GPU's name in {picture.source}", yields=True)
    if picture.model is not None:
        place = f"--gpu {picture.model.name}"
        yield claim_of_model(picture.model.name, place, picture.model.device)
        if picture.links.known:
            maker, known = ("AMD" if amd else "NVIDIA" for amd in (picture.amd, picture.model.amd))
            yield Claim("maker", "the GPUs", picture.source, maker, frozenset({maker}))
            yield Claim("maker", "the GPUs", place, known, frozenset({known}))
        if picture.links.known and len(picture.gpus) > 1:
            yield from _claims_of_links(picture, picture.model, place)


def _claims_of_links(picture: NodePicture, model: GpuModel, place: str) -> Iterator[Claim]:
    """Yield the links of the GPU that has the most, by the file and by the model.

    GPUs in a virtual machine see only a part of their direct links, but all links into switches. A
    number of links that no model of the catalogue has is that of a variant (an H800 has 8).
    """
    topic, most = f"{picture.link_name}s of a GPU", model.most_links
    count = picture.links.switched or max(_count_direct_links(picture), default=0)
    words = f"{count}" if count else "none"
    if picture.links.bonded:
        count = min(count, 1)
    yield exact_claim(topic, "", picture.source, count, words)
    least = most if picture.links.switched and not picture.links.bonded else min(1, most)
    words = f"{most}" if least == most else f"1 to {most}"
    of_none = 0 < count < most and count not in numbers_of_links()
    yield Claim(topic, "", place, words, NumberRange(least, most), yields=of_none)


def _count_direct_links(picture: NodePicture) -> list[int]:
    totals = [0] * len(picture.gpus)
    for pair, count in picture.links.direct.items():
        for gpu in pair:
            totals[gpu] += count
    return totals


def warn_of_unlisted(picture: NodePicture) -> tuple[str, ...]:
    """Return a warning if the switches of the named GPU join more machines than the file lists."""
    if picture.model is None or picture.links.switched is None:
        return ()
    system, here = picture.model.system, len(picture.gpus)
    whole, per_machine = system.hierarchy.devices_in_child(0), devices_of_machine(system)
    if per_machine is None or here >= whole or per_machine == whole:
        return ()
    warning = (
        f"The switches of {system.name} join {whole} GPUs of several machines; the file lists "
        f"{here}. The file does not say how the machines are connected: --inside "
        f"{system.name} is a whole unit."
    )
    return (warning,)


def hint_of(picture: NodePicture) -> str:
    """Return a hint for contradictions between the file and the named model."""
    known = picture.links.known and (picture.links.switched or any(picture.links.direct.values()))
    if picture.model is None or known or not picture.model.most_links:
        return "remove --gpu, or name the GPU that is in the file"
    return (
        f"if these are PCIe cards, remove --gpu; if they are {picture.model.device}, import a "
        f"text that lists {picture.link_name}s"
    )


def degraded_gpus(
    picture: NodePicture, off: Sequence[int], order: Sequence[int], levels: Sequence[DraftLevel]
) -> tuple[tuple[MachineException, ...], tuple[str, ...]]:
    """Return exceptions and warnings for GPUs that have lost links, by the numbers of the levels.

    ``levels`` are those of the whole system; the file describes its first node.
    """
    short = {**dict.fromkeys(off, 0), **picture.links.short}
    lacks, warnings = [], []
    for gpu, count in sorted(short.items()):
        unit = _unit(order.index(gpu), levels, len(picture.gpus))
        name, whole = picture.gpus[gpu], picture.links.switched or 0
        has = f"{count} of {whole}" if count else "no"
        fault = f"{name} has {has} {picture.link_name}s, unlike the others"
        share = count / whole if count else 0.0
        lacks.append(MachineException.of(unit, f"{picture.source}: {fault}", share))
        state = "is slower" if count else "is missing"
        warnings.append(
            f"{fault}, which is a fault: {_command(picture)} shows its links. The description "
            f"says that {unit} {state}."
        )
    return tuple(lacks), tuple(warnings)


def _command(picture: NodePicture) -> str:
    return "amd-smi xgmi --link-status" if picture.amd else "nvidia-smi nvlink -s"


def _unit(place: int, levels: Sequence[DraftLevel], gpus: int) -> str:
    """Return the path of a device by its number in its node, which is the first of the system."""
    steps: list[str] = []
    inside = gpus
    for level in levels:
        if level.name == "node":
            steps.append("node0")
            continue
        assert level.count is not None
        inside //= int(str(getattr(level.count, "value", inside)))
        digit, place = divmod(place, inside)
        steps.append(f"{level.name}{digit}")
    return "/".join(steps)
