"""Parses Slurm's topology.conf, and the output of ``scontrol show topology``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hierarchies.errors import InputError, suggest_nearest
from hierarchies.importers.hostlist import HostlistExpander
from hierarchies.importers.networks.tiers import Switch
from hierarchies.importers.structured import BEGINNING

_PAIR = re.compile(
    r"\s*([A-Za-z][A-Za-z_0-9]{0,40})\s*="
    r'\s*("[^"]*"|(?![A-Za-z][A-Za-z_0-9]{0,40}\s*=)[^\s"]+|)'
)
_KEYS = {
    key.lower(): key
    for key in (
        "SwitchName",
        "Switches",
        "Nodes",
        "LinkSpeed",
        "Level",
        "BlockName",
        "BlockSizes",
        "BlockIndex",
        "BlockSize",
        "AggregatedBlock",
        "RingName",
    )
}
_LONGEST_LINE = 1_000_000
_MOST_LINES = 500_000
SPEED_NOTE = "LinkSpeed is not taken: Slurm does not use it, and it has no unit."


def sizes_note(sizes: str) -> str:
    """A note on why Slurm's block sizes are no levels."""
    return f"BlockSizes {sizes} are the sizes that Slurm plans with; they say nothing of links."


@dataclass(frozen=True)
class ConfLine:
    """One line that is not blank: its number, and its values by canonical keys."""

    number: int
    values: Mapping[str, str]


def parse_lines(text: str) -> Iterator[ConfLine]:
    """The settings of a topology.conf. Raises InputError for an invalid line, and for too many."""
    _check_length(text)
    pending, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].rstrip()
        first = first or number
        if len(pending) + len(line) > _LONGEST_LINE:
            raise InputError("the line is too long", where=f"line {first}")
        if line.endswith("\\"):
            pending += f"{line[:-1]} "
            continue
        if (pending + line).strip():
            yield ConfLine(first, _values(pending + line, first))
        pending, first = "", 0
    if pending.strip():
        yield ConfLine(first, _values(pending, first))


def check_beginning(text: str) -> None:
    """Raise InputError for a text with too many lines, or whose first lines are no settings."""
    _check_length(text)
    head = text[:BEGINNING] if "\n" in text[:BEGINNING] else text[: 2 * _LONGEST_LINE]
    for _ in parse_lines(head if len(head) == len(text) else head.rpartition("\n")[0] or head):
        pass


def _check_length(text: str) -> None:
    if (count := text.count("\n")) > _MOST_LINES:
        raise InputError(f"{count} lines", hint=f"at most {_MOST_LINES} are read")


def _values(line: str, number: int) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while line[position:].strip():
        match = _PAIR.match(line, position)
        if not match:
            rest = line[position:].strip()
            raise InputError(
                f"{rest[:60]!r} is no setting of a topology.conf",
                where=f"line {number}",
                hint="lines are like SwitchName=s0 Nodes=dev[0-5]",
            )
        key = _KEYS.get(match[1].lower())
        if key is None:
            raise InputError(
                f"unknown key {match[1]!r}",
                where=f"line {number}",
                hint=suggest_nearest(match[1], _KEYS.values()),
            )
        if key in values:
            raise InputError(f"{key} is given twice", where=f"line {number}")
        values[key] = match[2].strip('"')
        position = match.end()
    return values


def parse_conf(text: str) -> SlurmLayout:
    """Parse a topology.conf. Keys are case-insensitive; ``LinkSpeed`` is noted, not used."""
    names = HostlistExpander()
    switches, blocks, rings, notes = [], [], [], []
    below: dict[str, tuple[int, int]] = {}
    for line in parse_lines(text):
        try:
            match line.values:
                case {"SwitchName": name}:
                    switch = _switch(name, line.values, names)
                    switches.append(replace(switch, hosts=()) if switch.below else switch)
                    if switch.below and switch.hosts:
                        below[name] = len({*switch.hosts}), line.number
                case {"BlockSizes": sizes}:
                    notes.append(sizes_note(sizes))
                case {"BlockName": name}:
                    blocks.append(NodeGroup(name, hosts_of(line.values.get("Nodes"), names)))
                case {"RingName": name}:
                    rings.append(NodeGroup(name, hosts_of(line.values.get("Nodes"), names)))
                case {"AggregatedBlock": _}:
                    continue
                case _:
                    raise InputError(
                        f"{', '.join(line.values)} without what it belongs to",
                        hint="lines are like SwitchName=s0 Nodes=dev[0-5]",
                    )
        except InputError as error:
            raise error.at(f"line {line.number}") from None
        if "LinkSpeed" in line.values and SPEED_NOTE not in notes:
            notes.append(SPEED_NOTE)
    return SlurmLayout(
        tuple(switches), tuple(blocks), tuple(rings), notes=tuple(notes), below=below
    )


def _switch(name: str, values: Mapping[str, str], names: HostlistExpander) -> Switch:
    below = hosts_of(values.get("Switches"), names)
    nodes = hosts_of(values.get("Nodes"), names)
    if below and nodes and "Level" not in values:
        raise InputError(
            f"switch {name!r} has Switches and Nodes", hint="a switch names one of the two"
        )
    return Switch(name, below, nodes)


_NOTHING = ("", "(null)", "none")


def hosts_of(text: str | None, names: HostlistExpander) -> tuple[str, ...]:
    """The names of a hostlist; none for the words that Slurm and its tools write for none."""
    return () if text is None or text.strip().lower() in _NOTHING else names.of(text)


@dataclass(frozen=True)
class NodeGroup:
    """A block or ring of nodes. One without nodes is only a placeholder."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Torus:
    """Nodes in a three-dimensional torus: the numbers in x, y and z."""

    name: str
    dimensions: tuple[int, int, int]


@dataclass(frozen=True)
class SlurmLayout:
    """Switches, blocks, rings or tori, as written; at least one of them is present.

    ``below``: for switches whose line lists nodes beside the switches below it (``scontrol show
    topology``), the number of nodes and of the line. ``counted``: the same for blocks whose nodes a
    comment counts.
    """

    switches: tuple[Switch, ...] = ()
    blocks: tuple[NodeGroup, ...] = ()
    rings: tuple[NodeGroup, ...] = ()
    tori: tuple[Torus, ...] = ()
    notes: tuple[str, ...] = ()
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_COUNT = re.compile(r"\s*#\s*Number of Nodes in block(\d{1,6}):\s*(\d{1,9})\s*", re.IGNORECASE)


def counted(text: str, blocks: Sequence[NodeGroup]) -> Mapping[str, tuple[int, int]]:
    """Nodes per block by the comments of Azure's azslurm, which numbers blocks from 1 in order.

    As of https://github.com/Azure/cyclecloud-slurm/pull/399, in both languages.
    """
    counts = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _COUNT.fullmatch(line)) and 0 < int(match[1]) <= len(blocks):
            counts[blocks[int(match[1]) - 1].name] = int(match[2]), number
    return counts
