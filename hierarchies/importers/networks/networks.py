"""Drafts of tiers of hosts: levels with known counts and mostly blank links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from hierarchies.errors import InputError
from hierarchies.files.schema import MachineException
from hierarchies.importers.claims import Claim
from hierarchies.importers.contents import Contents, Unit
from hierarchies.importers.draft import (
    Blank,
    Draft,
    DraftLevel,
    Entry,
    ImportOptions,
    StatedValue,
)
from hierarchies.importers.hostlist import shorten_list
from hierarchies.importers.nccl_rates import NETWORK
from hierarchies.importers.networks.tiers import Host, Tiers, add_groups, largest_even_part

NODE = "node"
_UPLINKS = "Without oversubscription, a unit has as many uplinks as its nodes have NICs."
_MOST_SHORT, _MOST_TIERS_SHOWN = 8, 4


@dataclass(frozen=True)
class Ports:
    """The ports of one child of a level: number and bandwidth, if known."""

    count: Entry
    bandwidth_bytes_per_second: Entry


@dataclass(frozen=True)
class HostGroups:
    """The group of each host, by the host's name."""

    name: str
    of: Mapping[str, str]


@dataclass(frozen=True)
class SlowerUnit:
    """A unit with a share of the usual bandwidth: a host with 7 of 8 cables has 0.875."""

    level: str
    unit: str
    share: float
    source: str


@dataclass(frozen=True)
class NetworkFacts:
    """A network file's facts in addition to its tiers.

    They are its source, links by level and their medium, notes, and counts. ``devices`` is the
    number of devices of each host, by name, empty if the file does not state it; ``models`` has the
    names of these devices.
    """

    name: str
    source: str
    domain: Entry | None = None
    ports: Mapping[str, Ports] = field(default_factory=dict)
    slower: tuple[SlowerUnit, ...] = ()
    notes: tuple[str, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    medium: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


def draft_network(
    tiers: Tiers,
    facts: NetworkFacts,
    options: ImportOptions,
    accelerators: Sequence[HostGroups] = (),
) -> Draft:
    """Return a draft of a network whose innermost units are its nodes or accelerator domains.

    ``accelerators`` are groups of nodes joined by more than the network (NVLink), the largest
    groups first. If they are the innermost units, they are the devices, and ``--inside`` describes
    one group; else they are a level like others.

    Raises InputError if ``options.nodes`` differs from the file's number, and if the units differ
    so much that a system of equal units would be twice the size.
    """
    check_nodes(len(tiers.hosts), options)
    hosts, innermost, notes = _add_accelerators(tiers.trimmed(), accelerators)
    units = hosts if innermost == NODE else hosts.without_hosts()
    draft = _draft_of_tiers(units, innermost, _members(hosts, units), facts, notes)
    covering = [groups for groups in accelerators if len({*groups.of.values()}) == 1]
    if innermost != NODE or not covering or len(covering[0].of) < len(tiers.hosts):
        return draft
    name, (label,) = covering[0].name, {*covering[0].of.values()}
    single = Tiers((name,), tuple(Host(host.name, (label,)) for host in tiers.hosts))
    return replace(draft, wider=draft_group_network(single, facts, name))


def draft_group_network(tiers: Tiers, facts: NetworkFacts, name: str) -> Draft:
    """Return the draft of a network whose innermost units are the groups of the innermost tier.

    Use it for hosts whose groups are machines (NVLink between the hosts), called ``name``.
    """
    groups = tiers.without_hosts()
    return _draft_of_tiers(groups, name, _members(tiers, groups), facts, ())


def _members(tiers: Tiers, units: Tiers) -> Mapping[str, tuple[str, ...]]:
    """Return the hosts of each innermost unit, by the unit's name: itself, or a group of hosts."""
    if units is tiers:
        return {host.name: (host.name,) for host in tiers.hosts}
    members: defaultdict[str, list[str]] = defaultdict(list)
    for host in tiers.hosts:
        members["/".join(host.path)].append(host.name)
    return {name: tuple(hosts) for name, hosts in members.items()}


def _draft_of_tiers(
    even: Tiers,
    innermost: str,
    members: Mapping[str, tuple[str, ...]],
    facts: NetworkFacts,
    notes: Sequence[str],
) -> Draft:
    names, counts = (*even.names, innermost), even.full()
    advice = _advice(innermost)
    outer = (_UPLINKS,) if even.names else ()
    return Draft(
        facts.name,
        f"{facts.source}: {_product(counts, names)}",
        tuple(_level(names, counts, position, facts) for position in range(len(names))),
        notes=(*facts.notes, *notes, *_note_unevenness(even, names), advice, *outer),
        counted={"nodes": sum(map(len, members.values())), **facts.counted},
        lacks=_lacks(even, names, facts),
        claims=facts.claims,
        models=facts.models,
        contents=_contents(even, names, members, facts),
        advice=advice,
    )


def _contents(
    tiers: Tiers, names: Sequence[str], members: Mapping[str, tuple[str, ...]], facts: NetworkFacts
) -> Contents:
    digits = tiers.numbers()
    units = []
    for host in tiers.hosts:
        hosts = members[host.name]
        counts = tuple(facts.devices[name] for name in hosts) if facts.devices else ()
        devices = sum(counts) if counts else None
        units.append(Unit(_path(names, digits[*host.path, host.name]), len(hosts), devices, counts))
    return Contents(names[-1], facts.source, tuple(units))


def _path(names: Sequence[str], digits: Sequence[int]) -> str:
    return "/".join(f"{name}{digit}" for name, digit in zip(names, digits, strict=False))


def _lacks(tiers: Tiers, names: Sequence[str], facts: NetworkFacts) -> tuple[MachineException, ...]:
    """Return missing or slower units, by the numbers of the draft's units."""
    if not tiers.uneven and not facts.slower:
        return ()
    missing = [
        MachineException.of(_path(names, digits), facts.source) for digits in tiers.missing()
    ]
    labels = {(names[len(u) - 1], u[-1]): digits for u, digits in tiers.numbers().items() if u}
    slower = [
        MachineException.of(_path(names, labels[slow.level, slow.unit]), slow.source, slow.share)
        for slow in facts.slower
        if (slow.level, slow.unit) in labels
    ]
    return (*missing, *slower)


def _add_accelerators(
    tiers: Tiers, accelerators: Sequence[HostGroups]
) -> tuple[Tiers, str, tuple[str, ...]]:
    """Return the tiers of hosts, the kind of innermost units (nodes or domains), and notes."""
    notes, last, name = [], None, ""
    for groups in accelerators:
        grouped = add_groups(tiers, groups.name, groups.of)
        tiers, last, name = grouped.tiers, grouped.tier, groups.name
        notes.append(grouped.note)
    if last is None or last != len(tiers.names) - 1:
        return tiers, NODE, tuple(notes)
    sizes = sorted(set(tiers.children(len(tiers.names)).values()))
    notes.append(
        f"The nodes of one {name} ({' or '.join(map(str, sizes))}) also have other "
        "links (NVLink), so "
        f"a {name} is the innermost unit here."
    )
    return tiers, name, tuple(notes)


def check_nodes(count: int, options: ImportOptions) -> None:
    """Raise InputError if the user asks for another number of nodes than the file has."""
    if options.nodes not in (None, count):
        raise InputError(
            f"--nodes {options.nodes}, but there are {count} nodes in the file",
            hint="remove --nodes",
        )


def cable_level(
    name: str, domain: str, count: Entry | None, source: str, ports: int | None = None
) -> DraftLevel:
    """Return a level whose children are joined by cables between neighbours: a ring or torus."""
    return DraftLevel(
        name,
        StatedValue(domain, source),
        Blank(source="of one link between neighbours, per direction"),
        NETWORK["latency_us"],
        count,
        None if ports is None else StatedValue(ports, "every device has its own link"),
    )


def _level(
    names: Sequence[str], counts: Sequence[int], position: int, facts: NetworkFacts
) -> DraftLevel:
    name = names[position]
    ports = facts.ports.get(name) or _blank_ports(name, position == len(names) - 1)
    return DraftLevel(
        name,
        facts.domain or StatedValue("switch", facts.source),
        ports.bandwidth_bytes_per_second,
        count=StatedValue(counts[position], facts.source),
        ports=ports.count,
        through=tuple(names[position + 1 :]),
        medium=facts.medium,
    ).having(NETWORK)


def _blank_ports(name: str, innermost: bool) -> Ports:
    if innermost:
        return Ports(
            Blank(source=f"number of NICs of a {name} for this network"),
            Blank(source="of one NIC, per direction: 400 Gb/s are 50 GB/s"),
        )
    return Ports(
        Blank(source=f"number of uplinks of all switches of one {name}"),
        Blank(source="of one uplink, per direction: 400 Gb/s are 50 GB/s"),
    )


def _advice(unit: str) -> str:
    return (
        f"What is inside a {unit} is not in this file: without --inside (my-{unit}.toml, "
        f"or a name of the catalogue) a device is a whole {unit}."
    )


def _note_unevenness(tiers: Tiers, names: Sequence[str]) -> tuple[str, ...]:
    """Return notes on units with fewer children than others.

    Raises InputError if they differ too much.
    """
    if not tiers.uneven:
        return ()
    full, count = tiers.full(), len(tiers.hosts)
    part = largest_even_part(tiers)
    spelled = f"{_product(part, names)} = {prod(part)} of the {count}"
    short = "; ".join(_short_units(tiers, names))
    if prod(full) >= 2 * count:
        raise InputError(
            f"the units differ too much to be levels: {short}",
            hint=f"a part with equal units has {spelled}",
        )
    note = (
        f"Units have different sizes: {short}. The description below is of "
        f"{_product(full, names)} = {prod(full)}, {prod(full) - count} more than "
        "there are, which its "
        f"exceptions remove; a part with equal units has {spelled}."
    )
    return (note,)


def _product(counts: Sequence[int], names: Sequence[str]) -> str:
    return " x ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))


def _short_units(tiers: Tiers, names: Sequence[str]) -> list[str]:
    """Return for each tier, the units with fewer children than the fullest one."""
    texts = []
    for tier, most in enumerate(tiers.full()):
        children = tiers.children(tier)
        short = {path: count for path, count in children.items() if count < most}
        if short:
            listed = (f"{path[-1]} has {count}" for path, count in short.items())
            texts.append(
                f"of {len(children)} at level {names[tier - 1]}, {len(children) - len(short)} have "
                f"{most} {names[tier]}, {shorten_list(listed, _MOST_SHORT)}"
            )
    return texts[:_MOST_TIERS_SHOWN]
