"""Parses Slurm's topology.yaml, of whose topologies the cluster's default one is read.

The keys are those of Slurm's manual page topology.yaml(5). Rings and tori came with Slurm 26.05:
the keys of their entries are known (``nodes``, ``dims``, ``regions``), and any key is accepted for
their list.
"""

from __future__ import annotations

from typing import Any

from hierarchies.errors import InputError, error_context, suggest_nearest
from hierarchies.importers.hostlist import HostlistExpander, shorten_list
from hierarchies.importers.networks.tiers import Switch
from hierarchies.importers.slurm.conf import NodeGroup, SlurmLayout, Torus, hosts_of, sizes_note
from hierarchies.importers.structured import parse_yaml, require_mapping

_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_TRUE = frozenset({"true", "yes", "on"})
_LONGEST_NUMBER = 9


def parse_topology_yaml(text: str) -> SlurmLayout:
    """The topology that the cluster uses, with a note of the others.

    Raises InputError for text that is no topology.yaml and for a flat topology, which does not say
    where nodes are.
    """
    topologies = parse_yaml(text)
    if not isinstance(topologies, list) or not topologies:
        raise InputError(
            "no list of topologies", hint="a topology.yaml begins with '- topology: name'"
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
        f"several topologies and none is the cluster's default: {names}",
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
            return SlurmLayout(switches=tuple(_switch(s, names) for s in switches), notes=notes)
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
        "the topology is flat: it says nothing of where nodes are",
        hint="ibnetdiscover, or the labels of Kubernetes nodes, may say it",
    )


def _switch(entry: dict[str, Any], names: HostlistExpander) -> Switch:
    name = _text(entry.get("switch"), "switch")
    children, nodes = (_hosts(entry.get(key), key, names) for key in ("children", "nodes"))
    if children and nodes:
        raise InputError(
            f"switch {name!r} has both of children and nodes", hint="a switch names one of the two"
        )
    return Switch(name, children, nodes)


def _group(entry: dict[str, Any], key: str, names: HostlistExpander) -> NodeGroup:
    return NodeGroup(_text(entry.get(key), key), _hosts(entry.get("nodes"), "nodes", names))


def _hosts(value: Any, subject: str, names: HostlistExpander) -> tuple[str, ...]:
    """The names of one hostlist or of a list of them; none if the value is missing."""
    return hosts_of(_text(value, subject), names) if value else ()


def _torus(entry: dict[str, Any], names: HostlistExpander) -> Torus:
    """A torus that its nodes fill, as Slurm requires; the first is at 0, 0, 0, x runs fastest."""
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
            hint=f"{x * y * z} fill it",
        )
    return Torus(name, (x, y, z))


def _entries_of_section(section: Any, subject: str) -> list[dict[str, Any]]:
    """The entries of a section: its only list, under any key, or the section itself."""
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
    """A text, or a list of texts as one hostlist."""
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
