"""The outermost level of a node: its network ports, if GPUs can share them evenly."""

from __future__ import annotations

from dataclasses import replace

from hierarchies.importers.draft import Blank, DraftLevel, Entry, StatedValue
from hierarchies.importers.nccl_rates import NETWORK, suggest_mi300x_latencies
from hierarchies.importers.nodes.picture import Nic, NodePicture

FASTEST = 1e12 / 8
_MEDIA = {
    **dict.fromkeys(("efa", "rdmap"), "efa"),
    **dict.fromkeys(("cxi", "hsn"), "slingshot"),
    **dict.fromkeys(("bnxt_re", "ionic"), "roce"),
}
"""Media by drivers' names of NICs. Names of mlx5 are omitted: it has InfiniBand and RoCE."""
_GIGABIT = 1e9 / 8

LevelsAndNotes = tuple[tuple[DraftLevel, ...], tuple[str, ...]]


def network_level(
    picture: NodePicture, inner: tuple[DraftLevel, ...], nodes: int | None
) -> LevelsAndNotes:
    """Return the level ``node``, if there are NICs or a number of nodes is given; and notes."""
    if not picture.nics and nodes is None:
        note = (
            f"{picture.source} shows no NIC: the system is a single node (--nodes "
            "gives another number)."
        )
        return (), (note,)
    nics, notes = _choose_used_nics(picture)
    count = None if nodes is None else StatedValue(nodes, "given with the import")
    ports, port_notes = _ports(nics, len(picture.gpus))
    level = DraftLevel(
        "node",
        Blank("switch", "the file of one node does not show how nodes are connected"),
        _bandwidth(nics, picture),
        count=count,
        ports=ports,
        through=_crossed_inner_levels(picture, inner),
        about=f"NICs: {', '.join(nic.name for nic in nics)}" if nics else "",
        medium=_common_medium(nics),
    ).having(suggest_mi300x_latencies(0) if picture.amd else NETWORK)
    if not inner[-1].ll128_latency_seconds:
        level = replace(level, ll128_latency_seconds=None)
    if count is None:
        notes = (*notes, "The number of nodes is not stated: load(file.toml:N), or --nodes N.")
    return (level,), (*notes, *port_notes)


def _common_medium(nics: tuple[Nic, ...]) -> str:
    """Return the medium that the names of all NICs imply, "" if there is none."""
    media = {
        next((medium for name, medium in _MEDIA.items() if nic.name.startswith(name)), "")
        for nic in nics
    }
    return media.pop() if len(media) == 1 else ""


def _choose_used_nics(picture: NodePicture) -> tuple[tuple[Nic, ...], tuple[str, ...]]:
    """Return the NICs that jobs use: the fastest, and those near GPUs if there are any."""
    nics = picture.nics
    notes: list[str] = []
    rates = {nic.bytes_per_second or 0.0 for nic in nics}
    if len(rates) > 1:
        fast = tuple(nic for nic in nics if (nic.bytes_per_second or 0.0) == max(rates))
        notes.append(_note_left_out(nics, fast, "slower"))
        nics = fast
    beside = tuple(nic for nic in nics if nic.near)
    if beside and len(beside) < len(nics):
        notes.append(_note_left_out(nics, beside, "not behind the PCIe switch of a GPU"))
        nics = beside
    return nics, tuple(notes)


def _note_left_out(nics: tuple[Nic, ...], kept: tuple[Nic, ...], why: str) -> str:
    others = ", ".join(nic.name for nic in nics if nic not in kept)
    return f"Left out of the level 'node', as they are {why}: {others}."


def _ports(nics: tuple[Nic, ...], gpus: int) -> tuple[Entry, tuple[str, ...]]:
    ports = len(nics)
    if not ports:
        return Blank(None, "no NIC found"), ()
    if gpus % ports == 0 or ports % gpus == 0:
        return StatedValue(ports, f"{ports} NIC ports found"), ()
    fewer = max(number for number in range(1, ports) if gpus % number == 0 or number % gpus == 0)
    reason = f"{ports} NIC ports cannot be shared evenly by {gpus} GPUs; {fewer} can"
    return Blank(fewer, reason), (f"{reason}: the ports are left blank.",)


def _bandwidth(nics: tuple[Nic, ...], picture: NodePicture) -> Entry:
    rate = nics[0].bytes_per_second if nics else None
    if rate is None:
        return Blank(None, f"{picture.source} does not state the speed of the NICs")
    gigabits = rate / _GIGABIT
    text = f"{picture.source} says {gigabits:g} Gb/s"
    if rate <= FASTEST:
        return StatedValue(rate, f"{text} for {nics[0].name}", nics[0].default)
    return Blank(rate / 1000, f"{text}, which no NIC has: possibly 1000 times too much")


def _crossed_inner_levels(picture: NodePicture, inner: tuple[DraftLevel, ...]) -> tuple[str, ...]:
    """Return the inner levels that network traffic crosses: none with NVLink, else PCIe links."""
    if picture.links.direct or picture.links.switched is not None or not picture.links.known:
        return ()
    inside = {group.name: group.nics_inside for group in picture.groups}
    crossed = [level.name for level in inner[:-1] if not inside.get(level.name, True)]
    return (*crossed, inner[-1].name)
