"""Parses Slurm's topology.conf, topology.yaml, and the output of ``scontrol show topology``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.importers.hostlist import HostlistExpander, shorten_list
from hierarchies.importers.networks.tiers import Switch
from hierarchies.importers.structured import BEGINNING, check_lines, parse_yaml, require_mapping

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
_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_TRUE = frozenset({"true", "yes", "on"})
_LONGEST_NUMBER = 9
_NOTHING = ("", "(null)", "none")
_COUNT = re.compile(r"\s*#\s*Number of Nodes in block(\d{1,6}):\s*(\d{1,9})\s*", re.IGNORECASE)
_LONGEST_LINE = 1_000_000
_MOST_LINES = 500_000
SPEED_NOTE = "LinkSpeed is ignored: Slurm does not use it, and it has no unit."


def sizes_note(sizes: str) -> str:
    """Return a note on why Slurm's block sizes are no levels."""
    return f"BlockSizes {sizes} are sizes for Slurm's scheduling; they do not describe links."


@dataclass(frozen=True)
class ConfLine:
    """One line that is not blank: its number, and its values by canonical keys."""

    number: int
    values: Mapping[str, str]


def parse_lines(text: str) -> Iterator[ConfLine]:
    """Yield the settings of a topology.conf.

    Raises InputError for an invalid line, and for too many.
    """
    check_lines(text, _MOST_LINES)
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
    check_lines(text, _MOST_LINES)
    head = text[:BEGINNING] if "\n" in text[:BEGINNING] else text[: 2 * _LONGEST_LINE]
    for _ in parse_lines(head if len(head) == len(text) else head.rpartition("\n")[0] or head):
        pass


def _values(line: str, number: int) -> dict[str, str]:
    values: dict[str, str] = {}
    position = 0
    while line[position:].strip():
        match = _PAIR.match(line, position)
        if not match:
            rest = line[position:].strip()
            raise InputError(
                f"{rest[:60]!r} is not a setting of topology.conf",
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
                        f"{', '.join(line.values)}, but its line names no switch or block",
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
            f"switch {name!r} has Switches and Nodes", hint="give a switch one of the two"
        )
    return Switch(name, below, nodes)


def hosts_of(text: str | None, names: HostlistExpander) -> tuple[str, ...]:
    """Return the names of a hostlist; none for the words by which Slurm's tools denote none."""
    return () if text is None or text.strip().lower() in _NOTHING else names.of(text)


@dataclass(frozen=True)
class NodeGroup:
    """A block or ring of nodes. A group without nodes is only a placeholder."""

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

    ``below`` has, for switches whose line lists both nodes and the switches below it (``scontrol
    show topology``), the number of nodes and of the line. ``counted`` has the same for blocks whose
    nodes a comment counts.
    """

    switches: tuple[Switch, ...] = ()
    blocks: tuple[NodeGroup, ...] = ()
    rings: tuple[NodeGroup, ...] = ()
    tori: tuple[Torus, ...] = ()
    notes: tuple[str, ...] = ()
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def counted(text: str, blocks: Sequence[NodeGroup]) -> Mapping[str, tuple[int, int]]:
    """Return nodes per block by comments of Azure's azslurm, which numbers blocks from 1 on.

    As of https://github.com/Azure/cyclecloud-slurm/pull/399, in both languages.
    """
    counts = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if (match := _COUNT.fullmatch(line)) and 0 < int(match[1]) <= len(blocks):
            counts[blocks[int(match[1]) - 1].name] = int(match[2]), number
    return counts


def parse_topology_yaml(text: str) -> SlurmLayout:
    """Return the topology that the cluster uses, with a note of the others.

    The keys are those of Slurm's manual page topology.yaml(5). Rings and tori came with Slurm
    26.05: the keys of their entries are known (``nodes``, ``dims``, ``regions``), and any key is
    accepted for their list.

    Raises InputError for text that is no topology.yaml and for a flat topology, which does not say
    where nodes are.
    """
    topologies = parse_yaml(text)
    if not isinstance(topologies, list) or not topologies:
        raise InputError(
            "not a list of topologies", hint="a topology.yaml begins with '- topology: name'"
        )
    entries = [require_mapping(entry, "a topology") for entry in topologies]
    chosen = _choose_topology(entries)
    name = _text(chosen.get("topology"), "topology")
    others = [str(entry.get("topology")) for entry in entries if entry is not chosen]
    notes = (
        (f"other topologies of the file are left out: {shorten_list(others)}",) if others else ()
    )
    with error_context(f"topology {name!r}"):
        return _layout(chosen, notes)


def _choose_topology(entries: list[dict[str, Any]]) -> dict[str, Any]:
    for entry in entries:
        if str(entry.get("cluster_default")).lower() in _TRUE:
            return entry
    if len(entries) == 1:
        return entries[0]
    names = shorten_list(str(entry.get("topology")) for entry in entries)
    raise InputError(
        f"several topologies, none of them the cluster's default: {names}",
        hint="write cluster_default: true in one of them",
    )


def _layout(entry: dict[str, Any], notes: tuple[str, ...]) -> SlurmLayout:
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        unknown = [key for key in entry if key not in ("topology", "cluster_default")]
        hint = (
            suggest_nearest(unknown[0], _KINDS)
            if unknown and not kinds
            else "exactly one is needed"
        )
        raise InputError(f"a topology with {' and '.join(kinds) or 'no known type'}", hint=hint)
    names, kind = HostlistExpander(), kinds[0]
    match kind:
        case "tree":
            switches = _entries(require_mapping(entry[kind], kind).get("switches"), "switches")
            return SlurmLayout(
                switches=tuple(_yaml_switch(s, names) for s in switches), notes=notes
            )
        case "block":
            section = require_mapping(entry[kind], kind)
            blocks = _entries(section.get("blocks"), "blocks")
            sizes = section.get("block_sizes")
            if sizes:
                notes = (*notes, sizes_note(",".join(map(str, sizes))))
            return SlurmLayout(blocks=tuple(_group(b, "block", names) for b in blocks), notes=notes)
        case "ring":
            rings = tuple(
                _group(ring, "ring", names) for ring in _entries_of_section(entry[kind], kind)
            )
            return SlurmLayout(rings=rings, notes=notes)
        case "torus3d":
            tori = tuple(_torus(torus, names) for torus in _entries_of_section(entry[kind], kind))
            return SlurmLayout(tori=tori, notes=notes)
    raise InputError(
        "the topology is flat: it does not locate nodes",
        hint="ibnetdiscover, or the labels of Kubernetes nodes, may locate them",
    )


def _yaml_switch(entry: dict[str, Any], names: HostlistExpander) -> Switch:
    name = _text(entry.get("switch"), "switch")
    children, nodes = (_hosts(entry.get(key), key, names) for key in ("children", "nodes"))
    if children and nodes:
        raise InputError(
            f"switch {name!r} has both of children and nodes", hint="give a switch one of the two"
        )
    return Switch(name, children, nodes)


def _group(entry: dict[str, Any], key: str, names: HostlistExpander) -> NodeGroup:
    return NodeGroup(_text(entry.get(key), key), _hosts(entry.get("nodes"), "nodes", names))


def _hosts(value: Any, subject: str, names: HostlistExpander) -> tuple[str, ...]:
    """Return the names of one hostlist or of a list of them; none if the value is missing."""
    return hosts_of(_text(value, subject), names) if value else ()


def _torus(entry: dict[str, Any], names: HostlistExpander) -> Torus:
    """Return a torus filled by its nodes, as Slurm requires: from 0, 0, 0 on, x fastest."""
    name = next((str(v) for k, v in entry.items() if k in ("torus", "torus3d", "name")), "torus")
    dims = require_mapping(entry.get("dims"), "dims")
    x, y, z = (_number(dims.get(axis), f"dims, {axis}") for axis in "xyz")
    lists = [entry.get("nodes")]
    if entry.get("regions"):
        regions = _entries(entry["regions"], "regions")
        lists = [region.get("nodes") for region in regions]
    nodes = [node for hosts in lists for node in _hosts(hosts, "nodes", names)]
    if len(set(nodes)) != len(nodes):
        raise InputError(f"torus {name!r} has a node twice")
    if x * y * z != len(nodes):
        raise InputError(
            f"torus {name!r} of {x} x {y} x {z} has {len(nodes)} nodes",
            hint=f"{x * y * z} nodes fill it",
        )
    return Torus(name, (x, y, z))


def _entries_of_section(section: Any, subject: str) -> list[dict[str, Any]]:
    """Return the entries of a section: its only list, under any key, or the section itself."""
    if isinstance(section, dict):
        lists = [
            value
            for value in section.values()
            if isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
        ]
        if "nodes" in section or "dims" in section or not lists:
            return [section]
        return _entries(lists[0], subject)
    return _entries(section, subject)


def _entries(value: Any, subject: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise InputError(f"no {subject}", hint="a list with at least one entry is needed")
    return [require_mapping(entry, subject) for entry in value]


def _text(value: Any, subject: str) -> str:
    """Return a text, or a list of texts as one hostlist."""
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return ",".join(value)
    if not isinstance(value, str) or not value:
        raise InputError(f"no {subject}")
    return value


def _number(value: Any, subject: str) -> int:
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER or int(text) < 1:
        raise InputError(f"{subject} is {text[:40]!r}", hint="a whole number from 1")
    return int(text)
