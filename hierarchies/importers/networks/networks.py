"""Tiers of hosts as the levels of a draft: counts that are known, links that are mostly blank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from hierarchies.errors import InputError
from hierarchies.importers.claims import Claim
from hierarchies.importers.contents import Contents, Unit
from hierarchies.importers.draft import Blank, Draft, DraftLevel, Entry, Lack, Stated
from hierarchies.importers.hostlist import listed
from hierarchies.importers.networks.tiers import Host, Tiers, largest_even_part, with_groups
from hierarchies.importers.options import Options
from hierarchies.importers.suggestions import NETWORK

NODE = "node"
_UPLINKS = "Where nothing is oversubscribed, a unit has as many uplinks as its nodes have NICs."
_MOST_SHORT, _MOST_TIERS_SHOWN, _MOST_LACKS = 8, 4, 1000


@dataclass(frozen=True)
class Ports:
    """The ports of one child of a level: their number and bandwidth, as far as they are known."""

    count: Entry
    bandwidth_bytes_per_second: Entry


@dataclass(frozen=True)
class Groups:
    """The group that each host is in, by the host's name."""

    name: str
    of: Mapping[str, str]


@dataclass(frozen=True)
class Slower:
    """A unit with a share of the usual bandwidth: a host with 7 of 8 cables has 0.875."""

    level: str
    unit: str
    share: float
    source: str


@dataclass(frozen=True)
class Facts:
    """What a file says beside its tiers: its source, links by level and their medium, notes, plain
    counts.

    ``devices``: how many devices each host has, by its name, empty if the file does not say;
    ``models`` what those are called.
    """

    name: str
    source: str
    domain: Entry | None = None
    ports: Mapping[str, Ports] = field(default_factory=dict)
    slower: tuple[Slower, ...] = ()
    notes: tuple[str, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    medium: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


def network(
    tiers: Tiers, facts: Facts, options: Options, accelerators: Sequence[Groups] = ()
) -> Draft:
    """The draft of a network whose innermost level are its nodes, or its accelerator domains.

    ``accelerators`` group nodes that are joined by more than the network (NVLink), the largest
    groups first. Where they are the innermost units, they are the devices, and ``--inside``
    describes one; else they are a level like others.

    Raises InputError where ``options.nodes`` is another number than the file's, and where the
    units are so unlike that a system of equal ones would be twice as large as what there is.
    """
    check_nodes(len(tiers.hosts), options)
    hosts, innermost, notes = _with_accelerators(tiers.trimmed(), accelerators)
    units = hosts if innermost == NODE else hosts.without_hosts()
    draft = _drafted(units, innermost, _members(hosts, units), facts, notes)
    whole = [groups for groups in accelerators if len({*groups.of.values()}) == 1]
    if innermost != NODE or not whole or len(whole[0].of) < len(tiers.hosts):
        return draft
    name, (label,) = whole[0].name, {*whole[0].of.values()}
    one = Tiers((name,), tuple(Host(host.name, (label,)) for host in tiers.hosts))
    return replace(draft, wider=network_of_groups(one, facts, name))


def network_of_groups(tiers: Tiers, facts: Facts, name: str) -> Draft:
    """The draft of a network whose innermost units are the groups of the innermost tier.

    For hosts of which a group is one machine (NVLink between them), called ``name``.
    """
    groups = tiers.without_hosts()
    return _drafted(groups, name, _members(tiers, groups), facts, ())


def _members(tiers: Tiers, units: Tiers) -> Mapping[str, tuple[str, ...]]:
    """The hosts of each innermost unit, by the unit's name: a host itself, or a group of hosts."""
    if units is tiers:
        return {host.name: (host.name,) for host in tiers.hosts}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for host in tiers.hosts:
        found["/".join(host.path)].append(host.name)
    return {name: tuple(hosts) for name, hosts in found.items()}


def _drafted(
    even: Tiers,
    innermost: str,
    members: Mapping[str, tuple[str, ...]],
    facts: Facts,
    notes: Sequence[str],
) -> Draft:
    names, counts = (*even.names, innermost), even.full()
    advice = _advice(innermost)
    outer = (_UPLINKS,) if even.names else ()
    return Draft(
        facts.name,
        f"{facts.source}: {_product(counts, names)}",
        tuple(_level(names, counts, position, facts) for position in range(len(names))),
        notes=(*facts.notes, *notes, *_unevenness(even, names), advice, *outer),
        counted={"nodes": sum(map(len, members.values())), **facts.counted},
        lacks=_lacks(even, names, facts),
        claims=facts.claims,
        models=facts.models,
        contents=_contents(even, names, members, facts),
        advice=advice,
    )


def _contents(
    tiers: Tiers, names: Sequence[str], members: Mapping[str, tuple[str, ...]], facts: Facts
) -> Contents:
    digits = tiers.numbers()
    units = []
    for host in tiers.hosts:
        hosts = members[host.name]
        each = tuple(facts.devices[name] for name in hosts) if facts.devices else ()
        devices = sum(each) if each else None
        units.append(Unit(_path(names, digits[*host.path, host.name]), len(hosts), devices, each))
    return Contents(names[-1], facts.source, tuple(units))


def _path(names: Sequence[str], digits: Sequence[int]) -> str:
    return "/".join(f"{name}{digit}" for name, digit in zip(names, digits, strict=False))


def _lacks(tiers: Tiers, names: Sequence[str], facts: Facts) -> tuple[Lack, ...]:
    """What is missing or slower, in the numbers of the draft's units."""
    if not tiers.uneven and not facts.slower:
        return ()
    missing = [Lack(_path(names, digits), facts.source) for digits in tiers.missing()]
    labels = {(names[len(u) - 1], u[-1]): digits for u, digits in tiers.numbers().items() if u}
    slower = [
        Lack(_path(names, labels[found.level, found.unit]), found.source, found.share)
        for found in facts.slower
        if (found.level, found.unit) in labels
    ]
    lacks = (*missing, *slower)
    if len(lacks) > _MOST_LACKS:
        raise InputError(
            f"{len(lacks):,} units are missing or slower",
            hint=f"at most {_MOST_LACKS:,} are listed; import a part of the cluster",
        )
    return lacks


def _with_accelerators(
    tiers: Tiers, accelerators: Sequence[Groups]
) -> tuple[Tiers, str, tuple[str, ...]]:
    """The tiers of hosts, what their innermost units are (nodes or domains), and notes on both."""
    notes, last, name = [], None, ""
    for groups in accelerators:
        grouped = with_groups(tiers, groups.name, groups.of)
        tiers, last, name = grouped.tiers, grouped.tier, groups.name
        notes.append(grouped.note)
    if last is None or last != len(tiers.names) - 1:
        return tiers, NODE, tuple(notes)
    sizes = sorted(set(tiers.children(len(tiers.names)).values()))
    notes.append(
        f"The nodes of one {name} ({' or '.join(map(str, sizes))}) are joined by more than this "
        f"network (NVLink), so a {name} is the innermost unit here."
    )
    return tiers, name, tuple(notes)


def check_nodes(found: int, options: Options) -> None:
    """Raises InputError if the user asks for another number of nodes than a file has."""
    if options.nodes not in (None, found):
        raise InputError(
            f"--nodes {options.nodes}, but there are {found} nodes in the file",
            hint="leave --nodes out",
        )


def cable(
    name: str, domain: str, count: Entry | None, source: str, ports: int | None = None
) -> DraftLevel:
    """A level whose children are joined by cables between neighbours: a ring or torus."""
    return DraftLevel(
        name,
        Stated(domain, source),
        Blank(source="of one link between neighbours, per direction"),
        NETWORK["latency_us"],
        count,
        None if ports is None else Stated(ports, "every device has a link of its own"),
    )


def _level(names: Sequence[str], counts: Sequence[int], position: int, facts: Facts) -> DraftLevel:
    name = names[position]
    ports = facts.ports.get(name) or _blank_ports(name, position == len(names) - 1)
    return DraftLevel(
        name,
        facts.domain or Stated("switch", facts.source),
        ports.bandwidth_bytes_per_second,
        count=Stated(counts[position], facts.source),
        ports=ports.count,
        through=tuple(names[position + 1 :]),
        medium=facts.medium,
    ).having(NETWORK)


def _blank_ports(name: str, innermost: bool) -> Ports:
    if innermost:
        return Ports(
            Blank(source=f"how many NICs a {name} has for this network"),
            Blank(source="of one NIC, per direction: 400 Gb/s are 50 GB/s"),
        )
    return Ports(
        Blank(source=f"how many uplinks the switches of one {name} have together"),
        Blank(source="of one uplink, per direction: 400 Gb/s are 50 GB/s"),
    )


def _advice(unit: str) -> str:
    return (
        f"What is inside a {unit} is not in this file: without --inside (my-{unit}.toml, "
        f"or a name of the catalogue) a device is a whole {unit}."
    )


def _unevenness(tiers: Tiers, names: Sequence[str]) -> tuple[str, ...]:
    """Notes on units with fewer children than others. Raises InputError for a wild mixture."""
    if not tiers.uneven:
        return ()
    full, there = tiers.full(), len(tiers.hosts)
    part = largest_even_part(tiers)
    spelled = f"{_product(part, names)} = {prod(part)} of the {there}"
    short = "; ".join(_short_units(tiers, names))
    if prod(full) >= 2 * there:
        raise InputError(
            f"the units are too unlike to be levels: {short}",
            hint=f"a part where all are alike has {spelled}",
        )
    note = (
        f"Not all units are equally large: {short}. The description below is of "
        f"{_product(full, names)} = {prod(full)}, {prod(full) - there} more than there are, which "
        f"its exceptions take away; a part where all are alike has {spelled}."
    )
    return (note,)


def _product(counts: Sequence[int], names: Sequence[str]) -> str:
    return " x ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))


def _short_units(tiers: Tiers, names: Sequence[str]) -> list[str]:
    """For each tier, the units that have fewer children than the fullest one."""
    texts = []
    for tier, most in enumerate(tiers.full()):
        children = tiers.children(tier)
        short = {path: count for path, count in children.items() if count < most}
        if short:
            each = (f"{path[-1]} has {count}" for path, count in short.items())
            texts.append(
                f"of {len(children)} at level {names[tier - 1]}, {len(children) - len(short)} have "
                f"{most} {names[tier]}, {listed(each, _MOST_SHORT)}"
            )
    return texts[:_MOST_TIERS_SHOWN]
